//! Programs on the kernels of a board: what `pen exec` gives, traps, signals, the death of a kernel
//! under them.

use super::machine::demand;
use super::{Failure, PATIENCE, Rig};
use crate::exec::{Captured, Line, captured};
use crate::install;
use crate::instance::Instance;
use crate::place::Place;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Its parts are at its top.
const TOOL: &str = "tests/programs/tool.wat";
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// What `pen exec` ends with when the program's kernel died.
pub(super) const LOST: u8 = 125;
/// And for a trap.
const TRAPPED: u8 = 134;

/// What a scenario of programs finds wrong.
pub fn wrong(what: &str, found: impl std::fmt::Debug) -> Failure {
    Failure::Wrong(format!("{what}: {found:?}"))
}

pub(super) fn ready(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    install(rig)
}

pub fn install(rig: &Rig) -> Result<(), Failure> {
    install_as(rig, None, "tool")
}

/// The tool with a manifest and a name of its own.
pub(super) fn install_as(rig: &Rig, manifest: Option<&Path>, name: &str) -> Result<(), Failure> {
    let place = Place::find()?;
    let tool = place.root.join(Path::new(TOOL));
    let put = install::put(&place, &rig.instance, &tool, manifest, name);
    put.map(|_| ()).map_err(|why| wrong("install", format!("{why:#}")))
}

/// A program that runs beside the scenario.
pub struct Running(Receiver<Result<Captured, String>>);

impl Running {
    pub fn begin(instance: &Instance, kernel: &str, arguments: &[&str], input: &[u8]) -> Running {
        Running::of(instance, Line::on(kernel, "tool", arguments), input)
    }

    /// Begins what `pen exec` would with this line.
    pub fn of(instance: &Instance, line: Line, input: &[u8]) -> Running {
        let (sender, ended) = channel();
        let instance = Instance::at(instance.folder.clone());
        let input = input.to_vec();
        std::thread::spawn(move || {
            let done = captured(&instance, &line, Some(input)).map_err(|why| format!("{why:#}"));
            // Whoever is gone has given up.
            let _ = sender.send(done);
        });
        Running(ended)
    }

    /// How it ended.
    pub fn end(self) -> Result<Captured, Failure> {
        let done = self.0.recv_timeout(PATIENCE).map_err(|_| wrong("it does not end", ()))?;
        done.map_err(|why| wrong("exec", why))
    }
}

pub(super) fn run(
    rig: &Rig,
    kernel: &str,
    arguments: &[&str],
    input: &[u8],
) -> Result<Captured, Failure> {
    Running::begin(&rig.instance, kernel, arguments, input).end()
}

pub(super) fn says(
    rig: &Rig,
    kernel: &str,
    arguments: &[&str],
    input: &[u8],
    wanted: &[u8],
) -> Result<(), Failure> {
    let found = run(rig, kernel, arguments, input)?;
    let good = found.code == 0 && found.out == wanted && found.err.is_empty();
    if good { Ok(()) } else { Err(wrong(&arguments.join(" "), (found.code, found.out.len()))) }
}

/// The same file gives the same on each kernel: arguments, environment, input, files, exit codes.
pub fn exec(rig: &mut Rig, kernels: &[&str]) -> Result<(), Failure> {
    ready(rig)?;
    let bytes: Vec<u8> =
        (0..100_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for kernel in kernels {
        says(rig, kernel, &["args", "one", "two words"], b"", b"one\ntwo words\n")?;
        says(rig, kernel, &["env"], b"", b"COLOUR=blue\n")?;
        says(rig, kernel, &["cat"], &bytes, &bytes)?;
        says(rig, kernel, &["put", "file"], &bytes, b"")?;
        let code = run(rig, kernel, &["exit", "42"], b"")?.code;
        if code != 42 {
            return Err(wrong("exit 42", code));
        }
        let error = run(rig, kernel, &["type", "missing"], b"")?;
        if error.err != b"tool: error 44\n" {
            return Err(wrong("a file that is not there", error));
        }
        let escape = run(rig, kernel, &["type", "../../etc"], b"")?;
        if escape.err != b"tool: error 76\n" {
            return Err(wrong("a path that leaves its directory", escape));
        }
        let other = kernels.iter().rev().find(|other| *other != kernel).unwrap_or(kernel);
        says(rig, other, &["type", "file"], b"", &bytes)?;
    }
    demand(rig, "audit", "the invariant holds").map(|_| ())
}

/// Each trap ends its program and nothing else, with a report that names the function.
pub fn traps(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    let before = free_memory(rig)?;
    for kernel in ["main", "shadow"] {
        for trap in ["unreachable", "memory", "division", "stack", "null", "table"] {
            let found = run(rig, kernel, &["bad", trap], b"")?;
            if found.code != TRAPPED {
                return Err(wrong(trap, found));
            }
        }
        let pages = run(rig, kernel, &["grow"], b"")?;
        let count = String::from_utf8_lossy(&pages.out).trim().parse::<u64>().unwrap_or(0);
        if pages.code != 0 || count < 64 {
            return Err(wrong("all memory there is", pages));
        }
    }
    for kernel in ["main", "shadow"] {
        let log = rig.early_log(kernel);
        let named = |function: &str| log.contains(&format!(" in {function} + "));
        // Where it trapped, and who had called that.
        if !["deep", "bad", "start"].into_iter().all(named) {
            return Err(wrong("the log names not all functions", log));
        }
    }
    demand(rig, "audit", "the invariant holds")?;
    let after = free_memory(rig)?;
    // What stays: the program's code, kept for the next one, and tables of the page table.
    if after + 4096 < before {
        return Err(wrong("KiB of free memory", (before, after)));
    }
    Ok(())
}

/// Looks until memory is as it was but for what may stay: who has ended gives back its own a moment
/// later. `look`: what there is, and is that enough?
pub(super) fn given_back<T: std::fmt::Debug>(
    what: &str,
    before: &T,
    look: impl FnMut() -> Result<(T, bool), Failure>,
) -> Result<(), Failure> {
    let late = |after| wrong(what, (before, after));
    awaited(PATIENCE / 4, late, look).map(|_| ())
}

/// Looks until it is so: what there is, and is that it? `late`: what is wrong when it never is.
pub(super) fn awaited<T>(
    patience: Duration,
    late: impl FnOnce(T) -> Failure,
    mut look: impl FnMut() -> Result<(T, bool), Failure>,
) -> Result<T, Failure> {
    let start = Instant::now();
    loop {
        let (found, is_so) = look()?;
        if is_so {
            return Ok(found);
        }
        if start.elapsed() > patience {
            return Err(late(found));
        }
        std::thread::sleep(LOOK);
    }
}

/// KiB of main's memory that are free.
fn free_memory(rig: &mut Rig) -> Result<u64, Failure> {
    free_memory_on(rig, "")
}

/// The same of the kernel that `on` leads to.
pub(super) fn free_memory_on(rig: &mut Rig, on: &str) -> Result<u64, Failure> {
    let said = rig.ask("main", &format!("{on}mem"), PATIENCE)?;
    let line = said.lines().find(|line| line.ends_with("KiB free"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| wrong("mem", said))
}

/// The number of the process that `ps` of any kernel shows on `kernel`, once it runs.
pub(super) fn pid_on(rig: &mut Rig, kernel: &str) -> Result<String, Failure> {
    let start = Instant::now();
    loop {
        let said = rig.ask("main", "on shadow ps", PATIENCE)?;
        let is =
            |words: &[&str]| matches!(words, [_, _, _, on, "running", .., "tool"] if *on == kernel);
        let line = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        if let Some(words) = line.into_iter().find(|words| is(words)) {
            return Ok(words[0].to_string());
        }
        if start.elapsed() > PATIENCE {
            return Err(wrong("ps does not show it", said));
        }
    }
}

/// A signal from either kernel ends what runs on the other: asleep, in a read, in a loop that asks
/// for nothing, in one that is in the engine almost always.
pub fn killed(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    for (kernel, from) in [("main", "on shadow "), ("shadow", ""), ("shadow", "on shadow ")] {
        for what in ["zzz", "spin", "fill"] {
            let running = Running::begin(&rig.instance, kernel, &[what], b"");
            let pid = pid_on(rig, kernel)?;
            rig.ask("main", &format!("{from}kill {pid} INT"), PATIENCE)?;
            let code = running.end()?.code;
            if code != 128 + 2 {
                return Err(wrong(what, code));
            }
        }
    }
    demand(rig, "kill 9999", "there is no such process").map(|_| ())
}

/// The weak kernel dies under a program: it is reported lost, one on the other kernel goes on, and
/// the weak kernel comes back and runs programs.
pub fn lost(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    for _ in 0..3 {
        let there = Running::begin(&rig.instance, "shadow", &["spin"], b"");
        pid_on(rig, "shadow")?;
        let here = Running::begin(&rig.instance, "main", &["zzz"], b"");
        let pid = pid_on(rig, "main")?;
        // By then whoever asked for the two knows that they began.
        says(rig, "main", &["args", "meanwhile"], b"", b"meanwhile\n")?;
        rig.kill("shadow")?;
        let found = there.end()?;
        if found.code != LOST {
            return Err(wrong("a program of a kernel that died", found));
        }
        back(rig)?;
        rig.ask("main", &format!("kill {pid}"), PATIENCE)?;
        let found = here.end()?;
        if found.code != 128 + 15 {
            return Err(wrong("a program of the kernel that lives", found));
        }
        // Files may have begun anew with that death, and the program with them.
        install(rig)?;
        says(rig, "shadow", &["args", "back"], b"", b"back\n")?;
    }
    Ok(())
}

/// The weak kernel runs again.
pub(super) fn back(rig: &mut Rig) -> Result<(), Failure> {
    let start = Instant::now();
    while !rig.ask("main", "ping shadow", PATIENCE)?.contains("answer from") {
        if start.elapsed() > PATIENCE {
            return Err(wrong("it does not come back", "shadow"));
        }
    }
    Ok(())
}
