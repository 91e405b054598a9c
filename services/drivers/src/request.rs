//! Requests and replies of the drivers, the same for all of them. Plain data, because they may come
//! from another kernel.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Kinds of requests. Each service refuses those that mean nothing to it.
pub mod kind {
    /// Waits until the device works. Disk: [`super::Reply::value`] is the number of sectors, and
    /// [`super::flag::READ_ONLY`] may be set.
    pub const ABOUT: u32 = 1;
    /// Reads into bulk. Console and host: at least one byte, waiting for it; none at a stream's
    /// end. Disk: exactly `length` bytes from sector `at`. Random: `length` bytes.
    pub const READ: u32 = 2;
    /// Writes from bulk. Console and host: at least one byte, waiting for room. Disk: all `length`
    /// bytes, from sector `at`.
    pub const WRITE: u32 = 3;
    /// Disk: makes all writes that have completed durable.
    pub const FLUSH: u32 = 4;
    /// Host: waits for the next stream that the host opens; [`super::Reply::value`] names it.
    pub const ACCEPT: u32 = 5;
    /// Host: closes a stream.
    pub const CLOSE: u32 = 6;
    /// Host: no other stream belongs to this one, so others may go to another kernel.
    pub const SINGLE: u32 = 7;
}

/// What became of a request.
pub mod told {
    /// Done.
    pub const DONE: u32 = 0;
    /// There is no device, or it does not start.
    pub const ABSENT: u32 = 1;
    /// The service does not know the request's kind, or its length is not possible.
    pub const REFUSED: u32 = 2;
    /// Beyond the end of the disk, or not whole sectors.
    pub const RANGE: u32 = 3;
    /// The disk is read-only.
    pub const READ_ONLY: u32 = 4;
    /// The device reported an error.
    pub const FAILED: u32 = 5;
    /// The device does not support it.
    pub const UNSUPPORTED: u32 = 6;
    /// The stream is not open.
    pub const GONE: u32 = 7;
    /// Disk: the request is of an older life of the file service than one that came before it. It
    /// is not carried out.
    pub const OLD: u32 = 8;
}

/// Bits of [`Reply::flags`].
pub mod flag {
    /// The disk is read-only.
    pub const READ_ONLY: u32 = 1;
}

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Request {
    /// One of [`kind`].
    pub kind: u32,
    /// Number of bytes.
    pub length: u32,
    /// A sector of a disk, or the number of a stream.
    pub at: u64,
    /// Disk: the life of the file service that issued it; 0: none is known, and none is checked.
    /// Lives increase as long as the board runs.
    pub life: u64,
}

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Reply {
    /// One of [`told`].
    pub told: u32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Number of bytes at the start of bulk that the reply fills.
    pub filled: u32,
    /// Number of bytes taken from bulk.
    pub taken: u32,
    /// What else the kind says.
    pub value: u64,
}

impl Reply {
    /// Creates a reply without other fields.
    pub const fn of(told: u32) -> Reply {
        Reply { told, flags: 0, filled: 0, taken: 0, value: 0 }
    }
}
