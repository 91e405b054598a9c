//! Light threads: threads of a process on the weak kernel, while its others wait.

use super::machine::demand;
use super::peers::wait_for_domain;
use super::programs::{LOST, Running, back, pid_of, wrong};
use super::rest::{rests_long, starts};
use super::threads::put;
use super::{Failure, PATIENCE, Rig};
use abi::soc::state;
use deploy::exec::Line;
use std::time::Duration;

/// Of apps/corpus.toml.
const PROGRAM: &str = "light-threads";
/// Its modes that check something, with what they say besides `ok MODE`.
const MODES: &[(&str, &str)] = &[
    ("share", "a light thread writes 20 lines\n"),
    ("turns", ""),
    ("exclude", ""),
    ("files", ""),
    ("grow", ""),
    ("many", ""),
    ("wait", ""),
];
/// Ways in which a light thread ends its program, with the exit codes.
const ENDS: &[(&str, u8)] = &[("exit", 7), ("trap", 134), ("return", 3), ("divide", 134)];
/// What `lights` says when no process is left.
const NONE: &str = "two kernels: 0 in use, 0 free";
/// Seconds that a light thread works while main rests.
const SECONDS: u64 = 8;

/// A program's light threads work on the weak kernel, and are ordinary threads where the program
/// runs there itself. Nothing is left of either.
pub fn threads(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, PROGRAM)?;
    for (mode, says) in MODES {
        succeeds(rig, "main", &[mode], &format!("{says}ok {mode}\n"))?;
    }
    for mode in ["share", "turns", "grow", "many", "wait"] {
        let found = run(rig, "shadow", &[mode]).end()?;
        if found.code != 0 {
            return Err(wrong(&format!("{mode} on shadow"), found));
        }
    }
    nothing_left(rig)
}

/// Every end of a light thread that ends the program; a signal; and the same program afterwards.
pub fn ends(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, PROGRAM)?;
    for (how, code) in ENDS {
        let found = run(rig, "main", &["end", how]).end()?;
        if found.code != *code {
            return Err(wrong(how, found));
        }
    }
    for signal in ["INT", "KILL"] {
        let running = endless(rig)?;
        let pid = pid_of(rig, "main", PROGRAM)?;
        std::thread::sleep(Duration::from_millis(300));
        rig.ask("main", &format!("kill {pid} {signal}"), PATIENCE)?;
        let code = running.end()?.code;
        if code != if signal == "INT" { 130 } else { 137 } {
            return Err(wrong(signal, code));
        }
    }
    nothing_left(rig)?;
    succeeds(rig, "main", &["turns"], "ok turns\n")
}

/// Either kernel dies, again and again, while threads of a process run on both. The process is
/// lost, all its memory is freed, and the other kernel continues.
pub fn lost(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, PROGRAM)?;
    for round in 0..rounds {
        for (domain, victim) in ["shadow", "main"].into_iter().enumerate() {
            let running = endless(rig)?;
            std::thread::sleep(Duration::from_millis(100 + 37 * round));
            kill(rig, 1 - domain, victim)?;
            is_lost(running)?;
            put(rig, PROGRAM)?;
            nothing_left(rig)?;
            succeeds(rig, "main", &["turns"], "ok turns\n")?;
        }
    }
    demand(rig, "audit", "the invariant holds")?;
    demand(rig, "on shadow audit", "the invariant holds").map(|_| ())
}

/// A light thread works while main rests, and main is not woken. If the weak kernel dies then, main
/// is woken, and the process is lost.
pub fn rests(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, PROGRAM)?;
    let seconds = SECONDS.to_string();
    let running = run(rig, "main", &["loop", "log", &seconds]);
    pid_of(rig, "main", PROGRAM)?;
    let before = rests_long(rig, 0)?;
    std::thread::sleep(Duration::from_secs(SECONDS / 2));
    let woken = starts(rig, 0)? - before;
    if woken != 0 {
        return Err(wrong("main was woken", woken));
    }
    let found = running.end()?;
    if found.code != 0 {
        return Err(wrong("loop", found));
    }
    let running = run(rig, "main", &["loop", "log", "600"]);
    pid_of(rig, "main", PROGRAM)?;
    rests_long(rig, 0)?;
    kill(rig, 1, "shadow")?;
    is_lost(running)?;
    nothing_left(rig)
}

/// The process has ended as lost, or its client's kernel has died.
fn is_lost(running: Running) -> Result<(), Failure> {
    match running.end() {
        Ok(found) if found.code != LOST => Err(wrong("a kernel died under it", found)),
        Err(Failure::Wrong(why)) if !why.contains("died") => Err(Failure::Wrong(why)),
        _ => Ok(()),
    }
}

fn run(rig: &Rig, kernel: &str, arguments: &[&str]) -> Running {
    Running::of(&rig.instance, Line::on(kernel, PROGRAM, arguments), b"")
}

/// Starts a process whose threads run on both kernels until they are killed.
fn endless(rig: &mut Rig) -> Result<Running, Failure> {
    let running = run(rig, "main", &["end", "kill"]);
    super::machine::until(rig, "on shadow lights", "weak side")?;
    Ok(running)
}

fn succeeds(rig: &Rig, kernel: &str, arguments: &[&str], says: &str) -> Result<(), Failure> {
    let found = run(rig, kernel, arguments).end()?;
    let is_good = found.code == 0 && found.out == says.as_bytes() && found.err.is_empty();
    if is_good { Ok(()) } else { Err(wrong(&format!("{arguments:?} on {kernel}"), found)) }
}

/// No kernel has a part of a process with light threads, or memory of one.
pub fn nothing_left(rig: &mut Rig) -> Result<(), Failure> {
    super::machine::until(rig, "lights", NONE)?;
    super::machine::until(rig, "on shadow lights", NONE).map(|_| ())
}

/// Kills a domain, and waits until it runs again.
pub fn kill(rig: &mut Rig, domain: usize, victim: &str) -> Result<(), Failure> {
    let before = wait_for_domain(rig, domain, "was there", |_, _| true)?;
    rig.kill(victim)?;
    let is_up = |now| now == state::RUNNING || now == state::RESTING;
    let is_next = |epoch, now| epoch > before && is_up(now);
    wait_for_domain(rig, domain, "started again", is_next)?;
    if domain == 0 { rig.expect("main> ", PATIENCE).map(|_| ()) } else { back(rig) }
}
