//! The strong kernel is off: the weak one has the console, the disk and the host.

use super::disk::{begin, clean, content, poweroff, same};
use super::host::{pattern, pull, push};
use super::machine::{demand, until};
use super::programs::{Running, install, pid_on, says};
use super::{Failure, PATIENCE, Rig};
use std::time::{Duration, Instant};

/// Repeats a command at the weak kernel's prompt until the answer contains `wanted`: a file system
/// may still be mounted again.
fn until_there(rig: &mut Rig, line: &str, wanted: &str) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let said = rig.ask("shadow", line, PATIENCE)?;
        if said.contains(wanted) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong(format!("shadow: {line}: {said:?} without {wanted:?}")));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The strong kernel is switched off cold, which is a death. The weak one has the prompt, the disk,
/// the random device and the host; then the strong one starts again and takes them back. What was
/// synced by either is on the disk.
pub fn over(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    begin(rig, 1024)?;
    install(rig)?;
    let mut kept = Vec::new();
    for round in 0..rounds {
        let [by_main, by_shadow] = [2 * round, 2 * round + 1].map(|seed| pattern(seed, 30_000));
        says(rig, "main", &["keep", &format!("disk/main-{round}")], &by_main, b"")?;
        rig.power("main", "off")?;
        rig.expect("kernel shadow", PATIENCE)?;
        rig.expect("shadow> ", PATIENCE)?;
        until_there(rig, &format!("fs stat disk/main-{round}"), "30000 bytes")?;
        until_there(rig, "peers", "main")?;
        let random = rig.ask("shadow", "random", PATIENCE)?;
        if !random.lines().any(|line| line.trim().len() == 64) {
            return Err(Failure::Wrong(format!("shadow: random: {random}")));
        }
        // The file system in memory may be lost, and the program with it.
        install(rig)?;
        says(rig, "shadow", &["keep", &format!("disk/shadow-{round}")], &by_shadow, b"")?;
        push(&rig.instance, &by_main[..], "disk/pushed").map_err(Failure::Wrong)?;
        if pull(&rig.instance, "disk/pushed").as_ref() != Ok(&by_main) {
            return Err(Failure::Wrong("other bytes were pulled than were pushed".to_string()));
        }
        let sleeps = Running::begin(&rig.instance, "shadow", &["zzz"], b"");
        until_there(rig, "ps", "tool")?;
        kept.extend([(format!("main-{round}"), by_main), (format!("shadow-{round}"), by_shadow)]);
        rig.send("domain on main")?;
        rig.expect("kernel main", PATIENCE)?;
        rig.expect("main> ", PATIENCE)?;
        until(rig, &format!("fs stat disk/shadow-{round}"), "30000 bytes")?;
        // Main serves the device again, but shadow has a stream: it gets these, too.
        install(rig)?;
        let pid = pid_on(rig, "shadow")?;
        rig.ask("main", &format!("on shadow kill {pid}"), PATIENCE)?;
        let code = sleeps.end()?.code;
        if code != 128 + 15 {
            return Err(Failure::Wrong(format!("a program of shadow ended with {code}")));
        }
    }
    demand(rig, "audit", "the invariant holds")?;
    demand(rig, "on shadow audit", "the invariant holds")?;
    poweroff(rig)?;
    clean(&rig.instance)?;
    kept.iter().try_for_each(|(name, bytes)| same(name, &content(&rig.instance, name)?, bytes))
}
