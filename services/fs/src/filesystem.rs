//! What a file system must do; and [`AnyFs`], the enum of all there are.
//!
//! Contract: names are single components of 1 to 255 bytes without `/` and 0, never `.` or `..`;
//! paths, links, handles, mounts and flags are the VFS's. A call ends at once. What has to wait
//! for a device or a peer answers [`Stop::Wait`] **with nothing changed**; the VFS parks who
//! asked, and performs the same request anew when [`FileSystem::ready`] named the key; so a request
//! is looks, then one change. What fails has changed nothing either, except that reads and writes
//! may end short.

use crate::devfs::DevFs;
use crate::ext2::{Ext2, Io, ReadOnly};
use crate::ramfs::RamFs;
use crate::served::Served;
use abi::fs::{Errno, Stat, kind, reply_flag};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A file, directory or link, as its file system counts them; the number is not used again in one
/// life of the file system.
pub type Node = u64;

/// Why it was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It cannot be.
    Failed(Errno),
    /// Not yet: until [`FileSystem::ready`] names this key.
    Wait(u64),
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Stop {
        Stop::Failed(error)
    }
}

/// What a file system answers.
pub type Result<T> = core::result::Result<T, Stop>;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Names of other nodes.
    Directory,
    /// Bytes.
    File,
    /// A path.
    Link,
    /// Bytes that come and go.
    Character,
}

/// A node that the VFS opens in a way of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// The terminal.
    Console,
}

impl Kind {
    /// From its code.
    pub const fn from_code(code: u8) -> Option<Kind> {
        match code {
            kind::DIRECTORY => Some(Kind::Directory),
            kind::FILE => Some(Kind::File),
            kind::LINK => Some(Kind::Link),
            kind::CHARACTER => Some(Kind::Character),
            _ => None,
        }
    }

    /// As in [`abi::fs::kind`].
    pub const fn code(self) -> u8 {
        match self {
            Kind::Directory => kind::DIRECTORY,
            Kind::File => kind::FILE,
            Kind::Link => kind::LINK,
            Kind::Character => kind::CHARACTER,
        }
    }
}

/// What to make.
#[derive(Clone, Copy, Debug)]
pub enum Make<'a> {
    /// An empty directory.
    Directory,
    /// An empty file.
    File,
    /// A symbolic link of this text.
    Link(&'a [u8]),
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Where it is: entries come in ascending order, and one that stays keeps its cookie.
    pub cookie: u64,
    /// Its name.
    pub name: &'a [u8],
    /// What has the name.
    pub node: Node,
    /// What that is.
    pub kind: Kind,
}

/// Times to set, in ns; `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Of access.
    pub accessed: Option<u64>,
    /// Of change.
    pub modified: Option<u64>,
}

/// How large it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that are free.
    pub free: u64,
}

macro_rules! file_system {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty $default:block)*) => {
        /// What a file system must do. What it does not is [`Errno::Nosys`].
        pub trait FileSystem {
            $($(#[$doc])*
            fn $name(&mut self, $($arg: $type),*) -> $out {
                $(let _ = $arg;)*
                $default
            })*
        }

        impl FileSystem for AnyFs {
            $(fn $name(&mut self, $($arg: $type),*) -> $out {
                match self {
                    AnyFs::Ram(fs) => fs.$name($($arg),*),
                    AnyFs::Ext2(fs) => fs.$name($($arg),*),
                    AnyFs::Dev(fs) => fs.$name($($arg),*),
                    AnyFs::Served(fs) => fs.$name($($arg),*),
                    #[cfg(test)]
                    AnyFs::Slow(fs) => fs.$name($($arg),*),
                }
            })*
        }
    };
}

/// Every file system there is. An enum, for a vtable would be of one ISA; each in a box, for what a
/// small one leaves free in the enum would hold what the kernel's stack had there.
#[derive(Debug)]
pub enum AnyFs {
    /// In memory.
    Ram(Box<RamFs>),
    /// On a device.
    Ext2(Box<Ext2>),
    /// Devices that are no hardware.
    Dev(Box<DevFs>),
    /// Elsewhere.
    Served(Box<Served>),
    /// One that has to wait.
    #[cfg(test)]
    Slow(crate::vfs::slow::SlowFs),
}

impl AnyFs {
    /// The next request to its device, if it has one.
    pub fn next_io(&mut self) -> Option<Io> {
        if let AnyFs::Ext2(fs) = self { fs.next_io() } else { None }
    }

    /// What a write to its device is to write, from a byte of it on; how many bytes.
    pub fn outgoing(&self, id: u64, from: usize, into: &mut [u8]) -> usize {
        if let AnyFs::Ext2(fs) = self { fs.outgoing(id, from, into) } else { 0 }
    }

    /// What became of a request to its device; `data` is what was read.
    pub fn io_done(&mut self, id: u64, good: bool, data: &[u8]) {
        if let AnyFs::Ext2(fs) = self {
            fs.io_done(id, good, data);
        }
    }

    /// Is there anything that its device does not have?
    pub fn is_dirty(&self) -> bool {
        if let AnyFs::Ext2(fs) = self { fs.is_dirty() } else { false }
    }

    /// Is there anything that its device does not have, or that it does not know to be all?
    pub fn is_unsettled(&self) -> bool {
        self.is_dirty() || matches!(self, AnyFs::Ext2(fs) if fs.is_unsettled())
    }

    /// Begins to write what changed, and to mark it clean if nothing more does.
    pub fn write_back(&mut self) {
        if let AnyFs::Ext2(fs) = self {
            fs.begin_to_settle();
        }
    }

    /// Can a call of it wait, or does it leave something to do?
    pub fn is_slow(&self) -> bool {
        !matches!(self, AnyFs::Ram(_) | AnyFs::Dev(_))
    }

    /// What it is, in flags of [`abi::fs::Op::Statfs`].
    pub fn about(&self) -> u16 {
        let AnyFs::Ext2(fs) = self else { return 0 };
        reply_flag::DISK
            | match fs.read_only() {
                None => 0,
                Some(ReadOnly::Unclean) => reply_flag::READ_ONLY | reply_flag::UNCLEAN,
                Some(_) => reply_flag::READ_ONLY,
            }
    }
}

const NOSYS: Stop = Stop::Failed(Errno::Nosys);

file_system! {
    /// The directory at its top.
    fn root() -> Node { 1 }

    /// What has this name. [`Errno::Notdir`] when `directory` is none.
    fn lookup(directory: Node, name: &[u8]) -> Result<Node> { Err(NOSYS) }

    /// The directory above; of the root, itself.
    fn parent(directory: Node) -> Result<Node> { Err(NOSYS) }

    /// What a node is.
    fn kind(node: Node) -> Result<Kind> { Err(NOSYS) }

    /// What it is beyond that.
    fn special(node: Node) -> Option<Special> { None }

    /// All about a node; the VFS sets the device.
    fn stat(node: Node) -> Result<Stat> { Err(NOSYS) }

    /// A symbolic link's text, appended to `into`.
    fn read_link(node: Node, into: &mut Vec<u8>) -> Result<()> { Err(NOSYS) }

    /// Entries from cookie `from` on, until `each` says no. True: that was the last one.
    fn list(directory: Node, from: u64, each: &mut dyn FnMut(Entry<'_>) -> bool) -> Result<bool> {
        Err(NOSYS)
    }

    /// Reads what is there at `offset`; 0 bytes behind the end.
    fn read(node: Node, offset: u64, into: &mut [u8]) -> Result<usize> { Err(NOSYS) }

    /// Writes at `offset`; fewer bytes when space ends.
    fn write(node: Node, offset: u64, from: &[u8], now: u64) -> Result<usize> { Err(NOSYS) }

    /// Truncates or extends a file.
    fn set_size(node: Node, size: u64, now: u64) -> Result<()> { Err(NOSYS) }

    /// Takes space for a range, extending the file; says for how many bytes of it.
    fn allocate(node: Node, offset: u64, length: u64, now: u64) -> Result<u64> { Err(NOSYS) }

    /// Sets times.
    fn set_times(node: Node, times: Times, now: u64) -> Result<()> { Err(NOSYS) }

    /// Makes something under a name that is free.
    fn make(directory: Node, name: &[u8], what: Make<'_>, now: u64) -> Result<Node> { Err(NOSYS) }

    /// Gives `node`, no directory, one more name, which is free.
    fn link(directory: Node, name: &[u8], node: Node, now: u64) -> Result<()> { Err(NOSYS) }

    /// Removes a name of something that is no directory.
    fn unlink(directory: Node, name: &[u8], now: u64) -> Result<()> { Err(NOSYS) }

    /// Removes an empty directory.
    fn rmdir(directory: Node, name: &[u8], now: u64) -> Result<()> { Err(NOSYS) }

    /// Moves a name, replacing what may be replaced (POSIX); no directory goes into itself.
    fn rename(from: Node, name: &[u8], to: Node, new: &[u8], now: u64) -> Result<()> { Err(NOSYS) }

    /// Somebody has it open: it stays when its last name goes. Never waits.
    fn hold(node: Node) -> Result<()> { Err(NOSYS) }

    /// Once for each [`FileSystem::hold`].
    fn release(node: Node) -> () { }

    /// Makes a file durable; only its data with `data_only`. Begins to, and says which generation
    /// that is, or 0 when there is nothing to wait for; with that one as `behind`, waits for it.
    fn sync(node: Node, data_only: bool, behind: u64) -> Result<u64> { Ok(0) }

    /// Makes everything durable, and says so there; [`Errno::Busy`] when files without names are
    /// open, which stay to be removed.
    fn settle() -> Result<()> { Ok(()) }

    /// How large it is, and how much is free.
    fn space() -> Result<Space> { Err(NOSYS) }

    /// For which of `want` (`abi::fs::ready`) it is ready; waits when for none.
    fn poll(node: Node, want: u16) -> Result<u16> { Ok(want) }

    /// A key of [`Stop::Wait`] whose wait is over; asked after each event until there is none.
    fn ready() -> Option<u64> { None }
}
