//! Two kernels: storms of calls, power states, death and restart.

use super::machine::demand;
use super::{Failure, PATIENCE, Rig};
use abi::soc::state;
use std::time::{Duration, Instant};

/// Index of the weak domain on the boards used here.
const SHADOW: usize = 1;

/// Storms from all cores of both kernels at once: no wrong answer, no lost call.
pub fn storm(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let clean = " 0 lost with their peer, 0 refused, 0 wrong";
    demand(rig, "rpc 500 7", clean)?;
    demand(rig, "on shadow rpc 500 8", clean)?;
    // Shadow's own storm runs concurrently with main's.
    demand(rig, "both 500", "0 wrong from either side").map(|_| ())
}

/// Waits until epoch and state of the weak domain are as wanted. Returns the epoch.
pub fn wait_for(
    rig: &Rig,
    what: &str,
    wanted: impl FnMut(u64, u64) -> bool,
) -> Result<u64, Failure> {
    wait_for_domain(rig, SHADOW, what, wanted)
}

/// Waits until epoch and state of a domain are as wanted. A domain that rests counts as one that
/// runs. Returns the epoch.
pub fn wait_for_domain(
    rig: &Rig,
    domain: usize,
    what: &str,
    mut wanted: impl FnMut(u64, u64) -> bool,
) -> Result<u64, Failure> {
    let board = rig.instance.board()?;
    let start = Instant::now();
    loop {
        let states = rig.instance.states(&board);
        if let Some(&(epoch, state, _)) = states.get(domain)
            && wanted(epoch, if state == state::RESTING { state::RUNNING } else { state })
        {
            return Ok(epoch);
        }
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong(format!("domain {domain} never {what}: {states:?}")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Inactive, off with memory kept, and cold: each time the domain answers calls again. An inactive
/// domain is woken early if main needs one of its pages.
pub fn power(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    for round in 0..5 {
        for (action, after) in
            [("inactive", state::INACTIVE), ("off", state::OFF), ("cold", state::COLD)]
        {
            demand(rig, "ping shadow 2", "answer from 1")?;
            demand(rig, &format!("domain {action} shadow"), "domain shadow: ")?;
            let asleep = |now| now == after || after == state::INACTIVE && now == state::RUNNING;
            let before = wait_for(rig, "slept", |_, now| asleep(now))?;
            demand(rig, "domain on shadow", "woken")?;
            let epoch = wait_for(rig, "woke", |_, now| now == state::RUNNING)?;
            let kept = action != "cold";
            if kept != (epoch == before) {
                let text = format!("round {round}, {action}: epoch {before} became {epoch}");
                return Err(Failure::Wrong(text));
            }
            demand(rig, "rpc 20", " 0 wrong")?;
        }
    }
    // The kernel with the console stays on, whichever kernel is asked to stop it.
    for (line, action) in [("", "off"), ("on shadow ", "inactive"), ("on shadow ", "off")] {
        demand(rig, &format!("{line}domain {action} main"), "holds the console")?;
    }
    demand(rig, "on shadow audit", "the invariant holds").map(|_| ())
}

/// Two concurrent power-off requests count as one: a domain that is then woken stays on.
pub fn off_twice(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for round in 1..=5 {
        demand(rig, "ping shadow", "answer from 1")?;
        rig.send("aside domain off shadow")?;
        rig.send("domain off shadow")?;
        rig.expect("main> ", PATIENCE)?;
        rig.expect("main> ", PATIENCE)?;
        rig.said_aside("main", "domain off shadow", "\n", round)?;
        // Off, or on again if the second request came late, found it off, and so woke it.
        demand(rig, "domain on shadow", "woken")?;
        wait_for(rig, "woke", |_, now| now == state::RUNNING)?;
        // A second power-off that was queued after the first would happen now.
        std::thread::sleep(Duration::from_millis(200));
        let states = rig.instance.states(&rig.instance.board()?);
        if states[SHADOW].1 != state::RUNNING {
            return Err(Failure::Wrong(format!(
                "round {round}: shadow is not running: {states:?}"
            )));
        }
    }
    Ok(())
}

/// A kernel of three harts is powered off and on while all of them work, including shootdowns;
/// their work ends undisturbed.
pub fn off_busy(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for round in 1..=3 {
        demand(rig, "on shadow aside smp 10", "begun")?;
        std::thread::sleep(Duration::from_millis(round * 7 % 20));
        // Four cores on a host with two may take longer than the command waits.
        rig.ask("main", "domain off shadow", PATIENCE)?;
        wait_for(rig, "went off", |_, now| now == state::OFF)?;
        demand(rig, "domain on shadow", "woken")?;
        demand(rig, "rpc 20", " 0 wrong")?;
        let said = rig.said_aside("shadow", "smp 10", "\n", round as usize)?;
        if !said.contains("60 turns on 3 cores") {
            return Err(Failure::Wrong(format!("round {round}: {said}")));
        }
    }
    demand(rig, "on shadow audit", "the invariant holds").map(|_| ())
}

/// The weak domain's QEMU is killed repeatedly during a storm: no wrong answer, no hang, and the
/// weak kernel comes back each time, under a new epoch.
pub fn kills(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let mut epoch = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    let mut lost = 0;
    for round in 0..if rig.watched { rounds / 5 } else { rounds } {
        rig.send(&format!("rpc 200 {round}"))?;
        // At a different point of the storm each time.
        std::thread::sleep(Duration::from_millis(5 + round * 7 % 60));
        rig.kill("shadow")?;
        let answer = rig.expect("main> ", PATIENCE)?;
        if !answer.contains(" 0 wrong") {
            return Err(Failure::Wrong(format!("kill {round}: {answer}")));
        }
        lost += u64::from(!answer.contains(" 0 lost"));
        let before = epoch;
        epoch = wait_for(rig, "came back", |now, state| now > before && state == state::RUNNING)?;
        rig.counted.add(1, "kills");
    }
    if lost == 0 {
        return Err(Failure::Wrong("no kill hit a storm: this run shows nothing".to_string()));
    }
    demand(rig, "ping shadow", "answer from 1")?;
    demand(rig, "audit", "the invariant holds").map(|_| ())
}

/// A panicking kernel prints the reason, with function names; the other kernel survives, and the
/// first one comes back.
pub fn panic(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for (line, sentence) in
        [("on shadow panic", "asked for on the monitor"), ("on shadow overflow", "access: Write")]
    {
        let before = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
        demand(rig, line, "PeerLost")?;
        wait_for(rig, "came back", |now, state| now > before && state == state::RUNNING)?;
        let log = rig.early_log("shadow");
        let named = log.contains("kernel_monitor::commands::chip::")
            && log.contains("kernel_platform::peers::");
        if !log.contains(sentence) || !named {
            return Err(Failure::Wrong(format!("`{line}` left no symbolised panic:\n{log}")));
        }
    }
    demand(rig, "ping shadow", "answer from 1").map(|_| ())
}

/// Without its strong domain the board ends, and says so.
pub fn main_killed(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    rig.kill("main")?;
    rig.expect("main died and the board cannot continue without it", PATIENCE).map(|_| ())
}

/// Without its soc the board ends, QEMUs included.
pub fn soc_killed(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let machines = [rig.machine("main", PATIENCE)?, rig.machine("shadow", PATIENCE)?];
    rig.kill_soc()?;
    match rig.expect("main> ", PATIENCE) {
        Err(Failure::Ended(_)) => {}
        other => return Err(Failure::Wrong(format!("the console still answers: {other:?}"))),
    }
    let start = Instant::now();
    while machines.iter().any(|&pid| rustix::process::test_kill_process(pid).is_ok()) {
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong("a QEMU outlives the soc".to_string()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
