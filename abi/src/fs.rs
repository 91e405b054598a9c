//! What the file service is asked, and what it answers.
//!
//! A request is 64 bytes, a reply 96; names and data lie in *bulk*, memory of the asker. Of bulk
//! the service reads [`Request::sent`] bytes at most, and it has written [`Reply::filled`] bytes at
//! its beginning: so much has to travel when the service runs elsewhere. Numbers of errors, kinds
//! and layouts are WASI's (preview 1), so that its functions map one to one.
//!
//! | op | handle | bulk in | other fields | answer |
//! | --- | --- | --- | --- | --- |
//! | Root | | | | `handle` of `/` |
//! | Open | directory | name | flags | `handle` |
//! | Close, Dup | any | | | -, `handle` |
//! | Read, Write | file, pipe | -, data | `length`; `offset` with [`flag::AT`] | `value` bytes |
//! | Seek | file | | `offset` (signed), whence in flags | `value`: the position |
//! | Stat | any | | | `stat`, `flags` of the handle |
//! | StatPath | directory | name | FOLLOW | `stat` |
//! | SetTimes, SetTimesPath | any, directory | -, name | `accessed`, `modified`, which in flags | |
//! | SetSize | file | | `length` | |
//! | Allocate | file | | `offset`, `length` | `value`: bytes done, may be fewer |
//! | SetFlags | any | | APPEND, NONBLOCK | |
//! | Mkdir, Rmdir, Unlink | directory | name | | |
//! | Rename, Link | directory | name, other | `second`: the other's directory; FOLLOW (Link) | |
//! | Symlink | directory | text, other | | |
//! | Readlink | directory | name | | text in bulk |
//! | Readdir | directory | | `offset`: a cookie, `length` | [`Dirent`]s in bulk, END |
//! | Sync, Datasync | any | | `offset`: a generation | `value`: one to be waited for so |
//! | Sync, all of it | any | | WHOLE | `value`: is the file system clean? |
//! | Pipe | | | NONBLOCK | `handle` reads, `other` writes |
//! | Poll | | [`Poll`]s | `length` bytes; WAIT | `value`: how many are ready; bulk |
//! | Statfs | any | | | `value` bytes, `other` of them free, what it is in flags |
//! | Mount | directory | name, other: a seed | `length`: its budget; `second`: [`source`] | |
//! | NextIo | disk | | AFRESH; `second`, `offset`: that write's rest from there | see [`io`] |
//! | IoDone | its number | what was read | `length`, `offset` of it; GOOD | `value`: so far |
//! | Terminal | 0, an end | | CONSOLE; RAW, COOKED, GROUP: `length` | `handle`, `other`; mode |
//! | NextJob | server | | AFRESH | see [`crate::served`] |
//! | JobDone | its number | what it found | `second`: [`Errno`]; `offset`: a number; `length` | |
//! | Unmount | [`source`] | | | |
//! | Mounts | | | `offset`: from which on, `length` | [`Mounted`]s in bulk, END |

mod lists;

use crate::codes::codes;
pub use lists::{Dirent, Mounted, Poll};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// What is asked.
    Op {
        /// A handle of the root directory. Programs have no access to this one.
        Root = 1,
        /// Opens what a path leads to, or creates it.
        Open = 2,
        /// Gives a handle back.
        Close = 3,
        /// A second handle, with the same position and flags, that belongs to who asks.
        Dup = 4,
        /// Reads at the position, or at an offset.
        Read = 5,
        /// Writes at the position, at the end (APPEND), or at an offset.
        Write = 6,
        /// Moves the position.
        Seek = 7,
        /// What a handle leads to.
        Stat = 8,
        /// What a path leads to.
        StatPath = 9,
        /// Sets times of what a handle leads to.
        SetTimes = 10,
        /// Sets times of what a path leads to.
        SetTimesPath = 11,
        /// Truncates or extends.
        SetSize = 12,
        /// Takes memory for a range, extending the file where it ends earlier.
        Allocate = 13,
        /// Replaces the flags of a handle (and of its duplicates).
        SetFlags = 14,
        /// Makes a directory.
        Mkdir = 15,
        /// Removes an empty directory.
        Rmdir = 16,
        /// Removes a name of anything else.
        Unlink = 17,
        /// Moves a name, replacing what has the new one.
        Rename = 18,
        /// Gives a file one more name.
        Link = 19,
        /// Makes a symbolic link.
        Symlink = 20,
        /// Its text.
        Readlink = 21,
        /// Entries of a directory.
        Readdir = 22,
        /// Makes data and all about it durable. It answers at once with a generation, if there is
        /// one to wait for; with that as `offset` ([`Request::behind`]) it waits, and not for what
        /// changes meanwhile.
        Sync = 23,
        /// Makes data durable.
        Datasync = 24,
        /// Makes a pipe.
        Pipe = 25,
        /// Which handles are ready; waits for the first one with WAIT.
        Poll = 26,
        /// The file system's size.
        Statfs = 27,
        /// Puts a file system over a directory. Programs have no access to this one, nor to those
        /// below.
        Mount = 28,
        /// What is to be done with a disk next; waits for something. For the kernel that drives it.
        NextIo = 29,
        /// What became of it.
        IoDone = 30,
        /// Makes a terminal (handle 0): `handle` is the end of who shows it to people, `other` the
        /// programs' end. Of an end: sets how it is read, and whose it is; `flags` and `value` of
        /// the answer say both.
        Terminal = 31,
        /// What a served file system is asked next; waits for something. For who serves it.
        NextJob = 33,
        /// What it answers.
        JobDone = 34,
        /// All file systems that there are.
        Mounts = 35,
        /// Ends what is mounted as HELD.
        Unmount = 36,
    }
}

impl Op {
    /// May a program ask this? The others are the kernels' own: they reach what no directory of a
    /// program leads to, and disks.
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
    /// How it went: WASI's numbers, and one of ours.
    Errno {
        /// Well.
        Success = 0,
        /// It would wait, and was told not to.
        Again = 6,
        /// No such handle, or not for this.
        Badf = 8,
        /// In use.
        Busy = 10,
        /// There is one of that name.
        Exist = 20,
        /// Beyond the largest file.
        Fbig = 22,
        /// The request makes no sense.
        Inval = 28,
        /// The device failed.
        Io = 29,
        /// A directory.
        Isdir = 31,
        /// Too many symbolic links.
        Loop = 32,
        /// Too many names.
        Mlink = 34,
        /// A name too long.
        Nametoolong = 37,
        /// Too many handles.
        Nfile = 41,
        /// Nothing of that name.
        Noent = 44,
        /// No memory for the service itself.
        Nomem = 48,
        /// No space in the file system.
        Nospc = 51,
        /// Not made for this.
        Nosys = 52,
        /// Not a directory.
        Notdir = 54,
        /// A directory with entries.
        Notempty = 55,
        /// Not of this file system.
        Notsup = 58,
        /// A number too large.
        Overflow = 61,
        /// Not allowed; a path that leaves its directory.
        Perm = 63,
        /// Nobody reads any more.
        Pipe = 64,
        /// Read-only.
        Rofs = 69,
        /// A pipe has no positions.
        Spipe = 70,
        /// From one file system to another.
        Xdev = 75,
        /// A handle of an earlier life of the service. Programs see WASI's `stale`.
        Restarted = 256,
    }
}

impl Errno {
    /// WASI's number.
    pub const fn wasi(self) -> u16 {
        match self {
            Errno::Restarted => 72,
            other => other as u16,
        }
    }
}

/// Flags of requests. Those that an op does not know are refused.
pub mod flag {
    /// Open: for reading.
    pub const READ: u16 = 1;
    /// Open: for writing.
    pub const WRITE: u16 = 1 << 1;
    /// Open: create a file if there is none.
    pub const CREATE: u16 = 1 << 2;
    /// Open: refuse what is no directory.
    pub const DIRECTORY: u16 = 1 << 3;
    /// Open: refuse what is there.
    pub const EXCLUSIVE: u16 = 1 << 4;
    /// Open: drop what is in it.
    pub const TRUNCATE: u16 = 1 << 5;
    /// Open, SetFlags: each write goes to the end.
    pub const APPEND: u16 = 1 << 6;
    /// Open, SetFlags, Pipe: nothing waits.
    pub const NONBLOCK: u16 = 1 << 7;
    /// A symbolic link at the end of the path is followed.
    pub const FOLLOW: u16 = 1 << 8;
    /// Read, Write: at the offset, not at the position.
    pub const AT: u16 = 1 << 9;
    /// Poll: wait for the first one.
    pub const WAIT: u16 = 1 << 10;
    /// Seek: from the position.
    pub const CURRENT: u16 = 1;
    /// Seek: from the end.
    pub const END: u16 = 2;
    /// Sync: all of the file system, which is marked clean then.
    pub const WHOLE: u16 = 1;
    /// Mount: over the root: it is the root from then on.
    pub const TOP: u16 = 1 << 1;
    /// Terminal: one that is made is the console.
    pub const CONSOLE: u16 = 1;
    /// Terminal: its programs get each key as it is pressed, and show it if they like.
    pub const RAW: u16 = 1 << 1;
    /// Terminal: its programs get lines, which whoever shows it has shown and corrected.
    pub const COOKED: u16 = 1 << 2;
    /// Terminal: the keys that end programs end those of the group `length`; 0: nobody.
    pub const GROUP: u16 = 1 << 3;
    /// Mount: under a name in the root directory, whatever the root is; no directory is needed.
    pub const SHOWN: u16 = 1 << 2;
    /// Mount: nowhere; the answer is a handle of its root. For what is served.
    pub const HELD: u16 = 1 << 3;
    /// NextIo: what this kernel took before is not being done: it is to be done again. NextJob: it
    /// is not done at all.
    pub const AFRESH: u16 = 1;
    /// IoDone: the disk did it.
    pub const GOOD: u16 = 1;
    /// SetTimes: time of access.
    pub const ACCESSED: u16 = 1;
    /// SetTimes: time of access is now.
    pub const ACCESSED_NOW: u16 = 1 << 1;
    /// SetTimes: time of change.
    pub const MODIFIED: u16 = 1 << 2;
    /// SetTimes: time of change is now.
    pub const MODIFIED_NOW: u16 = 1 << 3;
}

/// Flags of replies (Stat answers the handle's instead).
pub mod reply_flag {
    /// Readdir: there are no more.
    pub const END: u16 = 1;
    /// Statfs: it is on a disk, else in memory.
    pub const DISK: u16 = 1;
    /// Statfs: nothing can be changed.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Statfs: that is so since it was not unmounted, and nobody has checked it.
    pub const UNCLEAN: u16 = 1 << 2;
}

/// What [`Op::Mount`] puts there; numbers from 1 on are disks.
pub mod source {
    /// A new ramfs of `length` bytes.
    pub const MEMORY: u64 = 0;
    /// Devices; random numbers begin with the seed behind the name.
    pub const DEVICES: u64 = 1 << 32;
    /// What the server of a number serves, which is added to this; it may take `length` bytes.
    pub const SERVED: u64 = 2 << 32;
}

/// What [`Op::NextIo`] answers: `handle` is its number, `value` the byte of the disk where it
/// begins, `other` how many there are, `flags` what to do; what is to be written is in bulk, as far
/// as that reaches. What was read may come in several pieces, one behind the other. Disks have
/// numbers from 1 on.
pub mod io {
    /// Read so many bytes.
    pub const READ: u16 = 1;
    /// Write them, all or none as far as that can be.
    pub const WRITE: u16 = 2;
    /// Make durable whatever was done before.
    pub const FLUSH: u16 = 3;
}

/// Kinds of files.
pub mod kind {
    /// A character device.
    pub const CHARACTER: u8 = 2;
    /// A directory.
    pub const DIRECTORY: u8 = 3;
    /// A file.
    pub const FILE: u8 = 4;
    /// A pipe (to WASI a stream).
    pub const PIPE: u8 = 6;
    /// A symbolic link.
    pub const LINK: u8 = 7;
}

/// Wanted or found by [`Op::Poll`].
pub mod ready {
    /// A read would not wait.
    pub const READ: u16 = 1;
    /// A write would not wait.
    pub const WRITE: u16 = 1 << 1;
    /// The other side is gone.
    pub const HANGUP: u16 = 1 << 2;
}

/// Most bytes of one name in a directory.
pub const NAME: usize = 255;
/// Most bytes of a path, and of a symbolic link's text.
pub const PATH: usize = 1920;
/// Most symbolic links on one path.
pub const LINKS: usize = 40;
/// Most bytes that one request moves; longer ones end short.
pub const STEP: usize = 64 * 1024;
/// Cookies of entries begin here; 0 begins with `.` and `..`.
pub const FIRST_COOKIE: u64 = 2;

/// A request.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Request {
    /// [`Op`].
    pub op: u16,
    /// [`flag`].
    pub flags: u16,
    /// Bytes of the name at the beginning of bulk.
    pub name: u16,
    /// Bytes of the other name, behind it.
    pub other: u16,
    /// What it is about.
    pub handle: u64,
    /// The directory of the other name.
    pub second: u64,
    /// Where in the file; how far; from which cookie.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// Time of access, in ns.
    pub accessed: u64,
    /// Time of change, in ns.
    pub modified: u64,
    /// 0.
    pub reserved: u64,
}

impl Request {
    /// All else is 0.
    pub fn new(op: Op, handle: u64) -> Request {
        Request { op: op as u16, handle, ..Request::default() }
    }

    /// How much of a bulk of `bulk` bytes the service reads.
    pub fn sent(&self, bulk: usize) -> usize {
        let wanted = match Op::from_code(self.op) {
            Some(Op::Write | Op::Poll | Op::IoDone | Op::JobDone) => {
                usize::try_from(self.length).unwrap_or(usize::MAX)
            }
            _ => usize::from(self.name) + usize::from(self.other),
        };
        wanted.min(bulk)
    }

    /// What is asked behind the answer to this one, to be done: a sync waits for its generation.
    pub fn behind(&self, reply: &Reply) -> Option<Request> {
        let syncs = matches!(Op::from_code(self.op), Some(Op::Sync | Op::Datasync));
        let begins = syncs && self.flags == 0 && self.offset == 0;
        let waits = begins && reply.error == 0 && reply.value != 0;
        waits.then_some(Request { offset: reply.value, ..*self })
    }

    /// Is no name longer than [`PATH`]? Two of them and a request fill a message between kernels.
    pub fn names_fit(&self) -> bool {
        let named = !matches!(
            Op::from_code(self.op),
            Some(Op::Write | Op::Poll | Op::IoDone | Op::JobDone)
        );
        !named || usize::from(self.name.max(self.other)) <= PATH
    }
}

/// What a handle or a path leads to: WASI's `filestat`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Stat {
    /// Which file system.
    pub device: u64,
    /// Its number there; never used twice in one life.
    pub node: u64,
    /// [`kind`].
    pub kind: u8,
    /// 0.
    pub reserved: [u8; 7],
    /// Names.
    pub links: u64,
    /// Bytes.
    pub size: u64,
    /// Time of access, in ns.
    pub accessed: u64,
    /// Time of the last write, in ns.
    pub modified: u64,
    /// Time of the last change of anything about it, in ns.
    pub changed: u64,
}

/// A reply.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Reply {
    /// [`Errno`].
    pub error: u16,
    /// [`reply_flag`], or the handle's [`flag`]s.
    pub flags: u16,
    /// Bytes at the beginning of bulk that were written.
    pub filled: u32,
    /// A new handle.
    pub handle: u64,
    /// A second one; bytes that are free.
    pub other: u64,
    /// How many; where.
    pub value: u64,
    /// What there is.
    pub stat: Stat,
}

impl Reply {
    /// It went wrong.
    pub fn error(error: Errno) -> Reply {
        Reply { error: error as u16, ..Reply::default() }
    }

    /// How it went; a number that is none is [`Errno::Io`].
    pub fn errno(&self) -> Errno {
        Errno::from_code(self.error).unwrap_or(Errno::Io)
    }
}

const _: () = assert!(size_of::<Request>() == 64 && align_of::<Request>() == 8);
const _: () = assert!(size_of::<Reply>() == 96 && align_of::<Reply>() == 8);
const _: () = assert!(size_of::<Stat>() == 64 && size_of::<Dirent>() == 24);
const _: () = assert!(size_of::<Poll>() == 24 && size_of::<Mounted>() == 32);
