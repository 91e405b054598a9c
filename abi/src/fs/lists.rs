//! What lies in bulk, several behind each other: entries, file systems, handles.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The head of an entry that [`super::Op::Readdir`] answers; the name follows at once, and behind
/// it the next head, unaligned. WASI's `dirent`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Dirent {
    /// The cookie to go on behind this entry.
    pub next: u64,
    /// [`super::Stat::node`].
    pub node: u64,
    /// Bytes of the name.
    pub name: u32,
    /// [`super::kind`].
    pub kind: u8,
    /// 0.
    pub reserved: [u8; 3],
}

/// The head of a file system that [`super::Op::Mounts`] answers; its path without `/` at the
/// beginning follows at once, and behind it the next head, unaligned.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Mounted {
    /// [`super::source`].
    pub source: u64,
    /// Bytes in all, 0 when that is not known.
    pub total: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes of the path.
    pub path: u16,
    /// [`super::reply_flag`] of Statfs.
    pub flags: u16,
    /// 1: it is the root.
    pub top: u16,
    /// 0.
    pub reserved: u16,
}

/// One handle of [`super::Op::Poll`]: goes in with `handle` and `want`, comes out with the rest.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Poll {
    /// Which.
    pub handle: u64,
    /// [`super::ready`] for what.
    pub want: u16,
    /// [`super::ready`] it is; 0 when it is not.
    pub got: u16,
    /// [`super::Errno`]; what went wrong counts as ready.
    pub error: u16,
    /// 0.
    pub reserved: u16,
    /// Bytes that can be read or written without waiting, as far as is known.
    pub bytes: u64,
}
