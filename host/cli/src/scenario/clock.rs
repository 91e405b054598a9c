//! Chip time across power: a domain that stood still or was off is on time again, and so are the
//! threads that slept in it. What is measured is chip time on both sides.

use super::machine::demand;
use super::{Failure, PATIENCE, Rig};
use std::time::{Duration, Instant};

/// How long the sleepers sleep.
const NAP_MS: u64 = 4000;
/// How long their domain stands still meanwhile: a deadline that did not move with the clock is
/// late by this.
const STOP: Duration = Duration::from_millis(2500);
/// Later than any sleeper should wake, and much less than what a wrong clock makes of it.
const LATE_US: u64 = 1_000_000;
/// Threads that sleep while their domain is inactive or off wake when they wanted to.
pub fn sleepers(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, &format!("on shadow nap {NAP_MS} aside"), "asleep")?;
    rig.send(&format!("nap {NAP_MS}"))?;
    std::thread::sleep(Duration::from_millis(300));
    for domain in ["main", "shadow"] {
        rig.power(domain, "inactive")?;
    }
    std::thread::sleep(STOP);
    for domain in ["main", "shadow"] {
        rig.power(domain, "wake")?;
    }
    let said = rig.expect("main> ", PATIENCE)?;
    in_time(&said, "woke ", " us late")?;
    woke_in_time(rig, 1)?;
    // A power-off may reset the counter: its deadlines would be late by all that came before.
    demand(rig, &format!("on shadow nap {NAP_MS} aside"), "asleep")?;
    demand(rig, "domain off shadow", "memory kept")?;
    demand(rig, "domain on shadow", "woken")?;
    woke_in_time(rig, 2)
}

/// Waits for the `count`th nap of the shadow that was taken aside.
fn woke_in_time(rig: &mut Rig, count: usize) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let log = rig.ask("main", "on shadow log 100", PATIENCE)?;
        let mut naps = log.lines().filter(|line| line.contains("slept (ms), late (us)"));
        if let Some(nap) = naps.nth(count - 1) {
            return in_time(&format!("{nap}\n"), &format!("late (us) {NAP_MS} "), "\n");
        }
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong(format!("no nap {count} in the shadow's log:\n{log}")));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The number of us between two texts is not large.
fn in_time(said: &str, before: &str, after: &str) -> Result<(), Failure> {
    let rest = said.split_once(before).map_or("", |(_, rest)| rest);
    let late = rest.split_once(after).and_then(|(number, _)| number.trim().parse::<u64>().ok());
    match late {
        Some(late) if late < LATE_US => Ok(()),
        Some(late) => Err(Failure::Wrong(format!("woke {late} us late"))),
        None => Err(Failure::Wrong(format!("nothing of a nap: {said}"))),
    }
}
