//! Domains that rest when they have nothing to do.

use super::host::{at_once, pattern, pull, push};
use super::machine::{demand, until};
use super::peers::wait_for_domain;
use super::programs::Running;
use super::{Failure, PATIENCE, Rig, disk, lives, programs, services, system};
use abi::soc::{ChipPage, DomainStatus, state};
use std::mem::offset_of;
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

/// Returns how often a domain has started to run.
pub(super) fn starts(rig: &Rig, domain: usize) -> Result<u64, Failure> {
    let board = rig.instance.board()?;
    let status = offset_of!(ChipPage, domains) + domain * size_of::<DomainStatus>();
    let at = board.layout.chip + (status + offset_of!(DomainStatus, wakes)) as u64;
    let word = rig.instance.word(&board, at);
    word.ok_or_else(|| Failure::Wrong("the chip page cannot be read".to_string()))
}

/// Waits until a domain has rested for a second: what was asked of it before is done. Returns how
/// often it has started to run. A failure says what the threads of both kernels do.
pub(super) fn rests_long(rig: &mut Rig, domain: usize) -> Result<u64, Failure> {
    rested(rig, domain).map_err(|failure| with_threads(rig, failure))
}

fn rested(rig: &Rig, domain: usize) -> Result<u64, Failure> {
    let start = Instant::now();
    loop {
        rests(rig, domain)?;
        let before = starts(rig, domain)?;
        std::thread::sleep(Duration::from_secs(1));
        if starts(rig, domain)? == before {
            return Ok(before);
        }
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong(format!("domain {domain} is woken again and again")));
        }
    }
}

/// Adds what both kernels say of their threads, as far as main answers.
fn with_threads(rig: &mut Rig, failure: Failure) -> Failure {
    let Failure::Wrong(mut why) = failure else { return failure };
    why.push('\n');
    for line in ["threads", "lights", "peers", "on shadow threads", "on shadow lights"] {
        let Ok(answer) = rig.ask("main", line, PATIENCE) else {
            why += &format!("{line}: main does not answer");
            break;
        };
        why += &answer;
    }
    Failure::Wrong(why)
}

/// While the strong domain rests, the weak one serves the disk, the host and the random device:
/// files are pushed, pulled and made durable, and a program runs. Nothing of that wakes main.
pub fn devices(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    disk::begin(rig, 1024)?;
    programs::install(rig)?;
    for round in 0..rounds {
        let before = rests_long(rig, 0)?;
        let bytes = pattern(round, 100_000);
        push(&rig.instance, &bytes[..], "disk/pushed").map_err(Failure::Wrong)?;
        if pull(&rig.instance, "disk/pushed").as_ref() != Ok(&bytes) {
            return Err(Failure::Wrong("other bytes were pulled than were pushed".to_string()));
        }
        programs::says(rig, "shadow", &["keep", "disk/kept"], &bytes, b"")?;
        programs::says(rig, "shadow", &["type", "disk/kept"], b"", &bytes)?;
        still_rests(rig, before, &format!("round {round}"))?;
        demand(rig, "fs stat disk/kept", "100000 bytes")?;
        demand(rig, "on shadow random", "")?;
    }
    services::whole(rig)
}

/// Main serves the stream of a program that runs on. While main rests, the weak kernel serves all
/// further streams, one after the other and at once. Nothing of that wakes main.
pub fn streams(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    programs::ready(rig)?;
    // A main that runs serves the device.
    demand(rig, "aside program tool spin", "begun")?;
    let busy = programs::pid_on(rig, "main")?;
    let served = Running::begin(&rig.instance, "shadow", &["zzz"], b"");
    let sleeps = programs::pid_on(rig, "shadow")?;
    demand(rig, "threads", "feeder")?;
    demand(rig, &format!("kill {busy}"), "")?;
    for round in 0..rounds {
        let before = rests_long(rig, 0)?;
        programs::says(rig, "shadow", &["args", "one"], b"", b"one\n")?;
        at_once(rig)?;
        still_rests(rig, before, &format!("round {round}"))?;
    }
    demand(rig, &format!("kill {sleeps}"), "")?;
    served.end().map(|_| ())
}

/// The weak kernel has the console. What is typed at the shell's prompt, and what runs there, does
/// not wake main; a program on main does. A shell that dies with its kernel comes back with it.
pub fn prompt(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    system::begin_with(rig, "console=shadow")?;
    for round in 0..rounds {
        let before = rests_long(rig, 0)?;
        let text = format!("typed in round {round}");
        system::says(rig, &format!("echo {text} > /note; KERNEL=1 sync"), "[0]")?;
        system::says(rig, "KERNEL=1 cat /note", &format!("{text}\n[0]"))?;
        still_rests(rig, before, &text)?;
        system::says(rig, "KERNEL=0 seq 2 | wc -l", "2\n[0]")?;
        if starts(rig, 0)? == before {
            return Err(Failure::Wrong("main ran a program without being woken".into()));
        }
        rig.kill("shadow")?;
        rig.expect("kernel shadow", PATIENCE)?;
        rig.expect("/ $ ", PATIENCE)?;
    }
    system::says(rig, "cat /note | wc -w", "4\n[0]")
}

/// Programs that never wait begin while main tries to rest. The attempt ends, and with it the time
/// that main's second core is off.
pub fn cores(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    programs::ready(rig)?;
    for round in 0..rounds {
        rests(rig, 0)?;
        demand(rig, "aside program tool spin", "begun")?;
        let busy = programs::pid_on(rig, "main")?;
        let off = |cpus| programs::wrong(&format!("round {round}: a core stays off"), cpus);
        programs::awaited(PATIENCE / 20, off, || {
            let cpus = rig.ask("main", "cpus", PATIENCE)?;
            let is_on = !cpus.contains("offline");
            Ok((cpus, is_on))
        })?;
        demand(rig, &format!("kill {busy}"), "")?;
    }
    services::whole(rig)
}

/// Fails if main has run since it had started `before` times. Says what the threads of both kernels
/// do: a thread `stream` or `feeder` serves a stream.
pub(super) fn still_rests(rig: &mut Rig, before: u64, what: &str) -> Result<(), Failure> {
    match starts(rig, 0)? - before {
        0 => Ok(()),
        times => {
            let failure = Failure::Wrong(format!("{what}: main was woken {times} times"));
            Err(with_threads(rig, failure))
        }
    }
}

/// While the strong domain rests, the weak one keeps the timers of the services, also those that
/// main has set: what main wrote arrives at the disk, whether the weak one rests too or sets timers
/// itself. Nothing of that wakes main.
pub fn timers(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    disk::begin(rig, 1024)?;
    for round in 0..rounds {
        for busy in [Duration::ZERO, 3 * WRITE_BACK] {
            let text = format!("round {round}, {busy:?}");
            demand(rig, &format!("fs write disk/kept {text}"), "")?;
            let before = rests_long(rig, 0)?;
            let start = Instant::now();
            while start.elapsed() < busy {
                push(&rig.instance, &pattern(round, 10_000)[..], "disk/pushed")
                    .map_err(Failure::Wrong)?;
                std::thread::sleep(Duration::from_millis(300));
            }
            reaches_disk(rig, "kept", &text)?;
            rests_long(rig, 1)?;
            still_rests(rig, before, &text)?;
        }
    }
    services::whole(rig)
}

/// How long changes may stay in memory only.
const WRITE_BACK: Duration = Duration::from_secs(5);

/// Waits until the disk's image is clean and a file in it has this line.
fn reaches_disk(rig: &Rig, path: &str, line: &str) -> Result<(), Failure> {
    let start = Instant::now();
    let is_there = || {
        disk::clean(&rig.instance)?;
        disk::same(path, &disk::content(&rig.instance, path)?, format!("{line}\n").as_bytes())
    };
    while let Err(failure) = is_there() {
        if start.elapsed() > 4 * WRITE_BACK {
            return Err(failure);
        }
        std::thread::sleep(Duration::from_millis(300));
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
        rig.counted.add(1, "rounds");
    }
    services::whole(rig)
}

/// Kernels that die while all rest, one or both, start again. If it was one, nothing is lost but
/// its processes, which is reported to a parent on the other kernel.
pub fn killed(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    lives::install_lives(rig)?;
    let rounds: [&[usize]; 4] = [&[0], &[1], &[0], &[0, 1]];
    for victims in rounds {
        demand(rig, "fs write note here", "")?;
        if victims == [0] {
            lives::begin(rig, PARENT)?;
            until(rig, "ps", "main     running")?;
        }
        (0..2).try_for_each(|domain| rests_long(rig, domain).map(|_| ()))?;
        kill(rig, victims)?;
        demand(rig, "ping shadow 2", "answer from 1")?;
        if victims.len() == 1 {
            demand(rig, "fs cat note", "here")?;
        }
        demand(rig, "on shadow fs write note there", "")?;
        demand(rig, "fs cat note", "there")?;
    }
    services::whole(rig)
}

/// A program on shadow whose child on main sleeps.
const PARENT: &str = "waits 0";

/// Kills domains, and waits until they run again.
fn kill(rig: &mut Rig, victims: &[usize]) -> Result<(), Failure> {
    let parents = rig.early_log("shadow").matches(&format!("{PARENT}: exited")).count();
    let mut before = Vec::new();
    for &victim in victims {
        before.push(wait_for_domain(rig, victim, "was there", |_, _| true)?);
    }
    victims.iter().try_for_each(|&victim| rig.kill(["main", "shadow"][victim]))?;
    for (&victim, before) in victims.iter().zip(before) {
        let is_next = |epoch, now| epoch > before && now == state::RUNNING;
        wait_for_domain(rig, victim, "started again", is_next)?;
    }
    if victims.contains(&0) {
        rig.expect("Penumbra on ", PATIENCE)?;
        rig.expect("main> ", PATIENCE)?;
    }
    if victims == [0] {
        lives::ended_well(rig, PARENT, parents + 1)?;
        let left = rig.ask("main", "ps", PATIENCE)?;
        if left.contains("lives") {
            return Err(Failure::Wrong(format!("a process is left in the table: {left}")));
        }
    }
    Ok(())
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
        rig.counted.add(1, "kills");
    }
    demand(rig, "audit", "the invariant holds").map(|_| ())
}
