//! Requests to the file service, and its replies.
//!
//! A request has 64 bytes, a reply 96. Names and data are in the *bulk*, a buffer of the caller.
//! The service reads at most the first [`Request::sent`] bytes of the bulk and writes its first
//! [`Reply::filled`] bytes; only these travel when the service runs on another kernel. Error
//! numbers, file types and layouts are those of WASI preview 1, so that its functions map one to
//! one.
//!
//! | op | handle | bulk in | other fields | reply |
//! | --- | --- | --- | --- | --- |
//! | Root | | | quota | `handle` of `/` |
//! | Open | directory | name | flags, quota | `handle`; `stat`, or in that kind 0: unknown |
//! | Close, Dup | any | | -, quota | -, `handle` |
//! | Read, Write | file, pipe | -, data | `length`; `offset` with [`flag::AT`] | `value` bytes |
//! | Seek | file | | `offset` (signed), whence in flags | `value`: the position |
//! | Stat | any | | | `stat`, `flags` of the handle |
//! | StatPath | directory | name | FOLLOW | `stat` |
//! | SetTimes, SetTimesPath | any, directory | -, name | `accessed`, `modified`, which in flags | |
//! | SetSize | file | | `length` | |
//! | Allocate | file | | `offset`, `length` | `value`: bytes allocated, may be fewer |
//! | SetFlags | any | | APPEND, NONBLOCK | |
//! | Mkdir, Rmdir, Unlink | directory | name | | |
//! | Rename, Link | directory | name, other | `second`: directory of `other`; FOLLOW (Link) | |
//! | Symlink | directory | text, other | | |
//! | Readlink | directory | name | | text in bulk |
//! | Readdir | directory | | `offset`: a cookie, `length` | [`Dirent`]s in bulk, END |
//! | Sync, Datasync | any | | `offset`: 0 or a generation | `value`: generation to wait for, or 0 |
//! | Sync, whole file system | any | | WHOLE | `value`: 1 if it is clean |
//! | Pipe | | | NONBLOCK, quota | `handle`: read end, `other`: write end |
//! | Poll | | [`Poll`]s | `length` bytes; WAIT | `value`: number ready; [`Poll`]s in bulk |
//! | Statfs | any | | | `value`: bytes, `other`: free bytes, properties in flags |
//! | Mount | directory | name, other: a seed | `length`: budget in bytes; `second`: [`source`] | |
//! | NextIo | disk | | RESTARTED; `second`, `offset`: rest of that write, from there | see [`io`] |
//! | IoDone | number of the I/O | data read | `length`, `offset`; GOOD | `value`: bytes so far |
//! | Terminal | 0, an end | | CONSOLE; RAW, COOKED, GROUP: `length` | `handle`, `other`; mode |
//! | NextJob | server | | RESTARTED | see [`crate::served`] |
//! | JobDone | number of the job | result | `second`: [`Errno`]; `offset`: a number; `length` | |
//! | Unmount | [`source`] | | | |
//! | Mounts | | | `offset`: index of the first, `length` | [`Mounted`]s in bulk, END |

//!
//! Where the table says quota, `accessed` and `modified` are the [`Quota`] that the new handles are
//! charged to.

mod lists;

use crate::codes::codes;
use crate::quota::Quota;
pub use lists::{Dirent, Mounted, Poll};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// Operations. The table above has their fields.
    Op {
        /// Opens the root directory. Not for programs.
        Root = 1,
        /// Opens the file at a path, or creates it.
        Open = 2,
        Close = 3,
        /// Duplicates a handle: same position and flags, owned by the caller.
        Dup = 4,
        /// Reads at the position, or at an offset (AT).
        Read = 5,
        /// Writes at the position, at the end (APPEND) or at an offset (AT).
        Write = 6,
        Seek = 7,
        Stat = 8,
        StatPath = 9,
        SetTimes = 10,
        SetTimesPath = 11,
        SetSize = 12,
        /// Reserves space for a range, and extends the file to its end.
        Allocate = 13,
        /// Replaces the flags of a handle and of its duplicates.
        SetFlags = 14,
        Mkdir = 15,
        Rmdir = 16,
        /// Removes a name of anything but a directory.
        Unlink = 17,
        /// Renames; an existing file of the new name is replaced.
        Rename = 18,
        Link = 19,
        Symlink = 20,
        Readlink = 21,
        Readdir = 22,
        /// Makes data and metadata durable. The first request returns a generation at once, or 0 if
        /// there is nothing to wait for; a second one with that generation as `offset`
        /// ([`Request::follow_up`]) waits until it is durable, but not for later changes.
        Sync = 23,
        /// The same for data only.
        Datasync = 24,
        Pipe = 25,
        /// Reports which handles are ready; with WAIT, waits for the first one.
        Poll = 26,
        /// Reports the size of a file system.
        Statfs = 27,
        /// Mounts a file system on a directory. Busy: the disk or server is mounted already; Exist:
        /// something is mounted on the directory. Not for programs, nor are those below, except
        /// Terminal and Mounts.
        Mount = 28,
        /// Takes the next I/O of a disk, waiting for one. For the kernels that drive the disk.
        NextIo = 29,
        /// Completes an I/O.
        IoDone = 30,
        /// With handle 0, creates a terminal: `handle` is the end of the process that displays it,
        /// `other` the end of programs. With an end, sets its mode and foreground group; `flags`
        /// and `value` of the reply are those in force.
        Terminal = 31,
        /// Takes the next job of a served file system, waiting for one. For its server.
        NextJob = 33,
        /// Completes a job.
        JobDone = 34,
        /// Lists the mounted file systems.
        Mounts = 35,
        /// Unmounts a file system that is mounted with HELD.
        Unmount = 36,
    }
}

impl Op {
    /// Returns whether a program may send this request. The others are reserved for kernels: they
    /// reach disks, and files outside a program's directories.
    pub const fn is_for_programs(self) -> bool {
        !matches!(
            self,
            Op::Root
                | Op::Mount
                | Op::Unmount
                | Op::NextIo
                | Op::IoDone
                | Op::NextJob
                | Op::JobDone
        )
    }
}

codes! {
    /// Results: WASI's numbers, and one of ours.
    Errno {
        Success = 0,
        /// The request would wait, and has NONBLOCK.
        Again = 6,
        /// No such handle, or it does not support the operation.
        Badf = 8,
        Busy = 10,
        Exist = 20,
        /// Larger than the largest file.
        Fbig = 22,
        /// The request is malformed.
        Inval = 28,
        Io = 29,
        Isdir = 31,
        Loop = 32,
        /// Too many names (hard links).
        Mlink = 34,
        Nametoolong = 37,
        /// The process tree has as many handles or pipes as its quota allows, or there are no more.
        Nfile = 41,
        Noent = 44,
        /// The service itself is out of memory.
        Nomem = 48,
        Nospc = 51,
        /// The operation is not supported.
        Nosys = 52,
        Notdir = 54,
        Notempty = 55,
        /// The file system does not support it.
        Notsup = 58,
        /// A value is too large for its field.
        Overflow = 61,
        /// Not permitted, or a path that leaves its directory.
        Perm = 63,
        /// No reader is left.
        Pipe = 64,
        Rofs = 69,
        /// Pipes have no position.
        Spipe = 70,
        /// The two files are in different file systems.
        Xdev = 75,
        /// The handle is from before a restart of the service. Programs see WASI's `stale`.
        Restarted = 256,
    }
}

impl Errno {
    /// Returns the number that a program gets.
    pub const fn wasi(self) -> u16 {
        match self {
            Errno::Restarted => 72,
            other => other as u16,
        }
    }
}

/// Flags of requests. A flag that the operation does not define is refused.
pub mod flag {
    pub const READ: u16 = 1;
    pub const WRITE: u16 = 1 << 1;
    pub const CREATE: u16 = 1 << 2;
    /// Open: fail if it is not a directory.
    pub const DIRECTORY: u16 = 1 << 3;
    /// Open: fail if it exists.
    pub const EXCLUSIVE: u16 = 1 << 4;
    /// Open: discard the contents.
    pub const TRUNCATE: u16 = 1 << 5;
    /// Open, SetFlags: each write appends.
    pub const APPEND: u16 = 1 << 6;
    /// Open, SetFlags, Pipe: fail with [`super::Errno::Again`] instead of waiting.
    pub const NONBLOCK: u16 = 1 << 7;
    /// Follow a symbolic link at the end of the path.
    pub const FOLLOW: u16 = 1 << 8;
    /// Read, Write: use `offset` instead of the position.
    pub const AT: u16 = 1 << 9;
    /// Poll: wait until a handle is ready.
    pub const WAIT: u16 = 1 << 10;
    /// Seek: relative to the position.
    pub const CURRENT: u16 = 1;
    /// Seek: relative to the end.
    pub const END: u16 = 2;
    /// Sync: the whole file system, which is then marked clean.
    pub const WHOLE: u16 = 1;
    /// Mount: as the new root.
    pub const TOP: u16 = 1 << 1;
    /// Terminal: create the console.
    pub const CONSOLE: u16 = 1;
    /// Terminal: programs get each key as it is pressed, and do any echoing.
    pub const RAW: u16 = 1 << 1;
    /// Terminal: programs get lines, echoed and edited by the displaying end.
    pub const COOKED: u16 = 1 << 2;
    /// Terminal: keys that end programs, such as Ctrl-C, signal the process group in `length`; 0:
    /// no group.
    pub const GROUP: u16 = 1 << 3;
    /// Mount: under a name in the root directory, whatever the root is; needs no directory there.
    pub const SHOWN: u16 = 1 << 2;
    /// Mount: at no path; the reply is a handle of its root. For served file systems.
    pub const HELD: u16 = 1 << 3;
    /// This kernel has started again and dropped what it had taken before. NextIo: those I/Os are
    /// issued again. NextJob: those jobs fail.
    pub const RESTARTED: u16 = 1;
    /// IoDone: the I/O succeeded.
    pub const GOOD: u16 = 1;
    /// SetTimes: set the time of access.
    pub const ACCESSED: u16 = 1;
    /// SetTimes: to the current time.
    pub const ACCESSED_NOW: u16 = 1 << 1;
    /// SetTimes: set the time of modification.
    pub const MODIFIED: u16 = 1 << 2;
    /// SetTimes: to the current time.
    pub const MODIFIED_NOW: u16 = 1 << 3;
}

/// Flags of replies. Stat returns the flags of the handle instead.
pub mod reply_flag {
    /// Readdir, Mounts: the list is complete.
    pub const END: u16 = 1;
    /// Statfs: on a disk, not in memory.
    pub const DISK: u16 = 1;
    /// Statfs: read-only.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Statfs: read-only because it has errors and has not been checked since.
    pub const UNCLEAN: u16 = 1 << 2;
    /// Statfs: read-only because it has no journal.
    pub const NO_JOURNAL: u16 = 1 << 3;
}

/// Source of [`Op::Mount`]; numbers from 1 on are disks.
pub mod source {
    /// A new, empty ramfs of `length` bytes.
    pub const MEMORY: u64 = 0;
    /// Device files; `other` seeds the random numbers.
    pub const DEVICES: u64 = 1 << 32;
    /// Plus the number of a server: the file system that it serves; its jobs may use `length`
    /// bytes.
    pub const SERVED: u64 = 2 << 32;
}

/// Device numbers of files ([`Stat::device`]): up to this number they belong to file systems in
/// memory, and say which only in one life of the service. This number plus that of a disk or
/// server, or of the device files (wherever they are mounted), means the same in each.
pub const LASTING: u64 = 16;

/// The node of the null device among the device files.
pub const NULL: u64 = 2;

/// I/O that [`Op::NextIo`] returns. `handle` is its number, `value` the byte offset on the disk,
/// `other` the length in bytes, `flags` the kind; the data of a write are in the bulk, as far as
/// they fit. The data of a read may be returned in several consecutive pieces. Disks are numbered
/// from 1.
pub mod io {
    pub const READ: u16 = 1;
    /// Atomic as far as the disk allows.
    pub const WRITE: u16 = 2;
    /// Make all earlier writes durable.
    pub const FLUSH: u16 = 3;
}

/// File types, WASI's numbers.
pub mod kind {
    pub const CHARACTER: u8 = 2;
    pub const DIRECTORY: u8 = 3;
    pub const FILE: u8 = 4;
    /// A pipe; a stream in WASI.
    pub const PIPE: u8 = 6;
    pub const LINK: u8 = 7;
}

/// Readiness, in [`Poll`].
pub mod ready {
    /// A read would not wait.
    pub const READ: u16 = 1;
    /// A write would not wait.
    pub const WRITE: u16 = 1 << 1;
    /// The other end is closed.
    pub const HANGUP: u16 = 1 << 2;
}

/// Maximum bytes of a name in a directory.
pub const NAME: usize = 255;
/// Maximum bytes of a path, and of the text of a symbolic link.
pub const PATH: usize = 1920;
/// Maximum symbolic links followed in one path.
pub const LINKS: usize = 40;
/// Maximum bytes that one request transfers; a longer one is cut short.
pub const STEP: usize = 64 * 1024;
/// Cookie of the first real entry; 0 starts with `.` and `..`.
pub const FIRST_COOKIE: u64 = 2;

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Request {
    /// [`Op`].
    pub op: u16,
    /// [`flag`].
    pub flags: u16,
    /// Bytes of the name at the start of the bulk.
    pub name: u16,
    /// Bytes of the other name, which follows it.
    pub other: u16,
    /// Handle that the operation applies to.
    pub handle: u64,
    /// Handle of the directory of the other name.
    pub second: u64,
    /// Offset in the file, distance to seek, or a cookie.
    pub offset: u64,
    /// In bytes.
    pub length: u64,
    pub accessed: u64,
    /// Time of modification, in ns.
    pub modified: u64,
    /// Must be 0.
    pub reserved: u64,
}

impl Request {
    /// Leaves the other fields 0.
    #[inline]
    pub fn new(op: Op, handle: u64) -> Request {
        Request { op: op as u16, handle, ..Request::default() }
    }

    /// Returns how many bytes of a bulk of `bulk` bytes the service reads.
    #[inline]
    pub fn sent(&self, bulk: usize) -> usize {
        let wanted = match Op::from_code(self.op) {
            Some(Op::Write | Op::Poll | Op::IoDone | Op::JobDone) => {
                usize::try_from(self.length).unwrap_or(usize::MAX)
            }
            _ => usize::from(self.name) + usize::from(self.other),
        };
        wanted.min(bulk)
    }

    /// Returns whether the request creates handles that are charged to a quota.
    #[inline]
    pub const fn takes_quota(&self) -> bool {
        matches!(Op::from_code(self.op), Some(Op::Root | Op::Open | Op::Dup | Op::Pipe))
    }

    /// Returns the quota that new handles are charged to.
    #[inline]
    pub fn quota(&self) -> Quota {
        let words = [self.accessed, self.modified];
        if self.takes_quota() { Quota::of_words(words) } else { Quota::default() }
    }

    /// Returns the request with a quota, if it creates handles.
    #[inline]
    pub fn with_quota(self, quota: Quota) -> Request {
        let [accessed, modified] = quota.words();
        if self.takes_quota() { Request { accessed, modified, ..self } } else { self }
    }

    /// Returns the request that must follow `reply`: a sync waits for its generation.
    #[inline]
    pub fn follow_up(&self, reply: &Reply) -> Option<Request> {
        let syncs = matches!(Op::from_code(self.op), Some(Op::Sync | Op::Datasync));
        let begins = syncs && self.flags == 0 && self.offset == 0;
        let waits = begins && reply.error == 0 && reply.value != 0;
        waits.then_some(Request { offset: reply.value, ..*self })
    }

    /// Returns whether no name is longer than [`PATH`]: a request and two names fit in a message.
    #[inline]
    pub fn names_fit(&self) -> bool {
        let has_none = || {
            let op = Op::from_code(self.op);
            matches!(op, Some(Op::Write | Op::Poll | Op::IoDone | Op::JobDone))
        };
        usize::from(self.name.max(self.other)) <= PATH || has_none()
    }
}

/// Metadata of a file: WASI's `filestat`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Stat {
    /// Number of the file system.
    pub device: u64,
    /// Inode number; not reused while the service lives.
    pub node: u64,
    /// [`kind`].
    pub kind: u8,
    pub reserved: [u8; 7],
    /// Number of hard links.
    pub links: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of access, in ns.
    pub accessed: u64,
    pub modified: u64,
    /// Time of the last change of data or metadata, in ns.
    pub changed: u64,
}

impl Stat {
    /// Returns whether it is the null device, which drops what is written and is always at its end.
    pub fn is_null(&self) -> bool {
        (self.device, self.node) == (LASTING + source::DEVICES, NULL)
    }
}

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Reply {
    /// [`Errno`].
    pub error: u16,
    /// [`reply_flag`]s, or the [`flag`]s of the handle.
    pub flags: u16,
    /// Bytes written at the start of the bulk.
    pub filled: u32,
    pub handle: u64,
    /// A second handle, or a number of free bytes.
    pub other: u64,
    /// A count or a position.
    pub value: u64,
    pub stat: Stat,
}

impl Reply {
    /// Returns the metadata in the reply to Open, if they are known.
    pub fn opened(&self) -> Option<Stat> {
        (self.stat.kind != 0).then_some(self.stat)
    }

    /// Leaves the other fields 0.
    #[inline]
    pub fn error(error: Errno) -> Reply {
        Reply { error: error as u16, ..Reply::default() }
    }

    /// An unknown number counts as [`Errno::Io`].
    #[inline]
    pub fn errno(&self) -> Errno {
        Errno::from_code(self.error).unwrap_or(Errno::Io)
    }
}

const _: () = assert!(size_of::<Request>() == 64 && align_of::<Request>() == 8);
const _: () = assert!(size_of::<Reply>() == 96 && align_of::<Reply>() == 8);
const _: () = assert!(size_of::<Stat>() == 64 && size_of::<Dirent>() == 24);
const _: () = assert!(size_of::<Poll>() == 24 && size_of::<Mounted>() == 32);
