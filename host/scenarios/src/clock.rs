//! Chip time across power states: a domain that was stopped or off has the right time again, and so
//! have its sleeping threads. All times measured are chip time.

use super::machine::demand;
use super::{Failure, PATIENCE, Rig};
use std::time::{Duration, Instant};

/// Duration of the sleep.
const NAP_MS: u64 = 4000;
/// Time for which the domain is stopped meanwhile: a deadline that did not move with the clock is
/// late by this much.
const STOP: Duration = Duration::from_millis(2500);
/// Later than any sleeper should wake, and much earlier than with a wrong clock.
const LATE_US: u64 = 1_000_000;
/// Stops of the weak domain, each while it sets its clock after the last one.
const STOPS: u64 = 12;
/// Error of a wrong clock; a stop is several times as long.
const WRONG_NS: u64 = 50_000_000;

/// Threads that sleep while their domain is inactive or off wake on time.
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
    // A power-off may reset the counter: deadlines would then be late by all time before.
    demand(rig, &format!("on shadow aside nap {NAP_MS}"), "begun")?;
    demand(rig, "domain off shadow", "memory kept")?;
    demand(rig, "domain on shadow", "woken")?;
    woke_in_time(rig, 2)
}

/// Checks the wake-up of shadow's `count`th background nap.
fn woke_in_time(rig: &Rig, count: usize) -> Result<(), Failure> {
    let said = rig.said_aside("shadow", &format!("nap {NAP_MS}"), " us late", count)?;
    in_time(&said, "woke ", " us late")
}

/// Checks that the number of us between two texts is small.
fn in_time(said: &str, before: &str, after: &str) -> Result<(), Failure> {
    let rest = said.split_once(before).map_or("", |(_, rest)| rest);
    let late = rest.split_once(after).and_then(|(number, _)| number.trim().parse::<u64>().ok());
    match late {
        Some(late) if late < LATE_US => Ok(()),
        Some(late) => Err(Failure::Wrong(format!("woke {late} us late"))),
        None => Err(Failure::Wrong(format!("the output reports no nap: {said}"))),
    }
}

/// However stops, wakes and the requests that set the clock interleave, the clock is right in the
/// end.
pub fn wakes(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "ping shadow", "answer from 1")?;
    for round in 0..STOPS {
        rig.power("shadow", "inactive")?;
        std::thread::sleep(Duration::from_millis(300));
        rig.power("shadow", "wake")?;
        // At a different point of the domain's work each time.
        std::thread::sleep(Duration::from_micros(round * 300));
        rig.power("shadow", "inactive")?;
        std::thread::sleep(Duration::from_millis(300));
        rig.power("shadow", "wake")?;
        on_time(rig, round)?;
    }
    Ok(())
}

/// The shadow's chip time equals the soc's, once it has had time to ask.
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
