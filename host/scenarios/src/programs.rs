//! Programs on the kernels of a board: results of `pen exec`, traps, signals, the death of a
//! program's kernel.

use super::machine::demand;
use super::{Failure, PATIENCE, Rig};
use builds::compiler;
use deploy::exec::{Captured, Line, captured};
use deploy::install::{self, Grants, Source};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tree::place::Place;
use workbench::instance::Instance;

/// A program; its parts are described at its top.
const TOOL: &str = "tests/programs/tool.wat";
/// Time between two checks.
const LOOK: Duration = Duration::from_millis(100);
/// `pen exec`'s exit code if the program's kernel died, or the process table has lost its end.
pub(super) const LOST: u8 = 125;
/// Its exit code for a program that was killed.
pub(super) const KILLED: u8 = 128 + 9;
/// Its exit code for a trap.
const TRAPPED: u8 = 134;

/// Returns the failure of a scenario of programs.
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

/// Installs the tool under a name, with a manifest.
pub(super) fn install_as(rig: &Rig, manifest: Option<&Path>, name: &str) -> Result<(), Failure> {
    let place = Place::find()?;
    let tool = place.root.join(Path::new(TOOL));
    let put = install::put(&place, &rig.instance, &tool, manifest, name);
    put.map(|_| ()).map_err(|why| wrong("install", format!("{why:#}")))
}

/// The same with the grants of the manifest allowed or not.
pub(super) fn install_granting(
    rig: &Rig,
    manifest: &Path,
    name: &str,
    grants: Grants,
) -> Result<(), Failure> {
    let place = Place::find()?;
    let tool = place.root.join(Path::new(TOOL));
    let source = Source { grants, ..Source::new(&tool, Some(manifest)) };
    let put = install::put_by(compiler::chosen(), &place, &rig.instance, source, name);
    put.map(|_| ()).map_err(|why| wrong("install", format!("{why:#}")))
}

/// A program that runs concurrently with the scenario.
pub struct Running(Receiver<Result<Captured, String>>);

impl Running {
    pub fn begin(instance: &Instance, kernel: &str, arguments: &[&str], input: &[u8]) -> Running {
        Running::of(instance, Line::on(kernel, "tool", arguments), input)
    }

    /// Starts what `pen exec` would with this command line.
    pub fn of(instance: &Instance, line: Line, input: &[u8]) -> Running {
        let (sender, ended) = channel();
        let instance = Instance::at(instance.folder.clone());
        let input = input.to_vec();
        std::thread::spawn(move || {
            let done = captured(&instance, &line, Some(input)).map_err(|why| format!("{why:#}"));
            // An error means that the receiver has given up.
            let _ = sender.send(done);
        });
        Running(ended)
    }

    /// Waits for it. Returns the result.
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

/// The same file gives the same result on each kernel: arguments, environment, input, files, exit
/// codes.
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

/// Each trap ends only its program, with a report that names the function.
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
        // The function that trapped, and its callers.
        if !["deep", "bad", "start"].into_iter().all(named) {
            return Err(wrong("the log names not all functions", log));
        }
    }
    demand(rig, "audit", "the invariant holds")?;
    let after = free_memory(rig)?;
    // The kernel keeps the program's code for the next run, and page tables.
    if after + 4096 < before {
        return Err(wrong("KiB of free memory", (before, after)));
    }
    Ok(())
}

/// Waits until memory usage is as before, except for what may stay: an ended program's memory is
/// freed a moment later. `look` returns the usage, and whether it is acceptable.
pub(super) fn given_back<T: std::fmt::Debug>(
    what: &str,
    before: &T,
    look: impl FnMut() -> Result<(T, bool), Failure>,
) -> Result<(), Failure> {
    let late = |after| wrong(what, (before, after));
    awaited(PATIENCE / 4, late, look).map(|_| ())
}

/// Waits for a condition. `look` returns the state, and whether the condition holds; `late`
/// describes the failure if it never does.
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

/// Returns the KiB of free memory on main.
fn free_memory(rig: &mut Rig) -> Result<u64, Failure> {
    free_memory_on(rig, "")
}

/// Returns the same for the kernel that `on` addresses.
pub(super) fn free_memory_on(rig: &mut Rig, on: &str) -> Result<u64, Failure> {
    let said = rig.ask("main", &format!("{on}mem"), PATIENCE)?;
    let line = said.lines().find(|line| line.ends_with("KiB free"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| wrong("mem", said))
}

/// Returns the number of the process on `kernel`, from `ps` on any kernel, once it runs.
pub(super) fn pid_on(rig: &mut Rig, kernel: &str) -> Result<String, Failure> {
    pid_of(rig, kernel, "tool")
}

/// Returns the number of the process that runs this program on a kernel.
pub(super) fn pid_of(rig: &mut Rig, kernel: &str, program: &str) -> Result<String, Failure> {
    let start = Instant::now();
    loop {
        let said = rig.ask("main", "on shadow ps", PATIENCE)?;
        let is = |words: &[&str]| match words {
            [_, _, _, on, "running", .., name] => (*on, *name) == (kernel, program),
            _ => false,
        };
        let line = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        if let Some(words) = line.into_iter().find(|words| is(words)) {
            return Ok(words[0].to_string());
        }
        if start.elapsed() > PATIENCE {
            return Err(wrong("ps does not show it", said));
        }
    }
}

/// A signal from either kernel ends a program on the other one: asleep, in a read, in a loop
/// without calls, in a loop that is nearly always in the engine.
pub fn killed(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    for (kernel, from) in [("main", "on shadow "), ("shadow", ""), ("shadow", "on shadow ")] {
        for what in ["zzz", "reads", "spin", "fill"] {
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

/// The weak kernel dies while it runs a program: the program is reported lost, one on the other
/// kernel continues, and the weak kernel comes back and runs programs.
pub fn lost(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    for _ in 0..3 {
        let there = Running::begin(&rig.instance, "shadow", &["spin"], b"");
        pid_on(rig, "shadow")?;
        let here = Running::begin(&rig.instance, "main", &["zzz"], b"");
        let pid = pid_on(rig, "main")?;
        main_knows(rig)?;
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
        // The death may have emptied the file system in memory, and removed the program.
        install(rig)?;
        says(rig, "shadow", &["args", "back"], b"", b"back\n")?;
    }
    Ok(())
}

/// Runs the tool on main. Afterwards main knows that programs started before have started. Until
/// then, a death of their kernel may lose that fact with the process table, and `exec` can only
/// report an error.
pub(super) fn main_knows(rig: &Rig) -> Result<(), Failure> {
    says(rig, "main", &["args", "meanwhile"], b"", b"meanwhile\n")
}

/// Waits until the weak kernel runs again.
pub(super) fn back(rig: &mut Rig) -> Result<(), Failure> {
    let start = Instant::now();
    while !rig.ask("main", "ping shadow", PATIENCE)?.contains("answer from") {
        if start.elapsed() > PATIENCE {
            return Err(wrong("it does not come back", "shadow"));
        }
    }
    Ok(())
}
