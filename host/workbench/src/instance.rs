//! A board in its run folder: finding it, querying it, stopping it. `start.rs` starts one.
//!
//! ```text
//! run/NAME/  board.toml   the board file it was started from    soc.toml   the soc's settings
//!            program.key  seals programs for this board (given.rs)   system/  (host/deploy)
//!            DOMAIN.img   staged image      stub-ISA  the stub   blob.bin   the blob for kernels
//!            DOMAIN.log   early log         soc.log, soc.out, soc.pid    console.sock, console.log
//! ```
//! The folder outlives the board, so that logs can be read. The next start empties it, except for
//! disk images and their key.

use crate::processes::{self, Part, is_zombie};
use abi::boot::BlobError;
use abi::soc::{ChipPage, DomainStatus, unpack_state};
use board::{Board, BoardError};
use builds::image::ImageError;
use lab::model::{CACHE, KEPT};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;
use tree::place::Place;

/// Prefix of names of boards that `pen exec` starts for one program.
pub const BORROWED: &str = "exec-";
/// Time limit for the soc to serve the console.
pub const START: Duration = Duration::from_secs(20);
/// Time limit for the soc to shut down, before it is killed.
const STOP: Duration = Duration::from_secs(10);

/// Why a board did not start or stop.
#[derive(Debug, Error)]
pub enum InstanceError {
    /// A file of the run folder cannot be used.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// A board is running in the folder.
    #[error("\"{0}\" is running already: `./pen console {0}` attaches, `./pen down {0}` ends it")]
    Running(String),
    /// No such board is running here.
    #[error("\"{0}\" is not running; `./pen ps` lists what is")]
    NotRunning(String),
    /// The name cannot be that of a folder.
    #[error("\"{0}\" cannot be a name: use letters, digits, '-' and '_'")]
    Name(String),
    /// The board file is invalid.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// The blob does not pass the kernels' check.
    #[error("the kernels would reject this board: {0:?}")]
    Blob(BlobError),
    /// The kernel cannot be staged.
    #[error("domain \"{domain}\": {error}")]
    Image {
        /// The domain.
        domain: String,
        /// The reason.
        error: ImageError,
    },
    /// The soc's configuration cannot be written.
    #[error("cannot write soc.toml: {0}")]
    Config(#[from] toml::ser::Error),
    /// Exact instruction counts require one core per domain.
    #[error("--icount needs a board with one core per domain, such as solo-1 or duo-1x1")]
    OneCore,
    /// The command line wants a disk in memory that the board does not have.
    #[error("ram={0}: the board has no disk \"{0}\"; its board file names its devices")]
    NoSuchDisk(String),
    /// It gives the console to no domain that starts with the board: that name, and those that do.
    #[error("console={0}: no domain \"{0}\" starts with the board; these do: {1}")]
    NoSuchDomain(String, String),
    /// It wants a disk in memory that is too large: its name, its size and the most, in MiB.
    #[error("ram={0}: the disk has {1} MiB; here it can have {2}, half of the global memory")]
    LargeDisk(String, u64, u64),
    /// The lab's model cannot be written.
    #[error(transparent)]
    Lab(#[from] lab::model::ModelError),
    /// The run cannot have these points.
    #[error(transparent)]
    Points(#[from] lab::points::PointError),
    /// The soc ended or hung during its start.
    #[error("the soc {what}\n{tail}(all of it: {})", log.display())]
    Start {
        /// What happened.
        what: &'static str,
        /// End of its log.
        tail: String,
        /// Its log.
        log: PathBuf,
    },
    /// RAM is a sparse file: on a full disk the board would die at some later store.
    #[error("{folder} has {free} MiB of disk left, a board needs {ROOM}: free some space there")]
    Full {
        /// The run folder.
        folder: PathBuf,
        /// Free bytes.
        free: u64,
    },
    /// The process cannot be killed.
    #[error("process {0} of the board cannot be killed")]
    Stuck(i32),
}

/// Disk space in MiB that a board may come to use: its logs, and the memory that it touches.
pub const ROOM: u64 = 64;

/// What most functions of a board return.
pub type Outcome<T> = Result<T, InstanceError>;

/// Names the file that an error is about.
pub fn file<T>(path: &Path, result: std::io::Result<T>) -> Outcome<T> {
    result.map_err(|e| InstanceError::File(path.to_path_buf(), e))
}

/// A run folder.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
}

impl Instance {
    /// Returns the instance called `name`.
    pub fn named(place: &Place, name: &str) -> Outcome<Self> {
        let good = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !good {
            return Err(InstanceError::Name(name.to_string()));
        }
        Ok(Self { name: name.to_string(), folder: place.run(name) })
    }

    /// Returns an instance in any folder.
    pub fn at(folder: PathBuf) -> Self {
        Self { name: folder.display().to_string(), folder }
    }

    /// Returns an instance for every folder under run/.
    pub fn all(place: &Place) -> Vec<Instance> {
        let mut names: Vec<String> = std::fs::read_dir(place.root.join("run"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|e| e.path().join("soc.toml").exists())
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        names.sort();
        names.iter().filter_map(|n| Instance::named(place, n).ok()).collect()
    }

    /// Returns the path of a file of the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the soc's process, if it lives: the one in soc.pid, or any that works in this
    /// folder.
    pub fn soc(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.path("soc.pid")).unwrap_or_default();
        let told = text.trim().parse().ok().and_then(Pid::from_raw);
        told.filter(|pid| processes::is_soc(*pid, &self.folder)).or_else(|| self.socs().pop())
    }

    /// Returns every soc process whose working directory is this folder.
    fn socs(&self) -> Vec<Pid> {
        self.parts(Part::Soc)
    }

    fn parts(&self, part: Part) -> Vec<Pid> {
        let all = processes::within(&self.folder).into_iter();
        all.filter(|process| process.part == part).map(|process| process.pid).collect()
    }

    /// Returns the board that was started here.
    pub fn board(&self) -> Outcome<Board> {
        Ok(board::read(&self.path("board.toml"))?)
    }

    /// Creates the folder, if there is none.
    pub fn make_folder(&self) -> Outcome<()> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        file(&self.folder, made)?;
        // It may have been made by others, or by an earlier version.
        file(&self.folder, std::fs::set_permissions(&self.folder, Permissions::from_mode(0o700)))
    }

    /// Stops the board: requests a shutdown, then kills the soc and what remains of it.
    pub fn stop(&self) -> Outcome<()> {
        for pid in self.socs() {
            // It may have ended just now; then there is no process to signal.
            let _ = kill_process(pid, Signal::TERM);
            if !self.gone(pid, STOP) {
                let _ = kill_process(pid, Signal::KILL);
                if !self.gone(pid, STOP) {
                    return Err(InstanceError::Stuck(pid.as_raw_nonzero().get()));
                }
            }
        }
        let left = processes::within(&self.folder);
        for process in left.iter().filter(|process| process.part != Part::Soc) {
            let _ = kill_process(process.pid, Signal::KILL);
        }
        let _ = std::fs::remove_file(self.path("soc.pid"));
        // Large, and useless without the board.
        for large in ["ram", CACHE, KEPT] {
            let _ = std::fs::remove_file(self.path(large));
        }
        Ok(())
    }

    fn gone(&self, pid: Pid, patience: Duration) -> bool {
        let start = Instant::now();
        while test_kill_process(pid).is_ok() && !is_zombie(pid) {
            if start.elapsed() > patience {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Returns the QEMU processes whose working directory is this folder.
    pub fn machines(&self) -> Vec<Pid> {
        self.parts(Part::Emulator)
    }

    /// Returns the QEMU of one domain.
    pub fn machine(&self, domain: &str) -> Option<Pid> {
        let socket = format!("unix:{domain}.qmp,server=on,wait=off");
        self.machines().into_iter().find(|pid| {
            std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
                .is_ok_and(|line| line.split(|&b| b == 0).any(|a| a == socket.as_bytes()))
        })
    }

    /// Reads a word of the board's memory.
    pub fn word(&self, board: &Board, pa: u64) -> Option<u64> {
        let ram = std::fs::File::open(self.path("ram")).ok()?;
        let mut bytes = [0; 8];
        ram.read_exact_at(&mut bytes, board.offset(pa)).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Returns epoch, state and deaths of each domain, from the chip page.
    pub fn states(&self, board: &Board) -> Vec<(u64, u64, u64)> {
        let line =
            |i: usize| std::mem::offset_of!(ChipPage, domains) + i * size_of::<DomainStatus>();
        let word = |i, field| self.word(board, board.layout.chip + (line(i) + field) as u64);
        (0..board.domains.len())
            .map_while(|i| {
                let state = word(i, std::mem::offset_of!(DomainStatus, state))?;
                let (epoch, state) = unpack_state(state);
                Some((epoch, state, word(i, std::mem::offset_of!(DomainStatus, deaths))?))
            })
            .collect()
    }
}

/// Returns the last `lines` lines of a log, indented.
pub fn tail(path: &Path, lines: usize) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(|l| format!("    {l}\n")).collect()
}
