//! Shadowed services move to one kernel and back while both kernels use them.

use super::machine::demand;
use super::peers::wait_for;
use super::services::{exercised, line_of, whole};
use super::{Failure, PATIENCE, Rig, dma, host, overlap};
use abi::soc::state;
use base::prng::Prng;
use deploy::moves::{Line, move_one};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workbench::instance::Instance;

/// The services that can move.
const SERVICES: [&str; 9] =
    ["fs", "processes", "names", "net", "dma", "console", "disk", "host", "random"];
/// Where to: a kernel, or each its own.
const HOMES: [&str; 3] = ["shadow", "main", "each"];
/// Width of the mode in `services`.
const MODE: usize = 20;

/// Moves a service, as a user does.
fn put(board: &Instance, service: &str, home: &str) -> Result<(), Failure> {
    let what = ["service", service, home].map(String::from).to_vec();
    let moved = move_one(board, &Line { what, board: None });
    moved.map_err(|why| Failure::Wrong(format!("{service} to {home}: {why:#}")))
}

/// Each service at each place in turn: what the services do is the same. `services` shows where
/// they are, and counts the requests that were sent.
pub fn placed(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    runs(rig)?;
    refused(rig)?;
    for (seed, home) in (1..).zip(HOMES) {
        SERVICES.iter().try_for_each(|service| put(&rig.instance, service, home))?;
        let mode = if home == "each" { "shadowed".into() } else { format!("shadowed, at {home}") };
        for kernel in ["", "on shadow "] {
            let lines = rig.ask("main", &format!("{kernel}services"), PATIENCE)?;
            let is_there = |service: &&str| lines.contains(&format!("{service:<12} {mode:<MODE$}"));
            if !SERVICES.iter().all(is_there) {
                return Err(Failure::Wrong(format!("not all are {mode}: {lines}")));
            }
        }
        everything(rig, seed)?;
        sent(rig, "main", home == "shadow")?;
        sent(rig, "shadow", home == "main")?;
    }
    whole(rig)
}

/// Uses each service from both kernels.
fn everything(rig: &mut Rig, seed: u64) -> Result<(), Failure> {
    for kernel in ["", "on shadow "] {
        let pipe = "50000 of 50000 bytes came as they were sent";
        demand(rig, &format!("{kernel}pipe 50000"), pipe)?;
        exercised(rig, kernel, seed)?;
        demand(rig, &format!("{kernel}disk"), "wrote, flushed and read back")?;
        let number = |rig: &mut Rig| rig.ask("main", &format!("{kernel}random"), PATIENCE);
        if number(rig)? == number(rig)? {
            return Err(Failure::Wrong("the same random bytes twice".into()));
        }
    }
    dma::each(rig, [dma::ALL; 2])?;
    let (bytes, path) = (host::pattern(seed, 300_000), format!("/pushed-{seed}"));
    let wrong = |why| Failure::Wrong(format!("a file of the host: {why}"));
    host::push(&rig.instance, &bytes[..], &path).map_err(wrong)?;
    match host::pull(&rig.instance, &path).map_err(wrong)? == bytes {
        true => Ok(()),
        false => Err(wrong("other bytes came back".into())),
    }
}

/// Returns whether a kernel has sent requests to the file service since the last look, or not, as
/// it should be.
fn sent(rig: &mut Rig, kernel: &str, expected: bool) -> Result<(), Failure> {
    let on = if kernel == "main" { "" } else { "on shadow " };
    let before = away(rig, on)?;
    demand(rig, &format!("{on}fs ls"), "")?;
    let after = away(rig, on)?;
    let said = format!("{kernel} has sent {before}, then {after} requests for files");
    if (after > before) == expected { Ok(()) } else { Err(Failure::Wrong(said)) }
}

/// Returns how many requests to the file service a kernel has sent to another.
fn away(rig: &mut Rig, on: &str) -> Result<u64, Failure> {
    let words = line_of(rig, on, "fs")?;
    let away = words.last().and_then(|counts| counts.split('/').nth(1)?.parse().ok());
    away.ok_or_else(|| Failure::Wrong(format!("no counts of fs: {words:?}")))
}

/// What cannot be done is explained, and changes nothing.
fn refused(rig: &mut Rig) -> Result<(), Failure> {
    demand(rig, "move service fs", "usage: move")?;
    demand(rig, "move service nonsense shadow", "no such service")?;
    demand(rig, "move service fs nowhere", "no such domain")?;
    demand(rig, "move service frames shadow", "only a shadowed service can move")?;
    demand(rig, "services", "fs           shadowed             ").map(|_| ())
}

/// Only shadowed services can move.
pub fn impossible(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "move service fs shadow", "only a shadowed service can move").map(|_| ())
}

/// Services move all the time while both kernels use them: a history of overlapping requests is
/// linearizable, and exercises have the results of one kernel alone.
pub fn under_load(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    // With the sanitizer, each round takes ten seconds or more.
    let rounds = if rig.watched { rounds.min(5) } else { rounds };
    let moves = during(rig, |rig| {
        overlap::explained(rig)?;
        (0..rounds).try_for_each(|round| used(rig, round))
    })?;
    // Otherwise it has shown nothing.
    if moves < 20 * rounds {
        return Err(Failure::Wrong(format!("only {moves} moves in {rounds} rounds")));
    }
    whole(rig)
}

/// Runs another scenario while services move all the time.
pub fn while_moved(
    rig: &mut Rig,
    scenario: impl FnOnce(&mut Rig) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match during(rig, scenario)? {
        0 => Err(Failure::Wrong("nothing has moved".into())),
        _ => whole(rig),
    }
}

/// Waits until shadow runs: a kernel that boots cannot become a home. Returns its epoch.
fn runs(rig: &mut Rig) -> Result<u64, Failure> {
    wait_for(rig, "ran", |_, now| now == state::RUNNING)
}

/// Runs `work` while services move. Returns how many moves there were.
fn during(
    rig: &mut Rig,
    work: impl FnOnce(&mut Rig) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    runs(rig)?;
    let (board, over) = (Instance::at(rig.instance.folder.clone()), AtomicBool::new(false));
    std::thread::scope(|threads| {
        let mover = threads.spawn(|| restless(&board, &over));
        let worked = work(rig);
        over.store(true, Ordering::Relaxed);
        let moved = mover.join().unwrap_or_else(|_| Err(Failure::Wrong("the mover died".into())));
        worked.and(moved)
    })
}

/// Moves services until `over`. Returns how many moves there were.
fn restless(board: &Instance, over: &AtomicBool) -> Result<u64, Failure> {
    let (mut random, mut moves) = (Prng::new(1), 0);
    while !over.load(Ordering::Relaxed) {
        let service = SERVICES[random.below(SERVICES.len() as u64) as usize];
        put(board, service, HOMES[random.below(HOMES.len() as u64) as usize])?;
        moves += 1;
    }
    Ok(moves)
}

fn used(rig: &mut Rig, round: u64) -> Result<(), Failure> {
    for kernel in ["", "on shadow "] {
        exercised(rig, kernel, round)?;
        demand(rig, &format!("{kernel}pipe 50000"), "50000 of 50000 bytes came as they")?;
        demand(rig, &format!("{kernel}disk"), "wrote, flushed and read back")?;
    }
    rig.counted.add(1, "rounds");
    Ok(())
}

/// The home dies: requests that it was executing may fail, those that follow are executed by the
/// caller's kernel, and by the home when it runs again.
pub fn lost(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let mut epoch = runs(rig)?;
    SERVICES.iter().try_for_each(|service| put(&rig.instance, service, "shadow"))?;
    for round in 0..rounds {
        demand(rig, &format!("aside exercise {} 2000", 1000 + round), "begun")?;
        std::thread::sleep(Duration::from_millis(10 + round * 37 % 200));
        rig.kill("shadow")?;
        exercised(rig, "", round)?;
        let before = epoch;
        epoch = wait_for(rig, "came back", |now, is| now > before && is == state::RUNNING)?;
        // The new kernel has the homes from the other one.
        demand(rig, "on shadow services", "fs           shadowed, at shadow")?;
        exercised(rig, "on shadow ", round)?;
        sent(rig, "main", true)?;
    }
    whole(rig)
}
