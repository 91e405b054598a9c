//! The [`System`] on Penumbra.

use crate::system::{Program, Stat, System};
use penumbra::{Command, Ended, Errno, File, Identity, Open, preopens, process, ready};
use std::hash::{BuildHasher, Hasher, RandomState};

/// Suffixes of program files, one per ISA.
const ISAS: &[&str] = &[".aarch64", ".riscv64"];
/// The variable that names the kernel for new programs.
const KERNEL: &str = "KERNEL";

/// Penumbra's system calls.
pub struct Wasi {
    identity: Identity,
    /// Descriptor of the preopened root.
    root: Option<u32>,
    /// Working directory of the last program started, which is often reused.
    folder: Option<(String, File)>,
}

impl Wasi {
    /// Takes over what this program was started with.
    pub fn new() -> Wasi {
        let root = preopens().into_iter().find(|(_, name)| name == "/").map(|(number, _)| number);
        Wasi { identity: process::identity().unwrap_or_default(), root, folder: None }
    }

    /// Returns a descriptor of a directory.
    fn folder_number(&mut self, path: &str) -> Option<u32> {
        if self.folder.as_ref().is_none_or(|(known, _)| known != path) {
            let opened = File::open(path, Open::DIRECTORY).ok()?;
            self.folder = Some((path.to_string(), opened));
        }
        self.folder.as_ref().map(|(_, file)| file.number())
    }
}

impl Default for Wasi {
    fn default() -> Self {
        Wasi::new()
    }
}

/// std's errors carry WASI's numbers.
fn errno(error: std::io::Error) -> Errno {
    let number = error.raw_os_error().and_then(|n| u16::try_from(n).ok());
    number.and_then(Errno::from_number).unwrap_or(Errno::IO)
}

impl System for Wasi {
    type File = File;

    fn open(&mut self, path: &str, how: Open) -> Result<File, Errno> {
        File::open(path, how)
    }

    fn pipe(&mut self) -> Result<(File, File), Errno> {
        File::pipe()
    }

    fn read(&mut self, file: &File, into: &mut [u8]) -> Result<usize, Errno> {
        file.read(into)
    }

    fn write(&mut self, file: &File, data: &[u8]) -> Result<usize, Errno> {
        file.write(data)
    }

    fn step_back(&mut self, file: &File, by: usize) -> bool {
        i64::try_from(by).is_ok_and(|by| file.skip(-by).is_ok())
    }

    fn is_terminal(&mut self, file: &File) -> bool {
        file.is_terminal()
    }

    fn stat(&mut self, path: &str, follow: bool) -> Result<Stat, Errno> {
        let stat = penumbra::Stat::of(path, follow)?;
        let (kind, size) = (stat.kind, stat.size);
        Ok(Stat { kind, size, modified: stat.modified, node: stat.node })
    }

    fn folder(&mut self, path: &str) -> Result<Vec<String>, Errno> {
        let entries = std::fs::read_dir(path).map_err(errno)?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn remove(&mut self, path: &str) -> Result<(), Errno> {
        std::fs::remove_file(path).map_err(errno)
    }

    fn has_program(&mut self, path: &str) -> bool {
        let file = |path: &str| {
            penumbra::Stat::of(path, true).is_ok_and(|s| s.kind == penumbra::Kind::File)
        };
        file(path) || ISAS.iter().any(|isa| file(&format!("{path}{isa}")))
    }

    fn command_name<'a>(&self, file: &'a str) -> &'a str {
        ISAS.iter().find_map(|isa| file.strip_suffix(isa)).unwrap_or(file)
    }

    /// Passes the working directory as `.` and the root as the last preopened directory: wasi-libc
    /// cannot distinguish the two and uses the last one, then changes to `$PWD` at start.
    fn spawn(&mut self, program: &Program<'_, File>) -> Result<u32, Errno> {
        let mut command = Command::bare(program.path);
        command = command.args(program.arguments.iter().map(String::as_str));
        let named = |wanted: &str| program.environment.iter().find(|(name, _)| name == wanted);
        for (name, value) in program.environment {
            command = command.env(name, value);
        }
        if named("PWD").is_none() {
            command = command.env("PWD", program.folder);
        }
        if let Some(kernel) = named(KERNEL).and_then(|(_, value)| value.parse().ok()) {
            command = command.kernel(kernel);
        }
        for (number, file) in program.files {
            command = command.file(file.number(), *number);
        }
        if let Some(folder) = self.folder_number(program.folder) {
            command = command.preopen(folder, ".");
        }
        if let Some(root) = self.root {
            command = command.preopen(root, "/");
        }
        command = match program.group {
            None => command,
            Some(0) => command.new_group(),
            Some(group) => command.group(group),
        };
        command.spawn().map(|child| child.pid())
    }

    fn wait(&mut self, pid: u32, hang: bool) -> Result<Option<Ended>, Errno> {
        let pid = i32::try_from(pid).map_err(|_| Errno::SRCH)?;
        if hang { process::wait(pid).map(Some) } else { process::try_wait(pid) }
    }

    fn foreground(&mut self, group: u32) {
        // Fails without a terminal, where there is no foreground group.
        let _ = File::lent(0).set_foreground(group);
    }

    fn kill(&mut self, pid: i32, signal: u32) -> Result<(), Errno> {
        process::kill(pid, signal)
    }

    fn identity(&self) -> (u32, u32) {
        (self.identity.pid, self.identity.parent)
    }

    fn now(&mut self) -> u64 {
        ready::now()
    }

    fn random(&mut self) -> u64 {
        // std seeds its hashers from the system's random numbers.
        RandomState::new().build_hasher().finish()
    }
}
