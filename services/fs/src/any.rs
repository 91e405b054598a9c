//! [`AnyFs`], the enum of all file systems.

use crate::devfs::DevFs;
use crate::ext2::{Ext2, Io, ReadOnly};
use crate::filesystem::{
    Entry, FileSystem, Kind, Make, Node, Result, Space, Special, Times, for_each_operation,
};
use crate::ramfs::RamFs;
use crate::served::Served;
use abi::fs::{Stat, reply_flag};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// All file systems. An enum, because a vtable would belong to one ISA. Each is boxed: the unused
/// bytes of a smaller variant would hold leftovers of the kernel's stack.
#[derive(Debug)]
pub enum AnyFs {
    Ram(Box<RamFs>),
    Ext2(Box<Ext2>),
    /// Device files.
    Dev(Box<DevFs>),
    /// Implemented by a server.
    Served(Box<Served>),
    /// For tests: one that waits.
    #[cfg(test)]
    Slow(crate::vfs::slow::SlowFs),
}

impl AnyFs {
    /// Returns the next I/O for its device, if there is one.
    pub fn next_io(&mut self) -> Option<Io> {
        if let AnyFs::Ext2(fs) = self { fs.next_io() } else { None }
    }

    /// Copies the data of a write, from byte `from` on. Returns the number of bytes copied.
    pub fn outgoing(&self, id: u64, from: usize, into: &mut [u8]) -> usize {
        if let AnyFs::Ext2(fs) = self { fs.outgoing(id, from, into) } else { 0 }
    }

    /// Completes an I/O; `data` is the result of a read.
    pub fn io_done(&mut self, id: u64, good: bool, data: &[u8]) {
        if let AnyFs::Ext2(fs) = self {
            fs.io_done(id, good, data);
        }
    }

    /// Returns whether any change is not on the device.
    pub fn is_dirty(&self) -> bool {
        if let AnyFs::Ext2(fs) = self { fs.is_dirty() } else { false }
    }

    /// Returns whether any change is not on the device, or the device is not marked clean.
    pub fn is_unsettled(&self) -> bool {
        self.is_dirty() || matches!(self, AnyFs::Ext2(fs) if fs.is_unsettled())
    }

    /// Starts writing all changes. Marks the device clean if no further change arrives.
    pub fn write_back(&mut self) {
        if let AnyFs::Ext2(fs) = self {
            fs.begin_to_settle();
        }
    }

    /// Returns whether its calls may wait, or may leave work that the VFS must start after the
    /// step.
    pub fn is_slow(&self) -> bool {
        !matches!(self, AnyFs::Ram(_) | AnyFs::Dev(_))
    }

    /// Returns its properties, [`reply_flag`]s of [`abi::fs::Op::Statfs`].
    pub fn about(&self) -> u16 {
        let AnyFs::Ext2(fs) = self else { return 0 };
        reply_flag::DISK
            | match fs.read_only() {
                None => 0,
                Some(ReadOnly::Unclean) => reply_flag::READ_ONLY | reply_flag::UNCLEAN,
                Some(ReadOnly::NoJournal) => reply_flag::READ_ONLY | reply_flag::NO_JOURNAL,
                Some(_) => reply_flag::READ_ONLY,
            }
    }
}

macro_rules! dispatch {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty $default:block)*) => {
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

for_each_operation!(dispatch);
