//! Many programs at once, and the choice of their kernels.

use super::machine::demand;
use super::peers::wait_for;
use super::programs::{Running, free_memory_on, given_back, install_as, ready, run, wrong};
use super::{Failure, PATIENCE, Rig};
use abi::process::PROCESSES;
use abi::soc::state;
use deploy::exec::Line;
use std::time::{Duration, Instant};

/// KiB that a kernel may keep when all programs have ended: page tables, caches.
const KEPT: u64 = 2048;

/// As many programs as there are slots run at once, on both kernels; one more is rejected; killed
/// as a group, they release their memory.
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
    let crowd = Running::begin(&rig.instance, "main", &["many", "4"], b"");
    let listed = full(rig)?;
    for kernel in ["main", "shadow"] {
        let count = listed.iter().filter(|line| line.get(3).is_some_and(|on| on == kernel)).count();
        if count < PROCESSES / 4 - 1 {
            return Err(wrong("processes on one kernel", (kernel, count)));
        }
    }
    let refused = Running::begin(&rig.instance, "shadow", &["args"], b"").end();
    let why = format!("{refused:?}");
    if refused.is_ok() || !why.contains("all places for processes are taken") {
        return Err(wrong("one more", why));
    }
    // Any child; its parent then kills the others.
    let child = listed.iter().find(|line| line.get(3).is_some_and(|on| on == "shadow"));
    let pid = child.and_then(|line| line.first()).ok_or_else(|| wrong("none on shadow", ()))?;
    rig.ask("main", &format!("kill {pid}"), PATIENCE)?;
    let (done, children) = (crowd.end()?, PROCESSES - 1);
    let wanted = format!("{children}\n6\n{children}\n12\n");
    if done.code != 0 || done.out != wanted.as_bytes() {
        return Err(wrong("their parent", done));
    }
    let left = processes(rig)?;
    if left.is_empty() { Ok(()) } else { Err(wrong("processes that are left", left)) }
}

/// Returns the words of the lines of `ps` about running processes.
pub(super) fn processes(rig: &mut Rig) -> Result<Vec<Vec<String>>, Failure> {
    let said = rig.ask("main", "ps", PATIENCE)?;
    let lines = said.lines().map(|line| line.split_whitespace().map(str::to_string).collect());
    Ok(lines.filter(|words: &Vec<String>| words.last().is_some_and(|w| w == "tool")).collect())
}

/// Waits until all slots are taken by running processes.
fn full(rig: &mut Rig) -> Result<Vec<Vec<String>>, Failure> {
    let start = Instant::now();
    loop {
        let lines = processes(rig)?;
        let run = lines.iter().filter(|line| line.get(4).is_some_and(|state| state == "running"));
        if run.count() == PROCESSES {
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
