//! Many programs at once, and the choice of their kernels.

use super::machine::demand;
use super::peers::wait_for;
use super::programs::{Running, free_memory_on, given_back, install_as, ready, run, wrong};
use super::{Failure, PATIENCE, Rig};
use abi::process::PROCESSES;
use abi::quota::RESERVED_PROCESSES;
use abi::soc::state;
use deploy::exec::Line;
use std::time::{Duration, Instant};

/// KiB that a kernel may keep when all programs have ended: page tables, caches.
const KEPT: u64 = 2048;
/// Programs that run beside two full trees: fewer than the streams of a board.
const BESIDE: usize = 8;

/// Two process trees take all slots that trees get, on both kernels; the system starts programs
/// beside them; killed, all release their memory.
pub fn many(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    // The first round fills caches that kernels keep.
    crowd(rig)?;
    let before = free(rig)?;
    crowd(rig)?;
    given_back("KiB of free memory, main and shadow", &before, || {
        let after = free(rig)?;
        Ok((after, after.iter().zip(&before).all(|(after, before)| after + KEPT >= *before)))
    })?;
    for on in ["", "on shadow "] {
        demand(rig, &format!("{on}audit"), "the invariant holds")?;
    }
    Ok(())
}

fn free(rig: &mut Rig) -> Result<[u64; 2], Failure> {
    Ok([free_memory_on(rig, "")?, free_memory_on(rig, "on shadow ")?])
}

fn crowd(rig: &mut Rig) -> Result<(), Failure> {
    const TREE: usize = PROCESSES / 2;
    let first = Running::begin(&rig.instance, "main", &["many", "4"], b"");
    let before = running(rig, TREE)?;
    let second = Running::begin(&rig.instance, "main", &["many", "4"], b"");
    running(rig, PROCESSES - RESERVED_PROCESSES)?;
    let last: Vec<_> = (0..BESIDE).map(|_| begin_sleeper(rig)).collect();
    let listed = running(rig, PROCESSES - RESERVED_PROCESSES + BESIDE)?;
    for kernel in ["main", "shadow"] {
        let count = listed.iter().filter(|line| line.get(3).is_some_and(|on| on == kernel)).count();
        if count < PROCESSES / 5 {
            return Err(wrong("processes on one kernel", (kernel, count)));
        }
    }
    let ids = |lines: &[Vec<String>]| -> Vec<String> {
        lines.iter().filter_map(|line| line.first().cloned()).collect()
    };
    let (of_first, all) = (ids(&before), ids(&listed));
    let of_second: Vec<_> = all.iter().filter(|pid| !of_first.contains(pid)).cloned().collect();
    dissolve(rig, first, (&of_first, TREE - 1))?;
    dissolve(rig, second, (&of_second, TREE - RESERVED_PROCESSES - 1))?;
    end_all(rig, last)?;
    let left = processes(rig)?;
    if left.is_empty() { Ok(()) } else { Err(wrong("processes that are left", left)) }
}

fn begin_sleeper(rig: &Rig) -> Running {
    Running::begin(&rig.instance, "shadow", &["zzz"], b"")
}

/// Kills a child of a crowd: its parent then kills the others. `pids` are those of the tree, in
/// ascending order, its root first.
fn dissolve(
    rig: &mut Rig,
    crowd: Running,
    (pids, children): (&[String], usize),
) -> Result<(), Failure> {
    let pid = pids.get(1).ok_or_else(|| wrong("no child", pids.len()))?;
    rig.ask("main", &format!("kill {pid}"), PATIENCE)?;
    let done = crowd.end()?;
    let wanted = format!("{children}\n6\n{children}\n12\n");
    if done.code != 0 || done.out != wanted.as_bytes() {
        return Err(wrong("their parent", done));
    }
    Ok(())
}

/// Kills all programs that are left, which are these.
fn end_all(rig: &mut Rig, all: Vec<Running>) -> Result<(), Failure> {
    for line in processes(rig)? {
        let pid = line.first().ok_or_else(|| wrong("ps", ()))?;
        rig.ask("main", &format!("kill {pid}"), PATIENCE)?;
    }
    for one in all {
        let done = one.end()?;
        if done.code != 128 + 15 {
            return Err(wrong("a program that was killed", done));
        }
    }
    Ok(())
}

/// Returns the words of the lines of `ps` about running processes.
pub(super) fn processes(rig: &mut Rig) -> Result<Vec<Vec<String>>, Failure> {
    let said = rig.ask("main", "ps", PATIENCE)?;
    let lines = said.lines().map(|line| line.split_whitespace().map(str::to_string).collect());
    Ok(lines.filter(|words: &Vec<String>| words.last().is_some_and(|w| w == "tool")).collect())
}

/// Waits until `count` processes run.
fn running(rig: &mut Rig, count: usize) -> Result<Vec<Vec<String>>, Failure> {
    let start = Instant::now();
    loop {
        let lines = processes(rig)?;
        let run = lines.iter().filter(|line| line.get(4).is_some_and(|state| state == "running"));
        if run.count() == count {
            return Ok(lines);
        }
        if start.elapsed() > PATIENCE {
            return Err(wrong("processes at once", lines.len()));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Without a requested kernel the class decides: strong or weak cores, also when the weak ones
/// sleep. A program's use of cores, memory and services is reported while it runs.
pub fn placed(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    let manifest = rig.instance.path("light.toml");
    std::fs::write(&manifest, "class = \"light\"\n")?;
    install_as(rig, Some(&manifest), "light")?;
    for _ in 0..2 {
        for (program, kernel) in [("tool", "0"), ("light", "1")] {
            let found =
                Running::of(&rig.instance, Line::anywhere(program, &["self"]), b"").end()?;
            let said = String::from_utf8_lossy(&found.out);
            if found.code != 0 || said.lines().nth(3) != Some(kernel) {
                return Err(wrong(program, found));
            }
        }
        let found = run(rig, "shadow", &["self"], b"")?;
        if String::from_utf8_lossy(&found.out).lines().nth(3) != Some("1") {
            return Err(wrong("a requested kernel", found));
        }
        demand(rig, "domain off shadow", "domain shadow: ")?;
        wait_for(rig, "went off", |_, now| now == state::OFF)?;
    }
    accounts(rig)
}

fn accounts(rig: &mut Rig) -> Result<(), Failure> {
    let spin = Running::begin(&rig.instance, "shadow", &["spin"], b"");
    let start = Instant::now();
    let pid = loop {
        // pid parent group kernel state ms KiB messages name
        let lines = processes(rig)?;
        let number = |at: usize| lines.first()?.get(at)?.parse::<u64>().ok();
        let used = [number(5), number(6), number(7)].map(Option::unwrap_or_default);
        if used[0] >= 100 && used[1] == 64 && used[2] > 0 {
            break number(0).unwrap_or_default();
        }
        if start.elapsed() > PATIENCE {
            return Err(wrong("what a loop uses", lines));
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    rig.ask("main", &format!("kill {pid}"), PATIENCE)?;
    spin.end().map(|_| ())
}
