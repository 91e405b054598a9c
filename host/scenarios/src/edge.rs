//! The end of a program's stack: what the kernel still has of it there.

use super::programs::{Running, wrong};
use super::{Failure, PATIENCE, Rig};
use deploy::exec::{Captured, Line};
use deploy::install;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use tree::place::Place;

/// A program; its calls are described at its top.
const EDGE: &str = "tests/programs/edge.wat";
const CALLS: &[&str] = &["open", "poll", "spawn", "write", "read", "grow"];
/// Exit code for a trap.
const TRAPPED: u8 = 134;
/// No program calls itself as often.
const TOO_DEEP: u32 = 1 << 16;
/// The functions on the way to a call take at most so many of its frames.
const FRAMES_OF_A_CALL: u32 = 64;
/// Bytes for the kernel on a program's stack, and how many of them may never be used.
const OWN: u64 = 64 << 10;
const SPARE: u64 = 16 << 10;

const SETTLES: Duration = Duration::from_millis(500);

/// A program that has used all of its stack makes the calls that need most of the kernel's part, on
/// each kernel. It succeeds, and a quarter of that part is left.
pub fn of_stack(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let place = Place::find()?;
    let put = install::put(&place, &rig.instance, &place.root.join(Path::new(EDGE)), None, "edge");
    put.map_err(|why| wrong("install", format!("{why:#}")))?;
    for (kernel, on) in [("main", ""), ("shadow", "on shadow ")] {
        let before = left(rig, on)?;
        if before != OWN {
            return Err(wrong("left before any program came near its limit", before));
        }
        let depth = deepest(rig, kernel, "none", 0..TOO_DEEP)?;
        for call in CALLS {
            deepest(rig, kernel, call, depth - FRAMES_OF_A_CALL..depth + 1)?;
        }
        // The trap itself, too.
        edge(rig, kernel, TOO_DEEP, "none")?;
        let after = left(rig, on)?;
        if !(SPARE..OWN).contains(&after) {
            return Err(wrong(&format!("bytes left on {kernel}"), after));
        }
    }
    Ok(())
}

fn edge(rig: &Rig, kernel: &str, depth: u32, call: &str) -> Result<Captured, Failure> {
    let line = Line::on(kernel, "edge", &[&depth.to_string(), call]);
    Running::of(&rig.instance, line, b"").end()
}

/// Returns how often the program can call itself and still make this call, which it does then. The
/// start of `depths` must not be too deep, the end must be.
fn deepest(rig: &Rig, kernel: &str, call: &str, depths: Range<u32>) -> Result<u32, Failure> {
    let (mut good, mut bad) = (depths.start, depths.end);
    let first = edge(rig, kernel, good, call)?;
    if first.code != 0 {
        return Err(wrong(&format!("{call} on {kernel}, {good} deep"), first.code));
    }
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        let found = edge(rig, kernel, middle, call)?;
        match found.code {
            0 => good = middle,
            TRAPPED => bad = middle,
            _ => return Err(wrong(&format!("{call} on {kernel}, {middle} deep"), found.code)),
        }
    }
    Ok(good)
}

/// Returns how many bytes of the kernel's part were never used. A stack counts when the thread of
/// its process has ended, shortly after the process.
fn left(rig: &mut Rig, on: &str) -> Result<u64, Failure> {
    std::thread::sleep(SETTLES);
    let said = rig.ask("main", &format!("{on}mem"), PATIENCE)?;
    let line = said.lines().find(|line| line.contains("bytes left of the"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| wrong("mem", said))
}
