//! `abuse`: runs the targets over many seeds, or one over the bytes of files that a fuzzer found.
//!
//! ```text
//! abuse list                           the targets
//! abuse daily | nightly [TARGET]       as many seeds as such a run has; ends with a record
//! abuse seeds COUNT [TARGET]           from seed 0
//! abuse files TARGET FILE...
//! ```

use abuse::{TARGETS, Target};
use std::process::ExitCode;

/// The state of services is in arenas of their own.
#[global_allocator]
static ALLOCATOR: abuse::Allocator = abuse::allocator();

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => list(),
        ["daily", ref rest @ ..] => chosen(rest).and_then(|all| run("daily", &all, |it| it.daily)),
        ["nightly", ref rest @ ..] => {
            chosen(rest).and_then(|all| run("nightly", &all, |it| it.nightly))
        }
        ["seeds", count, ref rest @ ..] => seeds(count, rest),
        ["files", name, ref files @ ..] => files_of(name, files),
        _ => {
            Err("usage: abuse list, daily, nightly, seeds COUNT [TARGET], or files TARGET FILE..."
                .into())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("abuse: {why}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> Result<(), String> {
    TARGETS.iter().for_each(|target| println!("{:10} {}", target.name, target.about));
    Ok(())
}

fn named(name: &str) -> Result<&'static Target, String> {
    abuse::target(name).ok_or_else(|| format!("there is no target {name}; `abuse list` lists them"))
}

fn chosen(names: &[&str]) -> Result<Vec<&'static Target>, String> {
    if names.is_empty() { Ok(TARGETS.to_vec()) } else { names.iter().map(|it| named(it)).collect() }
}

fn seeds(count: &str, rest: &[&str]) -> Result<(), String> {
    let count = count.parse().map_err(|why| format!("{count}: {why}"))?;
    run("seeds", &chosen(rest)?, |_| count)
}

/// Runs targets; a panic names its target and seed.
fn run(what: &str, targets: &[&Target], count: impl Fn(&Target) -> u64) -> Result<(), String> {
    let mut inputs = 0;
    for target in targets {
        let begun = std::time::Instant::now();
        let missing = target.run_seeds(count(target));
        if count(target) >= target.daily && !missing.is_empty() {
            return Err(format!("{} never had: {}", target.name, missing.join(", ")));
        }
        inputs += count(target);
        println!("{:10} {:7} inputs in {:.1?}", target.name, count(target), begun.elapsed());
    }
    println!("record fuzz.runs.{what} {inputs} inputs");
    if targets.iter().any(|target| target.name == abuse::net::TARGET.name) {
        println!("record fuzz.net.{what} {} frames and calls", abuse::net::events());
    }
    Ok(())
}

fn files_of(name: &str, files: &[&str]) -> Result<(), String> {
    let target = named(name)?;
    for file in files {
        let bytes = std::fs::read(file).map_err(|why| format!("{file}: {why}"))?;
        (target.run)(&bytes);
    }
    println!("{} files, and no rule of {name} is broken", files.len());
    Ok(())
}
