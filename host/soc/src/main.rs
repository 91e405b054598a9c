//! `soc RUNDIR`: the chip of the board described by `RUNDIR/soc.toml`.
//!
//! Exit code 0: ended in order; 1: an essential domain was lost; 2: could not start.

use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let start = Instant::now();
    let mut arguments = std::env::args_os().skip(1);
    let (Some(folder), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: soc RUNDIR");
        return ExitCode::from(2);
    };
    let folder = match std::fs::canonicalize(PathBuf::from(folder)) {
        Ok(folder) => folder,
        Err(e) => return fail(&format!("The run folder cannot be used: {e}.")),
    };
    // Held as long as we live: at most one soc a run folder.
    let _lock = match prepare(&folder, start) {
        Ok(lock) => lock,
        Err(e) => return fail(&format!("{}: {e}.", folder.display())),
    };
    let code = match soc::board::run(&folder, start) {
        Ok(soc::supervisor::End::Ordered(who)) => {
            log::info!("The board is off, as {who} has ordered.");
            ExitCode::SUCCESS
        }
        Ok(soc::supervisor::End::Lost(name)) => {
            log::error!("The board is off: {name} was lost.");
            ExitCode::from(1)
        }
        Err(e) => {
            log::error!("The board cannot start: {e}.");
            ExitCode::from(2)
        }
    };
    // The lock goes with the process; the file only tells our number.
    let _ = std::fs::remove_file(folder.join("soc.pid"));
    code
}

fn fail(sentence: &str) -> ExitCode {
    eprintln!("soc: {sentence}");
    ExitCode::from(2)
}

/// Takes `soc.pid` and starts `soc.log`.
fn prepare(folder: &Path, start: Instant) -> std::io::Result<File> {
    let options = || {
        let mut options = OpenOptions::new();
        options.create(true).write(true);
        options
    };
    let mut lock = options().truncate(false).open(folder.join("soc.pid"))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| std::io::Error::other("another soc runs there"))?;
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id())?;
    let file = options().truncate(true).open(folder.join("soc.log"))?;
    soc::logging::start(file, start).map_err(std::io::Error::other)?;
    log::info!("The soc of {} starts, process {}.", folder.display(), std::process::id());
    Ok(lock)
}
