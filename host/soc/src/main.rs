//! `soc RUNDIR`: the chip of the board described by `RUNDIR/soc.toml`.
//!
//! Exit code 0: shut down; 1: an essential domain was lost, or the last one; 2: could not start. A
//! board that starts again keeps its process, which executes this program again.

use rustix::fs::{FlockOperation, Mode, flock};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
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
    // Held while this process lives: at most one soc per run folder.
    let _lock = match prepare(&folder, start) {
        Ok(lock) => lock,
        Err(e) => return fail(&format!("{}: {e}.", folder.display())),
    };
    let code = match soc::board::run(&folder, start) {
        Ok(soc::supervisor::End::Ordered(who)) => {
            log::info!("The board is off, as {who} has ordered.");
            ExitCode::SUCCESS
        }
        Ok(soc::supervisor::End::Again) => {
            log::info!("The board is off, and starts again.");
            again()
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
    // The lock is released with the process; the file only tells its number.
    let _ = std::fs::remove_file(folder.join("soc.pid"));
    code
}

/// Executes this program again; returns only if that fails. The program is the one that runs now,
/// even if its file has been replaced since; the lock and all other open files are closed.
fn again() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let why = Command::new("/proc/self/exe").arg0(name).args(words).exec();
    log::error!("The board cannot start again: {why}.");
    ExitCode::from(2)
}

fn fail(sentence: &str) -> ExitCode {
    eprintln!("soc: {sentence}");
    ExitCode::from(2)
}

/// Makes all files of this process and of its QEMUs accessible to their user only: they contain
/// the memory of all programs, and the key that vouches for code. Fails if the folder is open to
/// others.
fn keep_private(folder: &Path) -> std::io::Result<()> {
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let mode = folder.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let why = format!("other users may open this folder (mode {mode:03o}); `chmod 700` it");
    Err(std::io::Error::other(why))
}

/// Takes the lock on `soc.pid` and opens `soc.log`, appending to it when the board starts again.
/// The file always holds our number, for other processes that check whether the board lives.
fn prepare(folder: &Path, start: Instant) -> std::io::Result<File> {
    keep_private(folder)?;
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false);
    let mut lock = options.open(folder.join("soc.pid"))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| std::io::Error::other("another soc runs there"))?;
    let number = format!("{}\n", std::process::id());
    lock.write_all(number.as_bytes())?;
    lock.set_len(number.len() as u64)?;
    let life = soc::lives::count(folder);
    let file = OpenOptions::new().create(true).append(true).open(folder.join("soc.log"))?;
    if life == 1 {
        file.set_len(0)?;
    }
    soc::logging::start(file, start).map_err(std::io::Error::other)?;
    let (folder, process) = (folder.display(), std::process::id());
    log::info!("The soc of {folder} starts, process {process}, start {life}.");
    Ok(lock)
}
