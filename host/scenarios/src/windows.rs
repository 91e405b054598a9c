//! Windows: memory that two programs share, in C and in Rust, on one kernel and on two, and when a
//! kernel dies.

use super::machine::{demand, until};
use super::programs::{LOST, Running, back, wrong};
use super::threads::{put, succeeds};
use super::{Failure, PATIENCE, Rig};
use deploy::exec::Line;

/// Programs of apps/corpus.toml.
const IN_RUST: &str = "windows";
const IN_C: &str = "windows-c";
const BOTH: [&str; 2] = [IN_RUST, IN_C];
/// The kernels of duo, in the order of their numbers.
const KERNELS: [&str; 2] = ["main", "shadow"];

fn ready(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    BOTH.iter().try_for_each(|program| put(rig, program))
}

/// A process on kernel `here` shares memory with one on kernel `there`, each in either language.
fn two(rig: &Rig, here: usize, there: usize) -> Result<(), Failure> {
    let (kernel, there) = (KERNELS[here], there.to_string());
    for writer in BOTH {
        for reader in BOTH {
            succeeds(rig, kernel, writer, &["writes", &there, reader], b"written\n")?;
        }
    }
    succeeds(rig, kernel, IN_RUST, &["copies", &there], b"copied\n")?;
    succeeds(rig, kernel, IN_RUST, &["leaves", &there], b"left\n")
}

/// No window is left, and nothing that belonged to one.
fn none_is_left(rig: &mut Rig) -> Result<(), Failure> {
    for kernel in ["", "on shadow "] {
        until(rig, &format!("{kernel}channels"), "windows   0 shared")?;
        demand(rig, &format!("{kernel}channels"), "blocks    0 kept")?;
        demand(rig, &format!("{kernel}audit"), "the invariant holds")?;
    }
    Ok(())
}

/// Programs on each kernel, and on both.
pub fn together(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    for (here, kernel) in KERNELS.into_iter().enumerate() {
        succeeds(rig, kernel, IN_RUST, &["alone"], b"ok alone\n")?;
        succeeds(rig, kernel, IN_C, &["storm"], b"over\n")?;
        two(rig, here, 0)?;
        two(rig, here, 1)?;
    }
    none_is_left(rig)
}

/// One kernel, without memory for blocks that others can read.
pub fn single(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    succeeds(rig, "main", IN_RUST, &["alone"], b"ok alone\n")?;
    succeeds(rig, "main", IN_C, &["storm"], b"over\n")?;
    two(rig, 0, 0)
}

/// The kernel dies whose program has made a window: its reader learns that, and has the last copy.
/// The same for the reader's kernel: the writer's part is still there.
pub fn lost(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    let line = Line::on("main", IN_RUST, &["outlives", "1"]);
    let reading = Running::of(&rig.instance, line, b"");
    until(rig, "fs ls", "windows.read")?;
    demand(rig, "on shadow channels", "windows   1 shared, 262144 B")?;
    demand(rig, "on shadow audit", "the invariant holds")?;
    rig.kill("shadow")?;
    let found = reading.end()?;
    // The death may take the process table, too: then its exit code is not known.
    if ![0, LOST].contains(&found.code) {
        return Err(wrong("the reader of a window whose kernel died", found));
    }
    back(rig)?;
    BOTH.iter().try_for_each(|program| put(rig, program))?;
    two(rig, 0, 1)?;
    none_is_left(rig)
}
