//! Protocol of a served file system: the jobs that its server gets, and their results.
//!
//! The server takes a job with `NextJob`: a [`Job`] in the bulk, followed by its name, its other
//! name and the data to write. It completes the job with `JobDone`: the number of the job, an error
//! or 0, a number, and bytes in the bulk. The server chooses the numbers of nodes; the root is 1. A
//! job, and its result, fit in one message between kernels.
//!
//! | task | node | names | other fields | number | bytes |
//! | --- | --- | --- | --- | --- | --- |
//! | Lookup | directory | name | | | [`Stat`] of the node |
//! | Stat | any | | | | [`Stat`] |
//! | Parent | directory | | | node of the parent directory | |
//! | ReadLink | link | | | | its text |
//! | List | directory | | `offset`: a cookie; `length` | 1: the list is complete | `fs::Dirent`s |
//! | Read | file | | `offset`, `length` | | data; none after the end |
//! | Write | file | | `offset`, `length` of the data | bytes written | |
//! | SetSize | file | | `length` | | |
//! | Allocate | file | | `offset`, `length` | bytes allocated | |
//! | SetTimes | any | | [`given`] in `flags`, `accessed`, `modified` | | |
//! | Make | directory | name, text of a link | `flags`: `fs::kind` | | [`Stat`] of the node |
//! | Link | directory | name | `second`: the node | | |
//! | Unlink, Rmdir | directory | name | | | |
//! | Rename | directory | name, new name | `second`: the new directory | | |
//! | Sync | any | | `flags`: 1, data only | | |
//! | Space | root | | | total bytes | 8 bytes: free bytes |
//!
//! [`Stat`]: crate::fs::Stat

use crate::codes::codes;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// Operations. The table above has their fields.
    Task {
        Lookup = 1,
        Stat = 2,
        Parent = 3,
        ReadLink = 4,
        /// Lists a directory. Cookies ascend and start at 2.
        List = 5,
        Read = 6,
        Write = 7,
        SetSize = 8,
        /// Reserves space for a range.
        Allocate = 9,
        SetTimes = 10,
        /// Creates a file, directory or symbolic link.
        Make = 11,
        /// Adds a hard link.
        Link = 12,
        Unlink = 13,
        Rmdir = 14,
        Rename = 15,
        /// Makes the node durable.
        Sync = 16,
        /// Reports the size of the file system.
        Space = 17,
    }
}

/// Flags of [`Task::SetTimes`]: the times to set.
pub mod given {
    pub const ACCESSED: u16 = 1;
    pub const MODIFIED: u16 = 1 << 1;
}

/// Maximum bytes of data of a job, and of a result.
pub const DATA: usize = 2048;
/// Maximum bytes of a job with everything that follows it.
pub const ROOM: usize = size_of::<Job>() + crate::fs::NAME + DATA;
/// Node of the root.
pub const ROOT: u64 = 1;

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Job {
    /// [`Task`].
    pub task: u16,
    /// Flags of the task.
    pub flags: u16,
    pub name: u16,
    pub other: u16,
    /// Node that the task applies to.
    pub node: u64,
    pub second: u64,
    pub offset: u64,
    /// In bytes.
    pub length: u64,
    /// Time of the request, in ns; 0 for tasks that change nothing.
    pub now: u64,
    /// Time of access, in ns.
    pub accessed: u64,
    /// Time of modification, in ns.
    pub modified: u64,
}

const _: () = assert!(size_of::<Job>() == 64 && align_of::<Job>() == 8);
const _: () = assert!(crate::fs::PATH <= DATA);
