//! Programs that move between kernels while they run.

use super::light::{kill, nothing_left};
use super::programs::{LOST, Running, install, pid_of, wrong};
use super::threads::put;
use super::{Failure, PATIENCE, Rig};
use deploy::exec::Line;
use std::time::Duration;

/// Of apps/corpus.toml; its modes are described there.
const PROGRAM: &str = "moves";
const PATH: &str = "bin/moves";
/// Its modes that move the program, or a child.
const MODES: &[&[&str]] = &[
    &["frames"],
    &["memory"],
    &["files"],
    &["sockets"],
    &["full"],
    &["children", PATH],
    &["relay", PATH],
];
/// What it says if it cannot move to a kernel that has died, and if the table has restarted.
const DEAD: &[u8] = b"wrong: move (errno 23)\n";
const STALE: &[u8] = b"wrong: move (errno 72)\n";
/// Steps of a loop that takes seconds.
const STEPS: u64 = 3_000_000_000;

/// A program moves itself and others, from either kernel: all that it has is there after each move,
/// and nothing is left where it was.
pub fn programs(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, PROGRAM)?;
    for kernel in ["main", "shadow"] {
        for mode in MODES {
            let found = run(rig, kernel, mode).end()?;
            if found.code != 0 || found.out != format!("ok {}\n", mode[0]).as_bytes() {
                return Err(wrong(&format!("{mode:?} on {kernel}"), found));
            }
        }
    }
    nothing_left(rig)
}

/// A program on a board whose kernels share no memory gets an error, and continues.
pub fn impossible(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, PROGRAM)?;
    let found = run(rig, "main", &["frames"]).end()?;
    if found.code != 1 || found.out != b"wrong: move (errno 52)\n" {
        return Err(wrong("a move between kernels that share no memory", found));
    }
    let running = run(rig, "main", &["sleep"]);
    let pid = pid_of(rig, "main", PROGRAM)?;
    let said = rig.ask("main", &format!("move {pid} shadow"), PATIENCE)?;
    let found = running.end()?;
    let says = "sleeping\nslept 3 s: yes, on 0\nok sleep\n";
    match found.out == says.as_bytes() && said.contains("share no memory") {
        true => Ok(()),
        false => Err(wrong("a program that stays", (said, found))),
    }
}

/// Programs are moved that sleep, and that compute without calls. What cannot move stays, with the
/// reason; what is killed on the other kernel ends.
pub fn others(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, PROGRAM)?;
    moved_once(rig, &["sleep"], "sleeping\nslept 3 s: yes, on 1\nok sleep\n")?;
    let steps = STEPS.to_string();
    let says = format!("computing\n{:08x} on 1\nok compute\n", generated());
    moved_once(rig, &["compute", &steps], &says)?;
    refused(rig)?;
    let running = run(rig, "main", &["compute", &steps]);
    let pid = pid_of(rig, "main", PROGRAM)?;
    for kernel in ["shadow", "main", "shadow"] {
        moves(rig, &format!("move {pid} {kernel}"))?;
    }
    rig.ask("main", &format!("kill {pid} INT"), PATIENCE)?;
    match running.end()? {
        found if found.code == 130 => nothing_left(rig),
        found => Err(wrong("killed after three moves", found)),
    }
}

/// Returns what the program has computed.
fn generated() -> u32 {
    // A power of the step, by squaring.
    let (mut factor, mut add, mut left) = (1_664_525_u32, 1_013_904_223_u32, STEPS);
    let (mut state_factor, mut state_add) = (1_u32, 0_u32);
    while left != 0 {
        if left & 1 != 0 {
            state_factor = state_factor.wrapping_mul(factor);
            state_add = state_add.wrapping_mul(factor).wrapping_add(add);
        }
        add = add.wrapping_mul(factor).wrapping_add(add);
        factor = factor.wrapping_mul(factor);
        left >>= 1;
    }
    state_factor.wrapping_add(state_add)
}

/// Runs the program on main, and moves it to the other kernel meanwhile.
fn moved_once(rig: &mut Rig, arguments: &[&str], says: &str) -> Result<(), Failure> {
    let running = run(rig, "main", arguments);
    let pid = pid_of(rig, "main", PROGRAM)?;
    moves(rig, &format!("on shadow move {pid} shadow"))?;
    pid_of(rig, "shadow", PROGRAM)?;
    let found = running.end()?;
    let is_good = found.code == 0 && found.out == says.as_bytes();
    if is_good { Ok(()) } else { Err(wrong(&format!("{arguments:?} after a move"), found)) }
}

/// Gives a command that must succeed, and so says nothing.
fn moves(rig: &mut Rig, command: &str) -> Result<(), Failure> {
    let said = rig.ask("main", command, PATIENCE)?;
    let is_answer = |line: &&str| !line.contains(command) && !matches!(line.trim(), "" | "main>");
    let answer: Vec<&str> = said.lines().filter(is_answer).collect();
    if answer.is_empty() { Ok(()) } else { Err(wrong(command, answer)) }
}

fn refused(rig: &mut Rig) -> Result<(), Failure> {
    install(rig)?;
    let asleep = Running::begin(&rig.instance, "main", &["zzz"], b"");
    let pid = pid_of(rig, "main", "tool")?;
    for (command, reason) in [
        (format!("move {pid} shadow"), "movable = true"),
        (format!("move {pid} umbra"), "no such domain"),
        ("move 999999 shadow".to_string(), "no such process"),
        ("move".to_string(), "PID KERNEL"),
    ] {
        let said = rig.ask("main", &command, PATIENCE)?;
        if !said.contains(reason) {
            return Err(wrong(&command, said));
        }
    }
    moves(rig, &format!("move {pid} main"))?;
    rig.ask("main", &format!("kill {pid}"), PATIENCE)?;
    asleep.end().map(|_| ())
}

/// Either kernel dies, again and again, while a program moves between them. It is lost with the
/// kernel that it was on; nothing is left of it, and the next one moves.
pub fn lost(rig: &mut Rig, rounds: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, PROGRAM)?;
    for round in 0..rounds {
        for (domain, victim) in ["shadow", "main"].into_iter().enumerate() {
            // More moves than there is time for.
            let running = run(rig, "main", &["measure", "1000000", "64"]);
            std::thread::sleep(Duration::from_millis(1000 + 37 * round));
            kill(rig, 1 - domain, victim)?;
            ends(running)?;
            put(rig, PROGRAM)?;
            nothing_left(rig)?;
            let found = run(rig, "main", &["memory"]).end()?;
            if found.code != 0 {
                return Err(wrong("memory after a death", found));
            }
            rig.counted.add(1, "kills");
        }
    }
    super::machine::demand(rig, "audit", "the invariant holds")?;
    super::machine::demand(rig, "on shadow audit", "the invariant holds").map(|_| ())
}

/// The program was lost; or it cannot move, because the other kernel has died, perhaps with the
/// process table.
fn ends(running: Running) -> Result<(), Failure> {
    match running.end() {
        Ok(found) if found.code == LOST => Ok(()),
        // What it says is lost if its output was, with the state of the file service.
        Ok(found) if found.code == 1 && [DEAD, STALE, b""].contains(&&found.out[..]) => Ok(()),
        Err(Failure::Wrong(why)) if why.contains("died") => Ok(()),
        Ok(found) => Err(wrong("a kernel died while it moved", found)),
        Err(why) => Err(why),
    }
}

fn run(rig: &Rig, kernel: &str, arguments: &[&str]) -> Running {
    Running::of(&rig.instance, Line::on(kernel, PROGRAM, arguments), b"")
}
