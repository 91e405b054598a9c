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
/// Stops of the weak domain, each in the middle of setting its clock after the last.
const STOPS: u64 = 12;
/// A clock this far from the soc's is wrong; a stop is several times as long.
const WRONG_NS: u64 = 50_000_000;

/// Threads that sleep while their domain is inactive or off wake when they wanted to.
pub fn sleepers(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, &format!("on shadow aside nap {NAP_MS}"), "begun")?;
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
    demand(rig, &format!("on shadow aside nap {NAP_MS}"), "begun")?;
    demand(rig, "domain off shadow", "memory kept")?;
    demand(rig, "domain on shadow", "woken")?;
    woke_in_time(rig, 2)
}

/// The `count`th nap that the shadow took aside.
fn woke_in_time(rig: &Rig, count: usize) -> Result<(), Failure> {
    let said = rig.said_aside("shadow", &format!("nap {NAP_MS}"), " us late", count)?;
    in_time(&said, "woke ", " us late")
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

/// However stops, wakes and the exchanges that set the clock meet, it is right in the end.
pub fn wakes(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "ping shadow", "answer from 1")?;
    for round in 0..STOPS {
        rig.power("shadow", "inactive")?;
        std::thread::sleep(Duration::from_millis(300));
        rig.power("shadow", "wake")?;
        // Somewhere in what it does then, elsewhere each time.
        std::thread::sleep(Duration::from_micros(round * 300));
        rig.power("shadow", "inactive")?;
        std::thread::sleep(Duration::from_millis(300));
        rig.power("shadow", "wake")?;
        on_time(rig, round)?;
    }
    Ok(())
}

/// The shadow's chip time is the soc's, as soon as it has had the time to ask.
fn on_time(rig: &mut Rig, round: u64) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let from = rig.chip_time()?;
        let said = rig.ask("main", "on shadow time", PATIENCE)?;
        let to = rig.chip_time()?;
        let now = said.split_once("chip time ").and_then(|(_, rest)| rest.split_once(" s"));
        let now = now.and_then(|(digits, _)| digits.replace('.', "").parse::<u64>().ok());
        let now = now.ok_or_else(|| Failure::Wrong(format!("no time in {said}")))?;
        if (from.saturating_sub(WRONG_NS)..to + WRONG_NS).contains(&now) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            let text = format!("stop {round}: the shadow says {now}, the soc {from} to {to}");
            return Err(Failure::Wrong(text));
        }
    }
}
