//! Records of the lists in bulk: directory entries, mounted file systems, handles to poll.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Header of an entry that [`super::Op::Readdir`] returns. The name follows, then the next header,
/// unaligned. WASI's `dirent`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Dirent {
    /// Cookie that continues the list after this entry.
    pub next: u64,
    /// [`super::Stat::node`].
    pub node: u64,
    /// Bytes of the name.
    pub name: u32,
    /// [`super::kind`].
    pub kind: u8,
    pub reserved: [u8; 3],
}

/// Header of a file system that [`super::Op::Mounts`] returns. Its path follows, without the
/// leading `/`, then the next header, unaligned.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Mounted {
    /// [`super::source`].
    pub source: u64,
    /// Size in bytes, 0 if it is unknown.
    pub total: u64,
    pub free: u64,
    /// Bytes of the path.
    pub path: u16,
    /// [`super::reply_flag`] of Statfs.
    pub flags: u16,
    pub top: u16,
    pub reserved: u16,
}

/// A handle to poll with [`super::Op::Poll`]. The caller sets `handle` and `want`; the service
/// fills in the rest.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Poll {
    pub handle: u64,
    /// [`super::ready`] conditions to wait for.
    pub want: u16,
    /// [`super::ready`] conditions that hold; 0: the handle is not ready.
    pub got: u16,
    /// [`super::Errno`]. A handle with an error counts as ready.
    pub error: u16,
    pub reserved: u16,
    /// Bytes that can be read or written without waiting, as far as known.
    pub bytes: u64,
}
