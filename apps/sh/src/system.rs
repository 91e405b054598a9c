//! What the shell needs from the system. It does no I/O itself: it calls a [`System`], which WASI
//! implements on Penumbra and a simulation in tests.

use penumbra::{Ended, Errno, Kind, Open};
use std::rc::Rc;

/// Files, names, processes, time. All paths are absolute.
pub trait System {
    /// An open file; dropping it closes it.
    type File;

    /// Opens a path.
    fn open(&mut self, path: &str, how: Open) -> Result<Self::File, Errno>;
    /// Creates a pipe. Returns its read end and its write end.
    fn pipe(&mut self) -> Result<(Self::File, Self::File), Errno>;
    /// Reads. Returns 0 at the end.
    fn read(&mut self, file: &Self::File, into: &mut [u8]) -> Result<usize, Errno>;
    /// Writes. Returns the number of bytes written.
    fn write(&mut self, file: &Self::File, data: &[u8]) -> Result<usize, Errno>;
    /// Moves the position back, so that excess bytes are read again. Returns false if the file does
    /// not support it.
    fn step_back(&mut self, file: &Self::File, by: usize) -> bool;
    /// Returns whether it is a terminal.
    fn is_terminal(&mut self, file: &Self::File) -> bool;
    /// Returns the metadata of the file at a path.
    fn stat(&mut self, path: &str, follow: bool) -> Result<Stat, Errno>;
    /// Lists the names in a directory, in any order, without `.` and `..`.
    fn folder(&mut self, path: &str) -> Result<Vec<String>, Errno>;
    /// Removes a file.
    fn remove(&mut self, path: &str) -> Result<(), Errno>;
    /// Returns whether there is a program at a path, as `spawn` resolves it.
    fn has_program(&mut self, path: &str) -> bool;
    /// Returns the command name of a program's file: without the ISA suffix.
    fn command_name<'a>(&self, file: &'a str) -> &'a str {
        file
    }
    /// Starts a program. Returns its number.
    fn spawn(&mut self, program: &Program<'_, Self::File>) -> Result<u32, Errno>;
    /// Waits for a child. Returns `None` if it has not ended and `hang` is false.
    fn wait(&mut self, pid: u32, hang: bool) -> Result<Option<Ended>, Errno>;
    /// Makes a group the terminal's foreground group; 0: only the shell.
    fn foreground(&mut self, _group: u32) {}
    /// Sends a signal to a process or (negative) to a group.
    fn kill(&mut self, pid: i32, signal: u32) -> Result<(), Errno>;
    /// Returns the shell's process number and its parent's.
    fn identity(&self) -> (u32, u32);
    /// Returns the time in ns since an arbitrary point.
    fn now(&mut self) -> u64;
    /// Returns a number that is hard to guess; not for secrets.
    fn random(&mut self) -> u64;
}

/// Metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File, directory and so on.
    pub kind: Kind,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last write, in ns.
    pub modified: u64,
    /// Identifies the file: two paths to one file have the same.
    pub node: (u64, u64),
}

/// A program to start.
pub struct Program<'a, F> {
    /// Its path.
    pub path: &'a str,
    /// Arguments, the program's name first.
    pub arguments: &'a [String],
    /// Names and values.
    pub environment: &'a [(String, String)],
    /// Its descriptors.
    pub files: &'a [(u32, Rc<F>)],
    /// Working directory.
    pub folder: &'a str,
    /// Process group: `None` is the shell's own, 0 a new one.
    pub group: Option<u32>,
}
