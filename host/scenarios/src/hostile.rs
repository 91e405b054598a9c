//! Hostile programs on both kernels of a board: each is rejected, ends, or can be killed; other
//! programs continue, and in the end all memory is released.

mod hogs;
mod imports;

use super::machine::demand;
use super::programs::{KILLED, Running, given_back, wrong};
use super::{Failure, PATIENCE, Rig};
use builds::compiler;
use deploy::exec::{Captured, Line};
use deploy::install;
use imports::Calls;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tree::place::Place;

/// A program; its parts are described at its top.
const HOSTILE: &str = "tests/programs/hostile.wat";
/// `pen exec`'s exit code for a trap.
const TRAPPED: u8 = 134;
/// WASI's errors: no slot for a process, no memory, no descriptor.
const AGAIN: u64 = 6;
const NOMEM: u64 = 48;
const MFILE: u64 = 33;
/// Both kernels, by number.
const KERNELS: [&str; 2] = ["main", "shadow"];
/// The kernels that start processes, and their numbers.
const HERE: &[(&str, &str)] = &[("main", "0"), ("shadow", "1")];
const AWAY: &[(&str, &str)] = &[("main", "1"), ("shadow", "0")];
/// KiB that may remain in use in a kernel: cached code of 16 programs, and growth of its heap. Not
/// included is what it keeps for the maximum number of processes (stacks, a page table per slot):
/// each kernel has had that many, alone, before the first measurement.
const STAYS: u64 = 3 << 10;
/// A kernel releases spare stacks within two seconds of its time.
const SETTLES: Duration = Duration::from_secs(3);

/// Runs all of them `rounds` times, and `nonsense` random modules.
pub fn endured(rig: &mut Rig, rounds: u64, nonsense: usize) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let place = Place::find()?;
    put(&place, rig, &place.root.join(Path::new(HOSTILE)), "hostile")?;
    let calls = Calls::new();
    let file = rig.instance.path("calls.wat");
    std::fs::write(&file, &calls.wat)?;
    put(&place, rig, &file, "calls")?;
    let witnesses = KERNELS.map(|kernel| begin(rig, kernel, &["witness"]));
    // Fill the kernels' caches before the first measurement.
    for one in HERE.chunks(1) {
        step(rig, "first bombs", |rig| bombs(rig, one))?;
    }
    let before = settled(rig)?;
    for round in 0..rounds {
        step(rig, "calls", |rig| called(rig, &calls))?;
        step(rig, "paths", paths)?;
        step(rig, "files", files)?;
        step(rig, "giants", giants)?;
        step(rig, "deep", deep)?;
        step(rig, "loops", loops)?;
        step(rig, "bombs", |rig| bombs(rig, if rounds > 1 { AWAY } else { HERE }))?;
        step(rig, "trees", trees)?;
        step(rig, "hogs", hogs::beside_hogs)?;
        let count = nonsense / rounds as usize;
        step(rig, "nonsense", |rig| nonsensical(&place, rig, round, count))?;
    }
    finished(rig, witnesses)?;
    given_back("KiB in use", &before, || {
        let after = in_use(rig)?;
        let is_enough = before.iter().zip(&after).all(|(before, after)| *after <= before + STAYS);
        Ok((after, is_enough))
    })?;
    KERNELS.iter().try_for_each(|kernel| {
        let on = if *kernel == "main" { "" } else { "on shadow " };
        demand(rig, &format!("{on}audit"), "the invariant holds").map(|_| ())
    })
}

/// Runs one kind of test; a failure is attributed to it.
fn step(
    rig: &mut Rig,
    name: &str,
    run: impl FnOnce(&mut Rig) -> Result<(), Failure>,
) -> Result<(), Failure> {
    run(rig).map_err(|why| Failure::Wrong(format!("{name}: {why}")))
}

fn put(place: &Place, rig: &Rig, file: &Path, name: &str) -> Result<(), Failure> {
    let put = install::put(place, &rig.instance, file, None, name);
    put.map(|_| ()).map_err(|why| wrong("install", format!("{why:#}")))
}

fn begin(rig: &Rig, kernel: &str, arguments: &[&str]) -> Running {
    Running::of(&rig.instance, Line::on(kernel, "hostile", arguments), b"")
}

/// Returns the numbers that a program prints, one per line, if it exits normally.
fn numbers(captured: Captured) -> Result<Vec<u64>, Failure> {
    let text = String::from_utf8_lossy(&captured.out);
    let numbers: Option<Vec<u64>> = text.lines().map(|line| line.parse().ok()).collect();
    match numbers {
        Some(numbers) if captured.code == 0 => Ok(numbers),
        _ => Err(wrong("a program that ends otherwise", captured)),
    }
}

/// Calls every import with every invalid address; both kernels return the same.
fn called(rig: &mut Rig, calls: &Calls) -> Result<(), Failure> {
    for kernel in KERNELS {
        let found = Running::of(&rig.instance, Line::on(kernel, "calls", &[]), b"").end()?;
        if found.code != 0 {
            return Err(wrong(kernel, found));
        }
        let all = calls.wrong(&found.out);
        if !all.is_empty() {
            return Err(wrong(kernel, all));
        }
    }
    Ok(())
}

/// No path leads out of a directory.
fn paths(rig: &mut Rig) -> Result<(), Failure> {
    for kernel in KERNELS {
        let found = begin(rig, kernel, &["paths"]).end()?;
        if found.code != 0 || found.out != b"0\n" {
            return Err(wrong(kernel, String::from_utf8_lossy(&found.err)));
        }
    }
    Ok(())
}

/// Descriptors run out, for each program separately; partially completed requests are undone.
fn files(rig: &mut Rig) -> Result<(), Failure> {
    for kernel in KERNELS {
        let all: Vec<_> = (0..3).map(|_| begin(rig, kernel, &["files"])).collect();
        for one in all {
            match numbers(one.end()?)?[..] {
                [MFILE, MFILE, 0, MFILE, 200..=256] => {}
                ref other => return Err(wrong(kernel, other)),
            }
        }
    }
    Ok(())
}

/// Memory runs out: two programs request all of it at once, and each gets memory or an error.
fn giants(rig: &mut Rig) -> Result<(), Failure> {
    for kernel in KERNELS {
        let all = [(); 2].map(|()| begin(rig, kernel, &["giant"]));
        let mut pages = 0;
        for one in all {
            match one.end() {
                // The other one took its memory after it had begun.
                Ok(found) if found.code == TRAPPED => {}
                Ok(found) => pages += numbers(found)?.iter().sum::<u64>(),
                // A program that found no memory did not start.
                Err(why) if why.to_string().contains("no memory for it") => {}
                Err(why) => return Err(why),
            }
        }
        if pages < 64 {
            return Err(wrong(kernel, pages));
        }
    }
    Ok(())
}

fn deep(rig: &mut Rig) -> Result<(), Failure> {
    for kernel in KERNELS {
        let code = begin(rig, kernel, &["deep"]).end()?.code;
        if code != TRAPPED {
            return Err(wrong(kernel, code));
        }
    }
    Ok(())
}

/// Loops on all cores are killed from the other kernel.
fn loops(rig: &mut Rig) -> Result<(), Failure> {
    for (kernel, on) in KERNELS.iter().zip(["on shadow ", ""]) {
        let all: Vec<_> = (0..3).map(|_| begin(rig, kernel, &["loop"])).collect();
        let found = until(rig, |found| on_kernel(found, kernel).len() == 4)?;
        // The first one is the witness.
        for pid in on_kernel(&found, kernel).iter().skip(1).map(|process| process.pid) {
            rig.ask("main", &format!("{on}kill {pid} KILL"), PATIENCE)?;
        }
        for one in all {
            let code = one.end()?.code;
            if code != KILLED {
                return Err(wrong(kernel, code));
            }
        }
    }
    Ok(())
}

/// A program that starts processes without end gets an error at the limit, and killing its group
/// ends all of them.
fn bombs(rig: &mut Rig, all: &[(&str, &str)]) -> Result<(), Failure> {
    let begun = all.iter().map(|(from, target)| begin(rig, from, &["bomb", target]));
    for one in begun.collect::<Vec<_>>() {
        match numbers(one.end()?)?[..] {
            [AGAIN | NOMEM, begun @ 16..=256, ended] if begun == ended => {}
            ref other => return Err(wrong("error, begun, ended", other)),
        }
    }
    Ok(())
}

/// Processes that start processes, recursively: all end together.
fn trees(rig: &mut Rig) -> Result<(), Failure> {
    for (kernel, target) in KERNELS.iter().zip(["0", "1"]) {
        let root = begin(rig, kernel, &["tree", target]);
        let found = until(rig, |found| found.len() >= 2 + 24)?;
        let mut groups: Vec<u32> = found.iter().map(|process| process.group).collect();
        groups.sort_unstable();
        let most = |group: &&u32| groups.iter().filter(|other| other == group).count();
        let group = groups.iter().max_by_key(most).copied().unwrap_or_default();
        let start = Instant::now();
        while processes(rig)?.iter().any(|process| process.group == group) {
            // A process that was just about to start another one may have a child left.
            rig.ask("main", &format!("kill -{group} KILL"), PATIENCE)?;
            if start.elapsed() > PATIENCE {
                return Err(wrong("they do not end", rig.ask("main", "ps", PATIENCE)?));
            }
        }
        let code = root.end()?.code;
        if code != KILLED {
            return Err(wrong(kernel, code));
        }
    }
    Ok(())
}

/// Random modules end in some way within a second, or by a signal after that.
fn nonsensical(place: &Place, rig: &mut Rig, seed: u64, count: usize) -> Result<(), Failure> {
    let failed = |why: anyhow::Error| wrong("nonsense", format!("{why:#}"));
    let what = "building the generator of random modules";
    let smith = compiler::helper(place, "smith", "pen-smith", what).map_err(failed)?;
    let (folder, list) = (rig.instance.path("smith"), rig.instance.path("imports.wat"));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(&list, imports::everything())?;
    let mut command = Command::new(smith);
    command.arg("nonsense").arg(seed.to_string()).arg(count.to_string()).arg(&folder).arg(&list);
    if !command.status()?.success() {
        return Err(wrong("pen-smith", command));
    }
    for index in 0..count {
        let name = format!("smith-{index}");
        put(place, rig, &folder.join(format!("{name}.wasm")), &name)?;
    }
    rig.counted.add(count as u64, "modules");
    let count = count.to_string();
    let all = [("main", "0"), ("shadow", "1")]
        .map(|(kernel, target)| begin(rig, kernel, &["run", target, &count]));
    let mut ends = vec![];
    for one in all {
        ends.push(numbers(one.end()?)?);
    }
    let differ = ends[0].iter().zip(&ends[1]).enumerate().filter(|(_, (a, b))| a != b);
    let differ: Vec<_> =
        differ.filter(|(_, (a, b))| ![**a, **b].iter().any(|e| chance(*e))).collect();
    if differ.is_empty() { Ok(()) } else { Err(wrong("ends differ (module, ends)", differ)) }
}

/// Returns whether an end depends on timing: our signal, or no memory.
fn chance(end: u64) -> bool {
    const SIGNAL: u64 = 2009;
    const NO_MEMORY: u64 = 3006;
    [SIGNAL, NO_MEMORY, 9000 + NOMEM].contains(&end)
}

/// The result of `hostile witness`.
fn sum() -> u64 {
    let mut x = 88_172_645_463_325_252_u64;
    let mut all = vec![];
    for _ in 0..(1 << 20) / 8 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        all.push(x);
    }
    let sum = all.iter().rev().fold(0u64, |sum, x| sum.rotate_left(1).wrapping_add(*x));
    u64::from((sum ^ (sum >> 32)) as u32)
}

/// The witnesses continue undisturbed and exit normally.
fn finished(rig: &mut Rig, witnesses: [Running; 2]) -> Result<(), Failure> {
    let found = until(rig, |found| found.len() <= 2)?;
    if found.len() != 2 {
        return Err(wrong("two should run", rig.ask("main", "ps", PATIENCE)?));
    }
    rig.ask("main", "fs write stop now", PATIENCE)?;
    for witness in witnesses {
        let said = numbers(witness.end()?)?;
        if said != [sum()] {
            return Err(wrong("a witness's sum", (said, sum())));
        }
    }
    Ok(())
}

/// Returns the KiB in use on each kernel.
fn in_use(rig: &mut Rig) -> Result<Vec<u64>, Failure> {
    let mut all = vec![];
    for on in ["", "on shadow "] {
        let said = rig.ask("main", &format!("{on}mem"), PATIENCE)?;
        let line = said.lines().find(|line| line.contains("KiB in use"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        all.push(number.ok_or_else(|| wrong("mem", said))?);
    }
    Ok(all)
}

/// Returns the same once usage stops falling.
fn settled(rig: &mut Rig) -> Result<Vec<u64>, Failure> {
    let start = Instant::now();
    let mut before = in_use(rig)?;
    loop {
        std::thread::sleep(SETTLES);
        let now = in_use(rig)?;
        let falls = now.iter().zip(&before).any(|(now, before)| *now + 64 < *before);
        if !falls || start.elapsed() > PATIENCE / 4 {
            return Ok(now);
        }
        before = now;
    }
}

/// A line of `ps`.
struct Process {
    pid: u32,
    group: u32,
    kernel: String,
    running: bool,
}

fn on_kernel<'a>(all: &'a [Process], kernel: &str) -> Vec<&'a Process> {
    all.iter().filter(|process| process.kernel == kernel && process.running).collect()
}

fn processes(rig: &mut Rig) -> Result<Vec<Process>, Failure> {
    let said = rig.ask("main", "ps", PATIENCE)?;
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [pid, _, group, kernel, state, .., _] = words[..] else { return None };
        let (pid, group) = (pid.parse().ok()?, group.parse().ok()?);
        Some(Process { pid, group, kernel: kernel.to_string(), running: state == "running" })
    };
    Ok(said.lines().filter_map(parse).collect())
}

/// Returns all processes once they satisfy a condition.
fn until(rig: &mut Rig, so: impl Fn(&[Process]) -> bool) -> Result<Vec<Process>, Failure> {
    let start = Instant::now();
    loop {
        let found = processes(rig)?;
        if so(&found) {
            return Ok(found);
        }
        if start.elapsed() > PATIENCE {
            return Err(wrong("ps", rig.ask("main", "ps", PATIENCE)?));
        }
    }
}
