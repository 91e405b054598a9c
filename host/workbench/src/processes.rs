//! The socs, QEMUs and gateways of this tree, found in the system's list of processes.
//!
//! A process is identified by its program and its working directory in `/proc`. Its command line is
//! not usable: it is empty for a moment while a soc executes itself (`reboot`).

use rustix::process::{Pid, getpid};
use std::path::{Path, PathBuf};
use tree::place::Place;

/// Name of the gateway's program, which is next to the soc.
pub const GATEWAY: &str = "pen-gateway";

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The soc of a board.
    Soc,
    /// The QEMU of a domain.
    Emulator,
    /// The gateway of its network.
    Gateway,
}

/// A process of a board.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its process id.
    pub pid: Pid,
    /// Its role.
    pub part: Part,
    /// Its working directory: the run folder.
    pub folder: PathBuf,
    /// Its program.
    program: PathBuf,
    /// The process that started it, or the one that adopted it.
    parent: Option<Pid>,
}

/// Suffix of the path of a removed file in `/proc`.
const REMOVED: &str = " (deleted)";

impl Process {
    /// Returns the soc, QEMU or gateway with this id; `None` for any other process.
    fn look(pid: Pid) -> Option<Process> {
        let link = |name| std::fs::read_link(format!("/proc/{}/{name}", pid.as_raw_nonzero()));
        let program = kept(link("exe").ok()?);
        let part = match program.file_name()?.to_str()? {
            "soc" => Part::Soc,
            GATEWAY => Part::Gateway,
            name if name.starts_with("qemu-system-") => Part::Emulator,
            _ => return None,
        };
        Some(Process { pid, part, folder: kept(link("cwd").ok()?), program, parent: parent(pid) })
    }

    /// Returns the process of this tree that started it, `pen` or a test, if that is alive.
    pub fn keeper(&self, place: &Place) -> Option<Pid> {
        let program = std::fs::read_link(format!("/proc/{}/exe", self.parent?.as_raw_nonzero()));
        self.parent.filter(|_| program.is_ok_and(|program| is_ours(place, &program)))
    }
}

/// Removes the suffix of a removed file.
fn kept(path: PathBuf) -> PathBuf {
    match path.to_str().and_then(|path| path.strip_suffix(REMOVED)) {
        Some(before) => before.into(),
        None => path,
    }
}

fn is_within(path: &Path, folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|folder| path.starts_with(folder))
}

/// Returns whether the path is in the tree or in its build output.
fn is_ours(place: &Place, path: &Path) -> bool {
    is_within(path, &place.root) || is_within(path, &place.target)
}

fn stat(pid: Pid) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name before it is in parentheses and may contain anything.
    stat.rsplit_once(") ").map(|(_, rest)| rest.to_string())
}

fn parent(pid: Pid) -> Option<Pid> {
    stat(pid)?.split(' ').nth(1)?.parse().ok().and_then(Pid::from_raw)
}

/// Returns whether it has ended without being reaped.
pub fn is_zombie(pid: Pid) -> bool {
    stat(pid).is_some_and(|stat| stat.starts_with('Z'))
}

/// Returns all socs, QEMUs and gateways on this machine.
fn all() -> impl Iterator<Item = Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).filter_map(Process::look)
}

/// Returns those that work in `folder`.
pub fn within(folder: &Path) -> Vec<Process> {
    let Ok(folder) = folder.canonicalize() else { return Vec::new() };
    all().filter(|process| process.folder == folder).collect()
}

/// Returns whether `pid` is a soc that works in `folder`.
pub fn is_soc(pid: Pid, folder: &Path) -> bool {
    let is_here = |it: Process| folder.canonicalize().is_ok_and(|folder| it.folder == folder);
    Process::look(pid).is_some_and(|it| it.part == Part::Soc && is_here(it))
}

/// Returns those of this tree: their folder or program is in it, or a soc of it started them.
pub fn of_tree(place: &Place) -> Vec<Process> {
    let all: Vec<Process> = all().collect();
    let direct = |it: &Process| is_ours(place, &it.folder) || is_ours(place, &it.program);
    let socs: Vec<Pid> = all.iter().filter(|it| direct(it)).map(|it| it.pid).collect();
    let started = |it: &Process| it.parent.is_some_and(|parent| socs.contains(&parent));
    all.iter().filter(|it| direct(it) || started(it)).cloned().collect()
}

/// A board whose folder is not in `run/`.
pub struct Stray {
    /// Its folder.
    pub folder: PathBuf,
    /// Its soc, or another part without one.
    pub first: Process,
    /// Number of its QEMUs.
    pub emulators: usize,
    /// The `pen` or test that owns it.
    pub keeper: Option<Pid>,
}

impl Stray {
    /// Describes it.
    pub fn text(&self) -> String {
        let number = self.first.pid.as_raw_nonzero();
        let what = match self.first.part {
            Part::Soc => format!("soc {number}, {} QEMUs", self.emulators),
            Part::Emulator => format!("no soc, {} QEMUs, one is {number}", self.emulators),
            Part::Gateway => format!("no soc, the gateway {number}"),
        };
        let of = match self.keeper {
            Some(pid) => format!("of the test or measurement {}", pid.as_raw_nonzero()),
            None => "left by a process that has ended".to_string(),
        };
        format!("{} ({what}): {of}", self.folder.display())
    }

    /// Returns the command that ends it.
    pub fn end(&self) -> String {
        match self.first.part {
            Part::Soc => format!("`kill {}` ends it", self.first.pid.as_raw_nonzero()),
            Part::Emulator | Part::Gateway => {
                format!("`kill -9 {}` ends it", self.first.pid.as_raw_nonzero())
            }
        }
    }
}

/// Returns the boards of this tree outside `run/`.
pub fn strays(place: &Place) -> Vec<Stray> {
    let run = place.root.join("run");
    let mut all = of_tree(place);
    all.retain(|process| !process.folder.starts_with(&run) && process.pid != getpid());
    all.sort_by(|a, b| (&a.folder, a.part as u8).cmp(&(&b.folder, b.part as u8)));
    let boards = all.chunk_by(|a, b| a.folder == b.folder);
    let stray = |processes: &[Process]| {
        let first = processes.first()?.clone();
        Some(Stray {
            folder: first.folder.clone(),
            emulators: processes.iter().filter(|it| it.part == Part::Emulator).count(),
            keeper: if first.part == Part::Soc { first.keeper(place) } else { None },
            first,
        })
    };
    boards.filter_map(stray).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    /// A process started by the test, under any name.
    struct Played(Child);

    impl Drop for Played {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Played {
        fn start(program: &Path, name: &str, arguments: &[&str], folder: &Path) -> Played {
            std::fs::create_dir_all(folder).unwrap();
            let mut command = Command::new(program);
            command.arg0(name).args(arguments).current_dir(folder).process_group(0);
            Played(command.spawn().unwrap())
        }

        fn pid(&self) -> Pid {
            Pid::from_child(&self.0)
        }
    }

    /// Creates a tree with programs of these names, which are copies of another one.
    fn tree(of: &str) -> (tempfile::TempDir, Place) {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        std::fs::create_dir_all(&target).unwrap();
        for name in ["soc", "qemu-system-aarch64"] {
            // By another process: what a test of this one starts at the same moment would inherit
            // the open file, and a program that is open for writing cannot be executed.
            let copied = Command::new("cp").arg(of).arg(target.join(name)).status();
            assert!(copied.unwrap().success());
        }
        let place = Place {
            root: root.path().canonicalize().unwrap(),
            target,
            cargo: "cargo".into(),
            rustc: None,
            build_std: false,
            linker: None,
        };
        (root, place)
    }

    #[test]
    fn a_soc_that_executes_itself_is_never_missed() {
        let (_root, place) = tree("/bin/sh");
        let folder = place.root.join("run/a");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("again"), "exec /proc/self/exe again\n").unwrap();
        let soc = Played::start(&place.target.join("soc"), "soc", &["again"], &folder);
        for look in 0..20_000 {
            assert!(is_soc(soc.pid(), &folder), "look {look}");
        }
        assert!(!is_soc(soc.pid(), &place.root));
    }

    #[test]
    fn boards_are_found_wherever_they_are_and_whatever_was_removed() {
        let (_root, place) = tree("/bin/sleep");
        let played = |name: &str, folder: &Path| {
            Played::start(&place.target.join(name), name, &["1000"], folder)
        };
        let lost = place.target.join("tests/a.b");
        let outside = tempfile::tempdir().unwrap();
        let soc = played("soc", &lost);
        let emulator = played("qemu-system-aarch64", &lost);
        let apart = played("soc", outside.path());
        let shown = played("soc", &place.root.join("run/duo"));
        std::fs::remove_dir_all(&lost).unwrap();
        std::fs::remove_file(place.target.join("soc")).unwrap();
        let found = strays(&place);
        let numbers: Vec<Pid> = found.iter().map(|stray| stray.first.pid).collect();
        assert!(numbers.contains(&soc.pid()) && numbers.contains(&apart.pid()), "{numbers:?}");
        assert!(!numbers.contains(&shown.pid()) && !numbers.contains(&emulator.pid()));
        let board = found.iter().find(|stray| stray.first.pid == soc.pid()).unwrap();
        assert_eq!((board.emulators, board.folder.as_path()), (1, lost.as_path()));
        // This test is not a program of that tree.
        assert!(board.keeper.is_none() && board.text().contains("has ended"));
        assert_eq!(board.end(), format!("`kill {}` ends it", soc.pid().as_raw_nonzero()));
        drop(soc);
        let left = strays(&place);
        let first = left.iter().find(|stray| stray.folder == lost).unwrap();
        assert_eq!((first.first.pid, first.emulators), (emulator.pid(), 1));
        assert!(first.end().contains("-9"));
    }

    #[test]
    fn what_a_living_test_has_started_is_its_own() {
        let (_root, place) = tree("/bin/sleep");
        let here = std::env::current_exe().unwrap();
        let place = Place { target: here.parent().unwrap().to_path_buf(), ..place };
        let folder = place.root.join("b");
        let _soc = Played::start(&place.root.join("target/soc"), "soc", &["1000"], &folder);
        let found = strays(&place);
        let board = found.iter().find(|stray| stray.folder == folder).unwrap();
        assert_eq!(board.keeper, Some(getpid()));
    }

    #[test]
    fn the_dead_are_known() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        while !is_zombie(pid) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_zombie(pid) && Process::look(pid).is_none());
    }
}
