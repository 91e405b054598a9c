//! Programs with threads, in C and in Rust, on each kernel: what threads do together, and each way
//! in which they end together.

use super::programs::{LOST, Running, back, pid_of, wrong};
use super::{Failure, PATIENCE, Rig};
use builds::apps;
use deploy::exec::{Captured, Line};
use deploy::install;
use std::ops::RangeInclusive;
use std::path::Path;
use tree::place::Place;

/// Programs of apps/corpus.toml.
const IN_C: &str = "threads";
const IN_RUST: &str = "threads-rust";
/// A program; what its letters do is described at its top.
const STORM: &str = "tests/programs/storm.wat";
/// Its letters, with the exit codes that are right.
const CODES: &[(&str, RangeInclusive<u8>)] = &[
    ("s", 9..=9),
    ("g", 0..=0),
    ("e", 101..=108),
    ("t", TRAPPED..=TRAPPED),
    ("o", TRAPPED..=TRAPPED),
    ("m", TRAPPED..=TRAPPED),
    ("r", TRAPPED..=TRAPPED),
    ("w", 9..=9),
];
const ROUNDS: usize = 2;
/// Exit code for a trap.
const TRAPPED: u8 = 134;
/// What `threads many` prints: as many as there can be, also after those have ended.
const MANY: &[u8] = b"63 threads, then 63\nok many\n";

/// Threads work on both kernels, on one core and on two. A program with threads ends completely:
/// afterwards there can be as many threads as before.
pub fn together(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, IN_C)?;
    put(rig, IN_RUST)?;
    for kernel in ["main", "shadow"] {
        succeeds(rig, kernel, IN_C, &["all"], b"ok join\nok mutex\nok tls\nok malloc\nok files\n")?;
        succeeds(
            rig,
            kernel,
            IN_RUST,
            &[],
            b"ok join\nok locks\nok channel\nok local\nok files\n",
        )?;
        ends_with(rig, kernel, &["exit", "5"], 5)?;
        ends_with(rig, kernel, &["main-returns"], 7)?;
        let trapped = ends_with(rig, kernel, &["trap"], TRAPPED)?;
        let said = String::from_utf8_lossy(&trapped.err);
        if !said.contains("unreachable") || !said.contains("in wasi_thread_start") {
            return Err(wrong("the report of a trap", said));
        }
        killed(rig, kernel)?;
        succeeds(rig, kernel, IN_C, &["many"], MANY)?;
    }
    Ok(())
}

/// Threads that mean harm ([`STORM`]), again and again on each kernel; the weak kernel dies while
/// threads compute. Both kernels still run as many threads as before.
pub fn harmful(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, IN_C)?;
    put_storm(rig)?;
    for kernel in ["main", "shadow"] {
        for _ in 0..ROUNDS {
            for &(what, ref codes) in CODES {
                let found = run(rig, kernel, "storm", &[what]).end()?;
                if !codes.contains(&found.code) {
                    return Err(wrong(&format!("storm {what} on {kernel}"), found));
                }
            }
        }
        succeeds(rig, kernel, IN_C, &["many"], MANY)?;
    }
    let running = run(rig, "shadow", IN_C, &["spin"]);
    pid_of(rig, "shadow", IN_C)?;
    // As `programs::main_knows`.
    ends_with(rig, "main", &["exit", "5"], 5)?;
    rig.kill("shadow")?;
    let found = running.end()?;
    if found.code != LOST {
        return Err(wrong("threads of a kernel that died", found));
    }
    back(rig)?;
    put(rig, IN_C)?;
    succeeds(rig, "shadow", IN_C, &["many"], MANY)
}

fn put_storm(rig: &Rig) -> Result<(), Failure> {
    let place = Place::find()?;
    let put = install::put(&place, &rig.instance, &place.root.join(STORM), None, "storm");
    put.map(|_| ()).map_err(|why| wrong("install", format!("{why:#}")))
}

pub(super) fn put(rig: &Rig, name: &str) -> Result<(), Failure> {
    put_with(rig, name, None)
}

/// The same with another manifest.
pub(super) fn put_with(rig: &Rig, name: &str, manifest: Option<&Path>) -> Result<(), Failure> {
    let place = Place::find()?;
    let built =
        apps::build_for_test(&place, name).map_err(|why| wrong("build", why.to_string()))?;
    let put = install::put(&place, &rig.instance, &built.wasm, manifest, name);
    put.map(|_| ()).map_err(|why| wrong("install", format!("{why:#}")))
}

fn run(rig: &Rig, kernel: &str, program: &str, arguments: &[&str]) -> Running {
    Running::of(&rig.instance, Line::on(kernel, program, arguments), b"")
}

pub(super) fn succeeds(
    rig: &Rig,
    kernel: &str,
    program: &str,
    arguments: &[&str],
    says: &[u8],
) -> Result<(), Failure> {
    let found = run(rig, kernel, program, arguments).end()?;
    let good = found.code == 0 && found.out == says && found.err.is_empty();
    if good { Ok(()) } else { Err(wrong(&format!("{program} {arguments:?} on {kernel}"), found)) }
}

fn ends_with(rig: &Rig, kernel: &str, arguments: &[&str], code: u8) -> Result<Captured, Failure> {
    let found = run(rig, kernel, IN_C, arguments).end()?;
    let what = || format!("{arguments:?} on {kernel}");
    if found.code == code { Ok(found) } else { Err(wrong(&what(), found)) }
}

/// A signal ends all threads, which compute.
fn killed(rig: &mut Rig, kernel: &str) -> Result<(), Failure> {
    let running = run(rig, kernel, IN_C, &["spin"]);
    let pid = pid_of(rig, kernel, IN_C)?;
    rig.ask("main", &format!("kill {pid} INT"), PATIENCE)?;
    let code = running.end()?.code;
    if code == 128 + 2 { Ok(()) } else { Err(wrong("spin, killed", code)) }
}
