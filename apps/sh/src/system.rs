//! What the shell needs from below. The shell itself does no I/O: it asks a [`System`], which is
//! Penumbra's on WASI and a made-up one in tests.

use penumbra::{Ended, Errno, Kind, Open};
use std::rc::Rc;

/// Files, names, processes, time. All paths are absolute.
pub trait System {
    /// An open file; closed when it goes.
    type File;

    /// Opens a path.
    fn open(&mut self, path: &str, how: Open) -> Result<Self::File, Errno>;
    /// A pipe: its end to read, its end to write.
    fn pipe(&mut self) -> Result<(Self::File, Self::File), Errno>;
    /// Reads; 0 is the end.
    fn read(&mut self, file: &Self::File, into: &mut [u8]) -> Result<usize, Errno>;
    /// Writes; how much of it was written.
    fn write(&mut self, file: &Self::File, data: &[u8]) -> Result<usize, Errno>;
    /// Steps back, so that what was read too much is read again; false where that cannot be.
    fn step_back(&mut self, file: &Self::File, by: usize) -> bool;
    /// Is it a terminal?
    fn is_terminal(&mut self, file: &Self::File) -> bool;
    /// What a path leads to.
    fn stat(&mut self, path: &str, follow: bool) -> Result<Stat, Errno>;
    /// Names in a directory, in any order, without `.` and `..`.
    fn folder(&mut self, path: &str) -> Result<Vec<String>, Errno>;
    /// Removes a file.
    fn remove(&mut self, path: &str) -> Result<(), Errno>;
    /// Is there a program at a path, as `spawn` understands it?
    fn has_program(&mut self, path: &str) -> bool;
    /// The command that a program's file is called by: without the name of an ISA.
    fn command_name<'a>(&self, file: &'a str) -> &'a str {
        file
    }
    /// Begins a program; its number.
    fn spawn(&mut self, program: &Program<'_, Self::File>) -> Result<u32, Errno>;
    /// A child's end; none if it has not come and `hang` is false.
    fn wait(&mut self, pid: u32, hang: bool) -> Result<Option<Ended>, Errno>;
    /// The group that is at the terminal from now on; 0: only the shell.
    fn foreground(&mut self, _group: u32) {}
    /// A signal for a process, or (negative) for a group.
    fn kill(&mut self, pid: i32, signal: u32) -> Result<(), Errno>;
    /// The shell's number and its parent's.
    fn identity(&self) -> (u32, u32);
    /// Time since some beginning, in ns.
    fn now(&mut self) -> u64;
    /// A number that is hard to guess; not for secrets.
    fn random(&mut self) -> u64;
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File, directory and so on.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Time of the last write, in ns.
    pub modified: u64,
    /// Which file it is: two paths to one file have the same.
    pub node: (u64, u64),
}

/// A program to begin.
pub struct Program<'a, F> {
    /// Where it is.
    pub path: &'a str,
    /// Its name first.
    pub arguments: &'a [String],
    /// Names and values.
    pub environment: &'a [(String, String)],
    /// Its descriptors.
    pub files: &'a [(u32, Rc<F>)],
    /// Where it begins.
    pub folder: &'a str,
    /// Its group: none is the shell's own, 0 a new one.
    pub group: Option<u32>,
}
