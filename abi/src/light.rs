//! Light threads: the messages between the two kernels of a process (docs/design/light-threads.md),
//! and the *book*, which describes the process to both. The book and the process's memory are in
//! frames of coherent blocks. They are used by one kernel at a time: the one whose turn it is.
//!
//! ```text
//!   book     [`state`], waiting threads, roots: for each 4 MiB of memory, the frame of its table;
//!            then the descriptors
//!   table    for each page of memory, its frame, and whether it is still fresh
//! ```
//! Frames are counted from the start of the global region. An entry is a frame plus 1; 0: none.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Entries of a table.
pub const ENTRIES: usize = 1024;
/// Most tables of a process: its memory has at most 1 GiB.
pub const TABLES: usize = 256;
/// Pages of the book besides the tables. Further ones are used if the descriptors do not fit into
/// the first.
pub const BOOK_PAGES: usize = 4;
/// In the entry of a page of memory: it has not been used yet, so its frame must be cleared first.
pub const FRESH: u32 = 1 << 31;

/// What is where in the book, in bytes.
pub mod state {
    /// Size of the memory in bytes.
    pub const BYTES: usize = 0;
    /// The number of the last thread that was created.
    pub const LAST: usize = 8;
    /// The number of the last wait for a notification.
    pub const TICKET: usize = 16;
    /// Bytes of the descriptors.
    pub const DESCRIPTORS: usize = 24;
    /// How often they were stored, so that a kernel knows whether it has them.
    pub const VERSION: usize = 32;
    /// Places for threads that wait for a notification: an address, then a [`super::waiter`].
    pub const WAITERS: usize = 64;
    /// Number of those places.
    pub const MOST_WAITERS: usize = 128;
    /// Where the roots are.
    pub const ROOTS: usize = WAITERS + 16 * MOST_WAITERS;
    /// Where the descriptors begin.
    pub const TABLE: usize = ROOTS + 4 * super::TABLES;
}

/// The word of a thread that waits for a notification: `ticket << 8 | kind`; 0: the place is free.
pub mod waiter {
    /// A thread of the strong kernel waits.
    pub const NORMAL: u8 = 1;
    /// A light thread waits.
    pub const LIGHT: u8 = 2;
    /// It has been notified.
    pub const NOTIFIED: u8 = 3;

    pub const fn pack(ticket: u64, kind: u8) -> u64 {
        ticket << 8 | kind as u64
    }

    pub const fn unpack(word: u64) -> (u64, u8) {
        (word >> 8, word as u8)
    }
}

/// Asks the weak kernel to begin a light thread. The reply is a number: 0, or one of
/// `abi::process::Errno`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct BeginLight {
    pub pid: u32,
    /// The life of the caller, and that of the weak kernel for which this is meant.
    pub home_epoch: u32,
    pub epoch: u32,
    /// The thread's number.
    pub number: u32,
    /// Passed on to it.
    pub argument: u32,
    /// Limit of descriptors.
    pub descriptors: u32,
    /// Not 0: it may not open further sockets, because rules restrict what it may reach.
    pub restricted: u32,
    /// 0.
    pub reserved: u32,
    /// Limit of the process's memory.
    pub memory: u64,
    /// Handle of an open file: the program for the weak kernel's ISA.
    pub image: u64,
    /// The quota's words.
    pub quota: [u64; 2],
    /// Frames of the book's first pages.
    pub book: [u32; BOOK_PAGES],
    /// What the program was made from, so that both kernels run the same one.
    pub source: [u8; 32],
    pub name: [u8; 32],
}

/// A notice of the gate to the group or back.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct LightNotice {
    pub pid: u32,
    /// One of [`notice`].
    pub kind: u32,
    /// Number of the message.
    pub number: u32,
    /// Number of the report.
    pub report: u32,
    /// [`lights`], or a value that the kind defines.
    pub value: u32,
    /// 0, or another value.
    pub other: u32,
}

/// Kinds of notices.
pub mod notice {
    /// To the group: leave program code.
    pub const SUSPEND: u32 = 1;
    /// To the group: run.
    pub const RESUME: u32 = 2;
    /// To the gate: no light thread is in program code.
    pub const STOPPED: u32 = 3;
    /// To the gate: what the light threads want has changed.
    pub const CHANGED: u32 = 4;
    /// Either way: the thread that waits at place `value` has been notified.
    pub const NOTIFY: u32 = 5;
    /// To the gate: a light thread has ended the program: `value` is how ([`crate::process::End`]),
    /// `other` the status.
    pub const ENDED: u32 = 6;
}

/// What light threads want, in a report.
pub mod lights {
    pub const ABSENT: u32 = 0;
    pub const BLOCKED: u32 = 1;
    pub const RUNNABLE: u32 = 2;
}

const _: () = assert!(size_of::<BeginLight>() == 144 && size_of::<LightNotice>() == 24);
