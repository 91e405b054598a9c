//! What a file system that is served elsewhere is asked, and what its server answers.
//!
//! Who serves takes a job with `NextJob`: a [`Job`] in bulk, behind it its name, the other name and
//! what is to be written. It answers with `JobDone`: the job's number, an error or 0, a number, and
//! bytes in bulk. Nodes are numbers that the server chooses; the root is 1. A job and its answer
//! fit into a message between kernels.
//!
//! | task | node | names | other fields | number | bytes |
//! | --- | --- | --- | --- | --- | --- |
//! | Lookup | directory | name | | | the node's [`Stat`] |
//! | Stat | any | | | | [`Stat`] |
//! | Parent | directory | | | the directory above | |
//! | ReadLink | link | | | | its text |
//! | List | directory | | `offset`: a cookie; `length` | 1: that was the end | `fs::Dirent`s |
//! | Read | file | | `offset`, `length` | | data; none behind the end |
//! | Write | file | | `offset`, `length`: of the data | bytes written | |
//! | SetSize | file | | `length` | | |
//! | Allocate | file | | `offset`, `length` | bytes done | |
//! | SetTimes | any | | [`given`] in `flags`, `accessed`, `modified` | | |
//! | Make | directory | name, text of a link | `flags`: `fs::kind` | | the node's [`Stat`] |
//! | Link | directory | name | `second`: the node | | |
//! | Unlink, Rmdir | directory | name | | | |
//! | Rename | directory | name, new one | `second`: the other directory | | |
//! | Sync | any | | `flags`: 1, data only | | |
//! | Space | root | | | bytes in all | 8: bytes free |
//!
//! [`Stat`]: crate::fs::Stat

use crate::codes::codes;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

codes! {
    /// What is asked.
    Task {
        /// What has a name.
        Lookup = 1,
        /// All about a node.
        Stat = 2,
        /// The directory above.
        Parent = 3,
        /// A link's text.
        ReadLink = 4,
        /// Entries of a directory; their cookies ascend, from 2 on.
        List = 5,
        /// Data.
        Read = 6,
        /// Writes data.
        Write = 7,
        /// Truncates or extends.
        SetSize = 8,
        /// Takes space for a range.
        Allocate = 9,
        /// Sets times.
        SetTimes = 10,
        /// Makes a file, directory or link.
        Make = 11,
        /// One more name.
        Link = 12,
        /// Removes a name.
        Unlink = 13,
        /// Removes an empty directory.
        Rmdir = 14,
        /// Moves a name.
        Rename = 15,
        /// Makes durable.
        Sync = 16,
        /// How large it is.
        Space = 17,
    }
}

/// Flags of [`Task::SetTimes`].
pub mod given {
    /// Time of access.
    pub const ACCESSED: u16 = 1;
    /// Time of change.
    pub const MODIFIED: u16 = 1 << 1;
}

/// Most bytes of data that a job carries, and of an answer.
pub const DATA: usize = 2048;
/// Room for a job and all that is behind it.
pub const ROOM: usize = size_of::<Job>() + crate::fs::NAME + DATA;
/// The root of every server.
pub const ROOT: u64 = 1;

/// A job.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Job {
    /// [`Task`].
    pub task: u16,
    /// Says more about it.
    pub flags: u16,
    /// Bytes of the name.
    pub name: u16,
    /// Bytes of the other name.
    pub other: u16,
    /// What it is about.
    pub node: u64,
    /// A second node.
    pub second: u64,
    /// Where.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// When it was asked, in ns; 0 in what only looks.
    pub now: u64,
    /// Time of access, in ns.
    pub accessed: u64,
    /// Time of change, in ns.
    pub modified: u64,
}

const _: () = assert!(size_of::<Job>() == 64 && align_of::<Job>() == 8);
const _: () = assert!(crate::fs::PATH <= DATA);
