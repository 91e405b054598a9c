//! Three kernels, two of them of one ISA, that share all services.

use super::machine::demand;
use super::peers::wait_for_domain;
use super::services::{OPERATIONS, came_back, ended, exercised};
use super::{Failure, PATIENCE, Rig};
use abi::soc::state;
use std::time::Duration;

const KERNELS: [&str; 3] = ["main", "shadow", "umbra"];
/// The two weak kernels, by index of their domains.
const WEAK: [usize; 2] = [1, 2];

/// How to run a command on a kernel, from main's console.
fn on(kernel: &str) -> String {
    if kernel == "main" { String::new() } else { format!("on {kernel} ") }
}

fn begin(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    WEAK.iter().try_for_each(|&domain| runs(rig, domain).map(|_| ()))
}

/// Waits until a domain runs. Returns its epoch.
fn runs(rig: &Rig, domain: usize) -> Result<u64, Failure> {
    wait_for_domain(rig, domain, "ran", |_, now| now == state::RUNNING)
}

/// No kernel maps a page against the protocol.
fn whole(rig: &mut Rig) -> Result<(), Failure> {
    KERNELS.iter().try_for_each(|kernel| {
        demand(rig, &format!("{}audit", on(kernel)), "the invariant holds").map(|_| ())
    })
}

/// All kernels run an exercise at once. Returns the seeds.
fn exercise(rig: &mut Rig, round: u64) -> Result<[(&'static str, u64); 3], Failure> {
    let mut begun = [("", 0); 3];
    for (index, kernel) in KERNELS.into_iter().enumerate() {
        let seed = 1000 + 3 * round + index as u64;
        let command = format!("{}aside exercise {seed} {OPERATIONS}", on(kernel));
        demand(rig, &command, "begun")?;
        begun[index] = (kernel, seed);
    }
    Ok(begun)
}

/// All three at once, then calls from each to both others, and what one writes the others read.
pub fn together(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig)?;
    for round in 0..3 {
        let exercises = exercise(rig, round)?;
        exercises.into_iter().try_for_each(|one| ended(rig, one))?;
    }
    for (writer, readers) in [("main", [1, 2]), ("shadow", [2, 0]), ("umbra", [0, 1])] {
        demand(rig, &format!("{}fs write note by {writer}", on(writer)), "")?;
        for reader in readers {
            demand(rig, &format!("{}fs cat note", on(KERNELS[reader])), &format!("by {writer}"))?;
        }
        demand(rig, &format!("{}rpc 200 3", on(writer)), " 0 refused, 0 wrong")?;
        demand(rig, &format!("{}pipe 50000", on(writer)), "50000 of 50000 bytes came as")?;
    }
    demand(rig, "services", "shadowed             1,")?;
    whole(rig)
}

/// Under load from all three, one of the weak kernels is killed, or both at once. The others
/// continue, and no caller gets a wrong result.
pub fn lost(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    begin(rig)?;
    for round in 0..rounds {
        let victims = match round % 3 {
            0 => &WEAK[..1],
            1 => &WEAK[1..],
            _ => &WEAK[..],
        };
        let before = victims.iter().map(|&d| runs(rig, d)).collect::<Result<Vec<_>, _>>()?;
        exercise(rig, round)?;
        std::thread::sleep(Duration::from_millis(10 + round * 37 % 200));
        victims.iter().try_for_each(|&domain| rig.kill(KERNELS[domain]))?;
        for (&domain, before) in victims.iter().zip(before) {
            let is_back = |now, is| now > before && is == state::RUNNING;
            wait_for_domain(rig, domain, "came back", is_back)?;
        }
        KERNELS.iter().try_for_each(|kernel| exercised(rig, &on(kernel), round))?;
        whole(rig)?;
        rig.counted.add(1, "rounds");
    }
    Ok(())
}

/// During operations of all three, each in turn is stopped anywhere: the others wake it when they
/// wait for it. Then the home of the pages is powered off, and the weak kernels share on.
pub fn stopped(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    begin(rig)?;
    for round in 0..rounds {
        let exercises = exercise(rig, round)?;
        let at = exercises[round as usize % 3].0;
        std::thread::sleep(Duration::from_millis(round * 37 % 100));
        rig.power(at, "inactive")?;
        let others = exercises.into_iter().filter(|(kernel, _)| *kernel != at);
        others.into_iter().try_for_each(|one| ended(rig, one))?;
        rig.power(at, "wake")?;
        ended(rig, exercises[round as usize % 3])?;
        whole(rig)?;
        rig.counted.add(1, "rounds");
    }
    demand(rig, "fs write note still here", "")?;
    demand(rig, "on shadow aside domain off main 500", "begun")?;
    came_back(rig, 1)?;
    KERNELS.iter().try_for_each(|kernel| {
        demand(rig, &format!("{}fs cat note", on(kernel)), "still here").map(|_| ())
    })?;
    whole(rig)
}
