//! What can be asked of the driver. Plain data: it may come from another kernel.

use crate::transfer::BATCH;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Kinds of [`Request`].
pub mod kind {
    /// Starts the `count` transfers in bulk; answers a ticket. Waits while there is no room.
    pub const SUBMIT: u32 = 1;
    /// `session` of `channel`, which is the asker's, is broken: the next one.
    pub const REOPEN: u32 = 2;
    /// All sessions of the asker's kernel are over, whatever is under way: the next ones.
    pub const ABANDON: u32 = 3;
    /// Outcomes were read: who waits for room may find some.
    pub const ROOM: u32 = 4;
    /// Announces `count` descriptors that were never written, as a damaged kernel would.
    pub const DAMAGE: u32 = 5;
}

/// What is asked.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Request {
    /// One of [`kind`].
    pub kind: u32,
    /// Transfers.
    pub count: u32,
    /// The engine's number of it.
    pub channel: u64,
    /// `abi::dma::Position`, packed.
    pub session: u64,
}

impl Request {
    /// Of a kind that says all.
    pub const fn of(kind: u32) -> Request {
        Request { kind, count: 0, channel: 0, session: 0 }
    }

    /// [`kind::SUBMIT`] or [`kind::DAMAGE`].
    pub const fn counted(kind: u32, count: u32) -> Request {
        Request { count, ..Request::of(kind) }
    }

    /// [`kind::REOPEN`].
    pub const fn reopen(channel: usize, session: u64) -> Request {
        Request { channel: channel as u64, session, ..Request::of(kind::REOPEN) }
    }
}

/// Kinds of [`Reply`].
pub mod told {
    /// It was done; nothing is under way for it.
    pub const DONE: u32 = 1;
    /// Under way: a ticket.
    pub const STARTED: u32 = 2;
    /// No transfer, more than a batch, or fewer in bulk than said.
    pub const COUNT: u32 = 3;
    /// Nothing of that kind is done here, or there is no engine.
    pub const REFUSED: u32 = 4;
}

/// What is answered.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Reply {
    /// One of [`told`].
    pub kind: u32,
    /// Transfers of the ticket.
    pub count: u32,
    /// The engine's number of the channel.
    pub channel: u64,
    /// Place of the first transfer, packed.
    pub first: u64,
    /// What the engine said of the channel before this session, packed.
    pub before: u64,
}

impl Reply {
    /// Of a kind that says all.
    pub const fn of(kind: u32) -> Reply {
        Reply { kind, count: 0, channel: 0, first: 0, before: 0 }
    }
}

const _: () = assert!(BATCH <= u8::MAX as usize);
