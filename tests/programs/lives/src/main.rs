//! A test program: what a program on one kernel sees while another kernel dies. Its exit code says
//! whether all was as documented; nothing else survives a restart of a file service in memory.
//!
//! ```text
//!   sleep           sleeps for an hour
//!   waits KERNEL    starts `sleep` on that kernel; its end must be reported as lost
//!   works ROUNDS    computes, writes and reads a file in memory: each read has what was written,
//!                   or the file service has restarted, which only one round notices
//!   lasts ROUNDS FILE
//!                   does the same with two files on a disk: what was synced is there
//! ```

use penumbra::{Command, End, Errno};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Exit codes.
const USAGE: u8 = 2;
const NOT_STARTED: u8 = 3;
const NO_END: u8 = 4;
const OTHER_END: u8 = 5;
const WRONG_SUM: u8 = 6;
const WRONG_FILE: u8 = 7;
const WRONG_ERROR: u8 = 8;

/// WASI's number for a handle of an earlier life of the file service.
const STALE: i32 = 72;

/// Starts a child that sleeps, and waits for its end.
fn waits(kernel: u32) -> Result<(), u8> {
    let child = Command::new("/bin/lives").arg("sleep").kernel(kernel).spawn();
    let child = child.map_err(|_| NOT_STARTED)?;
    match child.wait() {
        Ok(ended) if ended.end == End::Lost => {}
        Ok(_) => return Err(OTHER_END),
        Err(_) => return Err(NO_END),
    }
    // The end is reported once.
    match child.wait() {
        Err(Errno::CHILD) => Ok(()),
        _ => Err(OTHER_END),
    }
}

/// Returns a number that takes long to compute, and depends on each step.
fn sum(seed: u64, steps: u64) -> u64 {
    (0..steps).fold(seed, |sum, step| {
        (sum ^ step).wrapping_mul(6_364_136_223_846_793_005).rotate_left(17)
    })
}

/// Writes a file, syncs it, and reads it back. Returns whether the file service has not restarted
/// meanwhile.
fn keeps(name: &str, text: &str) -> Result<bool, u8> {
    let write = || {
        let mut file = File::create(name)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    match write().and_then(|()| std::fs::read_to_string(name)) {
        Ok(found) if found == text => Ok(true),
        Ok(_) => Err(WRONG_FILE),
        Err(why) if why.raw_os_error() == Some(STALE) => Ok(false),
        // It was in memory.
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
        Err(_) => Err(WRONG_ERROR),
    }
}

/// As `works`, with two files on a disk, in turn: while one is written, the other one was synced.
fn lasts(rounds: u64, name: &str) -> Result<(), u8> {
    let (mut synced, mut restarts) = (String::new(), 0);
    for round in 0..rounds {
        let text = format!("round {round}: {}\n", sum(round, 300_000));
        let [this, other] = [round, round + 1].map(|round| format!("{name}.{}", round % 2));
        if !keeps(&this, &text)? {
            restarts += 1;
            let found = if round == 0 { Ok(String::new()) } else { std::fs::read_to_string(other) };
            if restarts > 1 || found.map_err(|_| WRONG_ERROR)? != synced {
                return Err(WRONG_FILE);
            }
        }
        synced = text;
    }
    Ok(())
}

fn works(rounds: u64) -> Result<(), u8> {
    const STEPS: u64 = 300_000;
    let (mut total, mut restarts) = (0, 0);
    for round in 0..rounds {
        total = sum(total + round, STEPS);
        restarts += u32::from(!keeps("/works", &format!("round {round}: {total}\n"))?);
        // The preopened directory is opened again.
        if restarts > 1 {
            return Err(WRONG_ERROR);
        }
    }
    // Computed again, in one go.
    let again = (0..rounds).fold(0, |total, round| sum(total + round, STEPS));
    if again == total { Ok(()) } else { Err(WRONG_SUM) }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().map_err(|_| USAGE);
    let done = match words[..] {
        ["sleep"] => {
            std::thread::sleep(Duration::from_secs(3600));
            Ok(())
        }
        ["waits", kernel] => number(kernel).and_then(|kernel| waits(kernel as u32)),
        ["works", rounds] => number(rounds).and_then(works),
        ["lasts", rounds, file] => number(rounds).and_then(|rounds| lasts(rounds, file)),
        _ => Err(USAGE),
    };
    done.map_or_else(ExitCode::from, |()| ExitCode::SUCCESS)
}
