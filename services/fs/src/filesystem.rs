//! The trait that file systems implement.
//!
//! Contract: names are single components of 1 to 255 bytes without `/` and NUL, never `.` or `..`.
//! The VFS handles paths, following links, handles, mounts and flags. A call never blocks. If it
//! must wait for a device or a peer, it returns [`Stop::Wait`] **with nothing changed**; the VFS
//! parks the caller and repeats the whole request once [`FileSystem::ready`] has returned the key.
//! So a call first reads all it needs and then makes one change. A call that fails has changed
//! nothing either, except that reads and writes may be short.

use abi::fs::{Errno, Stat, kind};
use alloc::vec::Vec;

/// The number of a file, directory or link in its file system, like an inode number. It is not
/// reused during one life of the file system.
pub type Node = u64;

/// Why a call returned no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Failed(Errno),
    /// It must wait until [`FileSystem::ready`] returns this key.
    Wait(u64),
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Stop {
        Stop::Failed(error)
    }
}

pub type Result<T> = core::result::Result<T, Stop>;

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File,
    /// A symbolic link.
    Link,
    /// A character device.
    Character,
}

/// A node that the VFS opens in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    Console,
}

impl Kind {
    /// Converts from a code of [`abi::fs::kind`].
    pub const fn from_code(code: u8) -> Option<Kind> {
        match code {
            kind::DIRECTORY => Some(Kind::Directory),
            kind::FILE => Some(Kind::File),
            kind::LINK => Some(Kind::Link),
            kind::CHARACTER => Some(Kind::Character),
            _ => None,
        }
    }

    /// Returns the code in [`abi::fs::kind`].
    pub const fn code(self) -> u8 {
        match self {
            Kind::Directory => kind::DIRECTORY,
            Kind::File => kind::FILE,
            Kind::Link => kind::LINK,
            Kind::Character => kind::CHARACTER,
        }
    }
}

/// A node to create.
#[derive(Clone, Copy, Debug)]
pub enum Make<'a> {
    Directory,
    File,
    /// A symbolic link with this text.
    Link(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Position in the directory: entries come in ascending order, and an entry keeps its cookie.
    pub cookie: u64,
    pub name: &'a [u8],
    pub node: Node,
    pub kind: Kind,
}

/// Times to set, in ns; `None` leaves the time unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub accessed: Option<u64>,
    pub modified: Option<u64>,
}

/// Size of a file system, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    pub free: u64,
}

const NOSYS: Stop = Stop::Failed(Errno::Nosys);

/// Calls the macro `then` with all operations of a file system.
macro_rules! for_each_operation {
    ($then:ident) => {
        $then! {
            /// Returns the root directory.
            fn root() -> Node { 1 }

            /// Returns the node with this name. [`Errno::Notdir`] if `directory` is not one.
            fn lookup(directory: Node, name: &[u8]) -> Result<Node> { Err(NOSYS) }

            /// Returns the parent directory; of the root, the root itself.
            fn parent(directory: Node) -> Result<Node> { Err(NOSYS) }

            /// Returns the type of a node.
            fn kind(node: Node) -> Result<Kind> { Err(NOSYS) }

            /// Returns how the VFS must open the node, if it is a special one.
            fn special(node: Node) -> Option<Special> { None }

            /// Returns the metadata of a node. The VFS fills in the device.
            fn stat(node: Node) -> Result<Stat> { Err(NOSYS) }

            /// Appends the text of a symbolic link to `into`.
            fn read_link(node: Node, into: &mut Vec<u8>) -> Result<()> { Err(NOSYS) }

            /// Passes the entries from cookie `from` on to `each` until it returns false. Returns
            /// true if the last entry was passed.
            fn list(directory: Node, from: u64, each: &mut dyn FnMut(Entry<'_>) -> bool)
                -> Result<bool> {
                Err(NOSYS)
            }

            /// Reads at `offset`. Returns 0 at the end of the file and beyond.
            fn read(node: Node, offset: u64, into: &mut [u8]) -> Result<usize> { Err(NOSYS) }

            /// Writes at `offset`. Returns fewer bytes than given when space runs out.
            fn write(node: Node, offset: u64, from: &[u8], now: u64) -> Result<usize> { Err(NOSYS) }

            fn set_size(node: Node, size: u64, now: u64) -> Result<()> { Err(NOSYS) }

            /// Reserves space for a range, and extends the file to the range's end. Returns for how
            /// many bytes of the range there is space now.
            fn allocate(node: Node, offset: u64, length: u64, now: u64) -> Result<u64> {
                Err(NOSYS)
            }

            fn set_times(node: Node, times: Times, now: u64) -> Result<()> { Err(NOSYS) }

            /// Creates a node under a name that must not exist.
            fn make(directory: Node, name: &[u8], what: Make<'_>, now: u64) -> Result<Node> {
                Err(NOSYS)
            }

            /// Adds a name, which must not exist, to a node that is not a directory.
            fn link(directory: Node, name: &[u8], node: Node, now: u64) -> Result<()> { Err(NOSYS) }

            /// Removes a name of anything but a directory.
            fn unlink(directory: Node, name: &[u8], now: u64) -> Result<()> { Err(NOSYS) }

            fn rmdir(directory: Node, name: &[u8], now: u64) -> Result<()> { Err(NOSYS) }

            /// Renames, replacing the target where POSIX allows it. A directory is not moved into
            /// itself.
            fn rename(from: Node, name: &[u8], to: Node, new: &[u8], now: u64) -> Result<()> {
                Err(NOSYS)
            }

            /// Notes that the node is open, so that it outlives its last name. Never waits.
            fn hold(node: Node) -> Result<()> { Err(NOSYS) }

            /// Undoes one [`FileSystem::hold`].
            fn release(node: Node) -> () { }

            /// Makes a file durable, or only its data. With `generation` 0 it starts this, and
            /// returns the generation that must become durable, or 0 if there is nothing to wait
            /// for. With that number as `generation` it waits until that one is durable.
            fn sync(node: Node, data_only: bool, generation: u64) -> Result<u64> { Ok(0) }

            /// Makes the whole file system durable and marks it clean. [`Errno::Busy`] if removed
            /// files are still open: they must be freed first.
            fn settle() -> Result<()> { Ok(()) }

            /// Returns the size of the file system and its free space.
            fn space() -> Result<Space> { Err(NOSYS) }

            /// Returns which of `want` ([`abi::fs::ready`]) the node is ready for. Waits if it is
            /// ready for none.
            fn poll(node: Node, want: u16) -> Result<u16> { Ok(want) }

            /// Returns a key of [`Stop::Wait`] whose callers can be repeated. The VFS calls this
            /// after each event until it returns `None`.
            fn ready() -> Option<u64> { None }
        }
    };
}
pub(crate) use for_each_operation;

macro_rules! define {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty $default:block)*) => {
        /// What a file system must do. The default of most operations is [`Errno::Nosys`].
        pub trait FileSystem {
            $($(#[$doc])*
            fn $name(&mut self, $($arg: $type),*) -> $out {
                $(let _ = $arg;)*
                $default
            })*
        }
    };
}

for_each_operation!(define);
