//! A kernel and its cores: memory protection, the page-table invariant, threads, devices.

use super::{Failure, PATIENCE, Rig};
use std::time::{Duration, Instant};

/// Runs a command; the answer must contain a text. Returns the answer.
pub fn demand(rig: &mut Rig, line: &str, wanted: &str) -> Result<String, Failure> {
    let answer = rig.ask("main", line, PATIENCE)?;
    if answer.contains(wanted) {
        return Ok(answer);
    }
    Err(Failure::Wrong(format!("`{line}` does not say {wanted:?}: {answer}")))
}

/// Repeats a command until the answer contains `wanted`: a server may start a moment after the
/// prompt.
pub fn until(rig: &mut Rig, line: &str, wanted: &str) -> Result<String, Failure> {
    let start = Instant::now();
    loop {
        let said = rig.ask("main", line, PATIENCE)?;
        if said.contains(wanted) {
            return Ok(said);
        }
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong(format!("{line}: {said:?} without {wanted:?}")));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Every kernel of the board maintains the invariant and rejects forbidden accesses.
pub fn protection(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for kernel in ["", "on shadow "] {
        demand(rig, &format!("{kernel}audit"), "the invariant holds")?;
        let guards = demand(rig, &format!("{kernel}guards"), "refused")?;
        if guards.contains("ALLOWED") || guards.matches("refused").count() != 6 {
            return Err(Failure::Wrong(format!("{kernel}guards: {guards}")));
        }
    }
    Ok(())
}

/// Threads on all cores without lost wake-ups; timers and core-to-core interrupts arrive.
pub fn threads(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "smp 400", "1600 turns on 2 cores")?;
    let before = rig.ask("main", "irq", PATIENCE)?;
    for _ in 0..5 {
        demand(rig, "nap 20", "slept 20 ms")?;
    }
    let after = rig.ask("main", "irq", PATIENCE)?;
    let timers = interrupts(&after, "timer")? - interrupts(&before, "timer")?;
    if timers < 5 || interrupts(&after, "reschedule")? == 0 {
        return Err(Failure::Wrong(format!("interrupts are missing: {before}\n{after}")));
    }
    demand(rig, "audit", "the invariant holds").map(|_| ())
}

/// Two harts with local TLB flushes only: when one unmaps a page, the other receives a shootdown.
pub fn shootdown(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let answer = demand(rig, "smp 200", "800 turns on 2 cores")?;
    let told = interrupts(&rig.ask("main", "irq", PATIENCE)?, "shootdown")?;
    if told == 0 || answer.contains(" 0 stacks unmapped") {
        return Err(Failure::Wrong(format!("{told} shootdowns; {answer}")));
    }
    demand(rig, "audit", "the invariant holds").map(|_| ())
}

/// Any core may wake the measuring thread, but its figures are from one core.
pub fn bench(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for _ in 0..20 {
        demand(rig, "bench threads 1", "record thread.create_join")?;
    }
    demand(rig, "bench rpc 10", "record rpc.roundtrip_4k").map(|_| ())
}

/// Returns the number of interrupts from the output of `irq`.
fn interrupts(counts: &str, name: &str) -> Result<u64, Failure> {
    let line = counts.lines().find(|line| line.trim_start().starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1))
        .and_then(|count| count.parse().ok())
        .ok_or_else(|| Failure::Wrong(format!("no count of {name} interrupts: {counts}")))
}

/// Disk and random bytes, through the soc; invalid input gets an explanation.
pub fn devices(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "disk", "wrote, flushed and read back")?;
    let first = rig.ask("main", "random", PATIENCE)?;
    let second = rig.ask("main", "random", PATIENCE)?;
    if first == second {
        return Err(Failure::Wrong(format!("the same random bytes twice: {first}")));
    }
    demand(rig, "nonsense", "no command `nonsense`")?;
    demand(rig, "ping absent", "no such domain")?;
    demand(rig, "domain sideways shadow", "usage: domain")?;
    demand(rig, "ping", "no other kernel").map(|_| ())
}
