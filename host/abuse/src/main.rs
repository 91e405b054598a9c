//! `abuse`: [`abuse::exercise`] over many seeds, or over the bytes of files that a fuzzer found.
//!
//! ```text
//! abuse --seeds 100000        from seed 0
//! abuse FILE...
//! ```

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--seeds", count] => match count.parse() {
            Ok(count) => seeds(count),
            Err(why) => trouble(count, why),
        },
        [] => trouble("usage", "abuse --seeds COUNT, or abuse FILE..."),
        ref files => all(files),
    }
}

fn trouble(what: &str, why: impl std::fmt::Display) -> ExitCode {
    eprintln!("abuse: {what}: {why}");
    ExitCode::FAILURE
}

/// Runs seeds; a panic names its seed.
fn seeds(count: u64) -> ExitCode {
    for seed in 0..count {
        let done = std::panic::catch_unwind(|| abuse::exercise(&abuse::bytes_of(seed)));
        if done.is_err() {
            return trouble("seed", seed);
        }
    }
    println!("{count} seeds, and all is as it must be");
    ExitCode::SUCCESS
}

fn all(files: &[&str]) -> ExitCode {
    for file in files {
        match std::fs::read(file) {
            Ok(bytes) => drop(abuse::exercise(&bytes)),
            Err(why) => return trouble(file, why),
        }
    }
    ExitCode::SUCCESS
}
