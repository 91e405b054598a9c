//! Channels between programs, in C and in Rust: in one process, between two on one kernel, between
//! two on two kernels, and when a kernel dies.

use super::machine::until;
use super::programs::{Running, back, wrong};
use super::threads::{put, succeeds};
use super::{Failure, PATIENCE, Rig};
use deploy::exec::Line;

/// Programs of apps/corpus.toml, with the same modes.
const IN_RUST: &str = "channels";
const IN_C: &str = "channels-c";
const BOTH: [&str; 2] = [IN_RUST, IN_C];
/// The kernels of duo, in the order of their numbers.
const KERNELS: [&str; 2] = ["main", "shadow"];
const PINGS: &str = "ping 1 of 3\nping 2 of 3\nping 3 of 3\n";
const ECHOES: &str = "echo 1 of 3\necho 2 of 3\necho 3 of 3\n";
const ALONE_RUST: &str = "ok talk\nok order\nok close\nok carry\nok use\nok room\nok poll\n";
const ALONE_C: &str = "ok order\nok close\nok carry\nok room\nok poll\n";

fn ready(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    BOTH.iter().try_for_each(|program| put(rig, program))
}

/// One process has both ends.
fn alone(rig: &Rig, kernel: &str) -> Result<(), Failure> {
    succeeds(rig, kernel, IN_RUST, &["alone"], format!("{PINGS}{ALONE_RUST}").as_bytes())?;
    succeeds(rig, kernel, IN_C, &["alone"], ALONE_C.as_bytes())
}

/// A process on kernel `here` starts one on kernel `there`, with an end: each in either language.
/// They talk; they talk over a channel that one gives to the other; one of them breaks off.
fn two(rig: &Rig, here: usize, there: usize) -> Result<(), Failure> {
    let (kernel, there) = (KERNELS[here], there.to_string());
    for parent in BOTH {
        for child in BOTH {
            for (mode, says) in [("parent", PINGS), ("gives", ECHOES), ("leaves", "broken\n")] {
                succeeds(rig, kernel, parent, &[mode, &there, child], says.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Programs on each kernel.
pub fn together(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    for (number, kernel) in KERNELS.into_iter().enumerate() {
        alone(rig, kernel)?;
        two(rig, number, number)?;
    }
    Ok(())
}

/// Programs on two kernels, with either one as the parent: ends move when the child starts, and in
/// messages.
pub fn across(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    two(rig, 0, 1)?;
    two(rig, 1, 0)
}

/// A program serves a name, and another one on the same kernel or on the other finds it.
pub fn names(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    let says = format!("{ECHOES}{ECHOES}gone\n");
    for kernel in KERNELS {
        for there in ["0", "1"] {
            for child in BOTH {
                succeeds(rig, kernel, IN_RUST, &["names", there, child], says.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// The peer's kernel dies while a program waits for an answer: it learns that the channel is
/// broken. The kernel comes back, and programs talk again.
pub fn lost(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    for program in BOTH {
        let line = Line::on("main", program, &["waits", "1", program]);
        let waiting = Running::of(&rig.instance, line, b"");
        // The child says by a file that it has the message that it owes an answer to.
        until(rig, "fs ls", &format!("{program}.held"))?;
        rig.kill("shadow")?;
        let found = waiting.end()?;
        if found.code != 0 || found.out != b"waiting\n" {
            return Err(wrong("the peer of a program whose kernel died", found));
        }
        back(rig)?;
        BOTH.iter().try_for_each(|program| put(rig, program))?;
        succeeds(rig, "main", program, &["parent", "1", program], PINGS.as_bytes())?;
    }
    Ok(())
}

/// The two programs of docs/tutorial/two-programs.md, with the server on each kernel.
pub fn tutorial(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, "greet")?;
    put(rig, "greet-server")?;
    for kernel in ["0", "1"] {
        let says = format!("hello, Ada, says kernel {kernel}\nhello, Tom, says kernel {kernel}\n");
        succeeds(rig, "main", "greet", &[kernel, "Ada", "Tom"], says.as_bytes())?;
    }
    Ok(())
}
