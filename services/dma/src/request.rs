//! Requests and replies of the driver. Plain data, because they may come from another kernel.

use crate::transfer::BATCH;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Kinds of requests.
pub mod kind {
    /// Starts the `count` transfers in the bulk and returns a ticket. Waits if no channel has room.
    pub const SUBMIT: u32 = 1;
    /// Reopens the caller's broken `session` of `channel`.
    pub const REOPEN: u32 = 2;
    /// Ends all sessions of the caller's kernel, whatever is in progress, and opens new ones.
    pub const ABANDON: u32 = 3;
    /// Outcomes were read, so callers that wait for room may find some.
    pub const ROOM: u32 = 4;
    /// Announces `count` descriptors that were never written, as a damaged kernel might.
    pub const DAMAGE: u32 = 5;
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Request {
    pub kind: u32,
    /// Number of transfers.
    pub count: u32,
    /// Index of the channel.
    pub channel: u64,
    pub session: u64,
}

impl Request {
    /// Creates a request without other fields.
    pub const fn of(kind: u32) -> Request {
        Request { kind, count: 0, channel: 0, session: 0 }
    }

    /// Creates a [`kind::SUBMIT`] or [`kind::DAMAGE`].
    pub const fn counted(kind: u32, count: u32) -> Request {
        Request { count, ..Request::of(kind) }
    }

    /// Creates a [`kind::REOPEN`].
    pub const fn reopen(channel: usize, session: u64) -> Request {
        Request { channel: channel as u64, session, ..Request::of(kind::REOPEN) }
    }
}

/// Kinds of replies.
pub mod told {
    /// Done; no transfer was started.
    pub const DONE: u32 = 1;
    /// Started; the reply is a ticket.
    pub const STARTED: u32 = 2;
    /// No transfers, more than a batch, or fewer in the bulk than `count`.
    pub const COUNT: u32 = 3;
    /// Unknown kind, or there is no engine.
    pub const REFUSED: u32 = 4;
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Reply {
    pub kind: u32,
    /// Number of transfers of the ticket.
    pub count: u32,
    /// Index of the channel.
    pub channel: u64,
    /// Position of the first transfer, packed.
    pub first: u64,
    /// The engine's `completed` word of the channel before this session.
    pub before: u64,
}

impl Reply {
    /// Creates a reply without other fields.
    pub const fn of(kind: u32) -> Reply {
        Reply { kind, count: 0, channel: 0, first: 0, before: 0 }
    }
}

const _: () = assert!(BATCH <= u8::MAX as usize);
