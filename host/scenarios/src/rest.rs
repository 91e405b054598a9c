//! Domains that rest when they have nothing to do.

use super::machine::demand;
use super::peers::wait_for_domain;
use super::{Failure, PATIENCE, Rig};
use abi::soc::state;
use std::time::{Duration, Instant};

/// Waits until a domain rests.
fn rests(rig: &Rig, domain: usize) -> Result<(), Failure> {
    let board = rig.instance.board()?;
    let start = Instant::now();
    while rig.instance.states(&board).get(domain).is_none_or(|found| found.1 != state::RESTING) {
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong(format!("domain {domain} never rested")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// A key, a call, a file and the time wake domains that rest; all of them rest again.
pub fn wakes(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for round in 0..rounds {
        (0..2).try_for_each(|domain| rests(rig, domain))?;
        demand(rig, "ping shadow 2", "answer from 1")?;
        (0..2).try_for_each(|domain| rests(rig, domain))?;
        demand(rig, &format!("on shadow fs write note round {round}"), "")?;
        rests(rig, 0)?;
        demand(rig, "fs cat note", &format!("round {round}"))?;
        demand(rig, "nap 200", "")?;
        demand(rig, "disk", "wrote, flushed and read back")?;
        demand(rig, "rpc 20", " 0 refused, 0 wrong")?;
    }
    demand(rig, "audit", "the invariant holds")?;
    demand(rig, "on shadow audit", "the invariant holds").map(|_| ())
}

/// A weak kernel that dies while the strong one rests does not wake it, and starts again.
pub fn lost(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for _ in 0..rounds {
        (0..2).try_for_each(|domain| rests(rig, domain))?;
        let before = wait_for_domain(rig, 1, "was there", |_, _| true)?;
        rig.kill("shadow")?;
        wait_for_domain(rig, 1, "started again", |epoch, _| epoch > before)?;
        demand(rig, "ping shadow 2", "answer from 1")?;
        demand(rig, "fs write note new", "")?;
        demand(rig, "on shadow fs cat note", "new")?;
    }
    demand(rig, "audit", "the invariant holds").map(|_| ())
}
