//! Blocks of memory that move between kernels: contents, the invariant, sleep and death.

use super::machine::demand;
use super::peers::wait_for;
use super::{Failure, PATIENCE, Rig};
use abi::soc::state;
use std::time::{Duration, Instant};

/// Pages of a test: more than fit into a block, so that two are in use.
const PAGES: usize = 5000;

/// Both kernels claim blocks from the two ends, fill them, release them, and claim those that the
/// other one had. A kernel that dies leaves no trace.
pub fn to_and_fro(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "balloon", "47 blocks of 16 MiB, 46 free")?;
    let (low, high) = ([0, 1], [46, 45]);
    take_and_fill(rig, "", low)?;
    take_and_fill(rig, "on shadow ", high)?;
    demand(rig, "balloon", "47 blocks of 16 MiB, 42 free; 5000 pages")?;
    demand(rig, "on shadow balloon", "local main")?;
    give_and_check(rig, "", low)?;
    give_and_check(rig, "on shadow ", high)?;
    demand(rig, "balloon", "47 blocks of 16 MiB, 46 free")?;
    demand(rig, "balloon inflate", "we have no block")?;
    meet(rig)?;
    death(rig)?;
    demand(rig, "bench balloon 16", "record balloon.inflate_75")?;
    for kernel in ["", "on shadow "] {
        demand(rig, &format!("{kernel}audit"), "the invariant holds")?;
    }
    Ok(())
}

fn block(rig: &mut Rig, line: &str, index: usize, what: &str) -> Result<(), Failure> {
    let answer = demand(rig, line, &format!("block {index} is {what}"))?;
    if answer.contains("the invariant holds") {
        return Ok(());
    }
    Err(Failure::Wrong(format!("`{line}`: {answer}")))
}

fn take_and_fill(rig: &mut Rig, kernel: &str, blocks: [usize; 2]) -> Result<(), Failure> {
    for index in blocks {
        block(rig, &format!("{kernel}balloon deflate"), index, "ours")?;
    }
    demand(rig, &format!("{kernel}balloon fill {PAGES}"), &format!("{PAGES} pages made"))?;
    checked(rig, kernel)
}

fn checked(rig: &mut Rig, kernel: &str) -> Result<(), Failure> {
    let wanted = format!("{PAGES} pages, 0 wrong");
    demand(rig, &format!("{kernel}balloon check"), &wanted).map(|_| ())
}

/// Releases blocks in reverse order; their contents move to other memory.
fn give_and_check(rig: &mut Rig, kernel: &str, blocks: [usize; 2]) -> Result<(), Failure> {
    for index in blocks.into_iter().rev() {
        block(rig, &format!("{kernel}balloon inflate"), index, "free")?;
        checked(rig, kernel)?;
    }
    demand(rig, &format!("{kernel}balloon drop"), "0 left").map(|_| ())
}

/// One kernel fills, with its own data, blocks that the other has dirtied and released, and the
/// reverse.
fn meet(rig: &mut Rig) -> Result<(), Failure> {
    // All but two, and the shared one: main's frontier reaches blocks that were shadow's.
    for _ in 0..44 {
        demand(rig, "balloon deflate", "is ours")?;
    }
    block(rig, "on shadow balloon deflate", 46, "ours")?;
    block(rig, "on shadow balloon deflate", 45, "ours")?;
    demand(rig, "on shadow balloon deflate", "no block is free")?;
    demand(rig, "balloon fill 5000", "5000 pages made")?;
    block(rig, "balloon inflate", 44, "free")?;
    checked(rig, "")?;
    block(rig, "on shadow balloon deflate", 44, "ours")?;
    demand(rig, "on shadow balloon fill 5000", "5000 pages made")?;
    block(rig, "on shadow balloon inflate", 44, "free")?;
    checked(rig, "on shadow ")?;
    block(rig, "balloon deflate", 44, "ours")?;
    checked(rig, "")?;
    for kernel in ["", "on shadow "] {
        demand(rig, &format!("{kernel}balloon drop"), "0 left")?;
    }
    for _ in 0..44 {
        demand(rig, "balloon inflate", "is free")?;
    }
    Ok(())
}

/// Repeats a command until the answer contains `wanted`.
fn eventually(rig: &mut Rig, line: &str, wanted: &str) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let answer = rig.ask("main", line, PATIENCE)?;
        if answer.contains(wanted) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong(format!("`{line}` never says {wanted:?}: {answer}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Shadow dies with two blocks, and is powered off and on with two.
fn death(rig: &mut Rig) -> Result<(), Failure> {
    let before = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    demand(rig, "balloon", "44 free")?;
    rig.kill("shadow")?;
    wait_for(rig, "came back", |now, state| now > before && state == state::RUNNING)?;
    demand(rig, "ping shadow", "answer from 1")?;
    // Main's balloon does that in the background, and so does the new shadow's.
    eventually(rig, "balloon", "46 free")?;
    take_and_fill(rig, "on shadow ", [46, 45])?;
    demand(rig, "domain off shadow", "")?;
    wait_for(rig, "went off", |_, now| now == state::OFF)?;
    demand(rig, "balloon", "44 free")?;
    demand(rig, "domain on shadow", "woken")?;
    checked(rig, "on shadow ")?;
    give_and_check(rig, "on shadow ", [46, 45])
}
