//! Descriptors: opening, pipes, duplicates, reading and writing. Paths are absolute and are
//! resolved through the preopened directories.

use crate::{Errno, ffi};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// First descriptor that may be a preopened directory.
const FIRST_PREOPEN: u32 = 3;
/// Maximum number of preopened directories.
const PREOPENS: u32 = 64;
/// Maximum length of a preopened directory's name in bytes.
const NAME: usize = 4096;

/// A descriptor. Dropping it closes it, unless it is borrowed ([`File::lent`]).
#[derive(Debug)]
pub struct File {
    number: u32,
    lent: bool,
}

/// The type of a file: WASI's file types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A block device.
    Block,
    /// A character device, such as a terminal.
    Character,
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A pipe or a socket.
    Stream,
    /// A symbolic link.
    Link,
    /// Something else.
    Other,
}

/// Options for opening a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
    /// Append: each write goes to the end.
    pub append: bool,
    /// Create the file if it does not exist.
    pub create: bool,
    /// Fail if it exists.
    pub exclusive: bool,
    /// Discard its contents.
    pub truncate: bool,
    /// Fail if it is not a directory.
    pub directory: bool,
}

/// WASI's rights, as far as this crate distinguishes them.
mod right {
    pub const READ: u64 = 1 << 1;
    pub const WRITE: u64 = 1 << 6;
    /// Every right of a file or directory except reading and writing.
    pub const ELSE: u64 = ((1 << 28) - 1) & !(READ | WRITE | 1 << 8);
    pub const ALLOCATE: u64 = 1 << 8;
    pub const ALL: u64 = (1 << 28) - 1;
}

impl Open {
    /// Opens for reading.
    pub const READ: Open = Open {
        read: true,
        write: false,
        append: false,
        create: false,
        exclusive: false,
        truncate: false,
        directory: false,
    };
    /// Opens a directory.
    pub const DIRECTORY: Open = Open { directory: true, ..Open::READ };

    fn how(self) -> u16 {
        u16::from(self.create)
            | u16::from(self.directory) << 1
            | u16::from(self.exclusive) << 2
            | u16::from(self.truncate) << 3
    }

    fn rights(self) -> [u64; 2] {
        if self.directory {
            return [right::ALL, right::ALL];
        }
        let mut rights = right::ELSE;
        if self.read {
            rights |= right::READ;
        }
        if self.write || self.append {
            rights |= right::WRITE | right::ALLOCATE;
        }
        [rights, rights]
    }
}

impl File {
    /// Returns a borrowed descriptor, which dropping does not close: 0, 1, 2 or a preopened
    /// directory.
    pub const fn lent(number: u32) -> File {
        File { number, lent: true }
    }

    /// Takes ownership of a descriptor that the program was started with. No other code may use it,
    /// because dropping the `File` closes it.
    pub const fn adopt(number: u32) -> File {
        File { number, lent: false }
    }

    /// Returns whether this descriptor is open.
    pub fn exists(number: u32) -> bool {
        ffi::fdstat(number).is_ok()
    }

    /// Returns the descriptor's number.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns the descriptor's number, and does not close it.
    pub(crate) fn into_number(self) -> u32 {
        let number = self.number;
        core::mem::forget(self);
        number
    }

    /// Opens an absolute path.
    pub fn open(path: &str, how: Open) -> Result<File, Errno> {
        let (directory, rest) = resolve(path)?;
        File::open_at(directory, rest, how)
    }

    /// Opens a path relative to a directory's descriptor.
    pub fn open_at(directory: u32, path: &str, how: Open) -> Result<File, Errno> {
        let flags = u16::from(how.append);
        // A directory may have fewer rights than all; first try those of the request.
        let mut rights = how.rights();
        if let Ok(stat) = ffi::fdstat(directory) {
            rights = rights.map(|r| r & stat.inheriting);
        }
        ffi::open(directory, path, how.how(), rights, flags).map(File::adopt)
    }

    /// Creates a pipe. Returns its read end and its write end.
    pub fn pipe() -> Result<(File, File), Errno> {
        let [read, write] = ffi::pipe()?;
        Ok((File::adopt(read), File::adopt(write)))
    }

    /// Returns a second descriptor of the same file, with the same position.
    pub fn duplicate(&self) -> Result<File, Errno> {
        ffi::dup(self.number).map(File::adopt)
    }

    /// Reads at the position. Returns 0 at the end of the file.
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        ffi::read(self.number, into)
    }

    /// Writes at the position. Returns the number of bytes written.
    pub fn write(&self, data: &[u8]) -> Result<usize, Errno> {
        ffi::write(self.number, data)
    }

    /// Moves the position by `by`. Returns the new position.
    pub fn skip(&self, by: i64) -> Result<u64, Errno> {
        ffi::seek(self.number, by, 1)
    }

    /// Returns the type of the file.
    pub fn kind(&self) -> Result<Kind, Errno> {
        Ok(Kind::from_code(ffi::fdstat(self.number)?.kind))
    }

    /// Returns whether it is a terminal: as in `isatty`, a character device without positions.
    pub fn is_terminal(&self) -> bool {
        const SEEK_AND_TELL: u64 = 1 << 2 | 1 << 5;
        ffi::fdstat(self.number).is_ok_and(|s| s.kind == 2 && s.rights & SEEK_AND_TELL == 0)
    }

    /// Sets how programs read this terminal.
    pub fn set_keys(&self, keys: Keys) -> Result<(), Errno> {
        ffi::terminal(self.number, keys as u32, 0)
    }

    /// Sets the group that ctrl-c at this terminal ends; 0: no group.
    pub fn set_foreground(&self, group: u32) -> Result<(), Errno> {
        const GROUP: u32 = 1 << 2;
        ffi::terminal(self.number, GROUP, group)
    }

    /// With `on`, reads and writes fail with [`Errno::AGAIN`] instead of waiting.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Errno> {
        const NONBLOCK: u16 = 1 << 2;
        let flags = ffi::fdstat(self.number)?.flags;
        ffi::set_flags(self.number, if on { flags | NONBLOCK } else { flags & !NONBLOCK })
    }
}

/// How programs read a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Each key as it is pressed. The terminal echoes nothing; the reading program does.
    Raw = 1,
    /// Whole lines, echoed and edited by the terminal.
    Lines = 2,
}

/// Metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The type of the file.
    pub kind: Kind,
    /// Number of hard links.
    pub links: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last write, in ns.
    pub modified: u64,
    /// File system and inode number.
    pub node: (u64, u64),
}

impl Stat {
    /// Returns the metadata of the file at an absolute path. With `follow`, a symbolic link at the
    /// end is followed.
    pub fn of(path: &str, follow: bool) -> Result<Stat, Errno> {
        let (directory, rest) = resolve(path)?;
        let raw = ffi::filestat(directory, rest, follow)?;
        let kind = Kind::from_code(raw.kind);
        let (links, node) = (raw.links, (raw.device, raw.node));
        Ok(Stat { kind, links, size: raw.size, modified: raw.modified, node })
    }
}

impl Kind {
    const fn from_code(code: u8) -> Kind {
        match code {
            1 => Kind::Block,
            2 => Kind::Character,
            3 => Kind::Directory,
            4 => Kind::File,
            5 | 6 => Kind::Stream,
            7 => Kind::Link,
            _ => Kind::Other,
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.lent {
            // The error is ignored: there is no way to report it, and nothing left to do.
            let _ = ffi::close(self.number);
        }
    }
}

/// Returns the preopened directories: descriptor and name.
pub fn preopens() -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for number in FIRST_PREOPEN..FIRST_PREOPEN + PREOPENS {
        let Ok(bytes) = ffi::prestat(number) else { break };
        let mut name = vec![0; bytes.min(NAME)];
        if ffi::prestat_name(number, &mut name).is_err() {
            break;
        }
        if let Ok(name) = String::from_utf8(name) {
            found.push((number, name));
        }
    }
    found
}

/// Returns the preopened directory that contains an absolute path, and the rest of the path.
pub(crate) fn resolve(path: &str) -> Result<(u32, &str), Errno> {
    choose(&preopens(), path).ok_or(Errno::NOTCAPABLE)
}

/// Returns the longest preopened name that is a prefix of `path`. `.` does not count: it is a
/// different directory in each program.
fn choose<'a>(preopens: &[(u32, String)], path: &'a str) -> Option<(u32, &'a str)> {
    let mut best: Option<(usize, u32, &str)> = None;
    for (number, name) in preopens.iter().filter(|(_, name)| name.starts_with('/')) {
        let name = name.trim_end_matches('/');
        let Some(rest) = path.strip_prefix(name) else { continue };
        if !rest.is_empty() && !rest.starts_with('/') {
            continue;
        }
        if best.is_none_or(|(length, _, _)| name.len() >= length) {
            best = Some((name.len(), *number, rest.trim_start_matches('/')));
        }
    }
    best.map(|(_, number, rest)| (number, if rest.is_empty() { "." } else { rest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preopens() -> Vec<(u32, String)> {
        [(3, "."), (4, "/"), (5, "/data/"), (6, "/data/deep")]
            .map(|(number, name)| (number, String::from(name)))
            .to_vec()
    }

    #[test]
    fn the_longest_preopen_is_chosen() {
        let choose = |path| choose(&preopens(), path);
        assert_eq!(choose("/bin/ls"), Some((4, "bin/ls")));
        assert_eq!(choose("/"), Some((4, ".")));
        assert_eq!(choose("/data"), Some((5, ".")));
        assert_eq!(choose("/data/x"), Some((5, "x")));
        assert_eq!(choose("/data/deep/x"), Some((6, "x")));
        assert_eq!(choose("/database"), Some((4, "database")));
        assert_eq!(choose("relative"), None);
    }

    #[test]
    fn rights_follow_from_what_is_wanted() {
        let write = Open { write: true, create: true, truncate: true, ..Open::default() };
        assert_eq!(write.how(), 1 | 8);
        assert_eq!(write.rights()[0] & right::READ, 0);
        assert_ne!(write.rights()[0] & right::WRITE, 0);
        assert_eq!(Open::READ.rights()[0] & right::WRITE, 0);
        assert_eq!(Open::DIRECTORY.how(), 2);
    }

    #[test]
    fn elsewhere_nothing_works_and_nothing_panics() {
        assert_eq!(File::open("/a", Open::READ).err(), Some(Errno::NOTCAPABLE));
        assert_eq!(File::pipe().err(), Some(Errno::NOSYS));
        assert!(!File::lent(0).is_terminal());
    }
}
