//! An example to copy: a service that counts permits. A caller adds some, or takes one and waits
//! while there is none. The form of every service is in `docs/design/services.md`.
//!
//! ```text
//!   TAKE, some left --> one fewer, Done          TAKE, none left --> Parked
//!   ADD n           --> n more; every parked caller is woken, asks again, takes or parks again
//! ```
//! - [`Permits`] the state machine: no I/O, no waiting, nothing but its own memory
//! - [`Client`]  requests as functions, over any way to reach the service
//! - `tests/model.rs` compares it with a model, under random requests, deaths and cancellations
#![cfg_attr(not(test), no_std)]

mod client;

pub use client::{Ask, Client, Refusal};

use share::{Answer, Effects, Event, Parked, Service, Token};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most callers that may wait.
pub const WAITING: usize = 64;
/// Most permits.
pub const MOST: u64 = 1 << 32;

/// Kinds of [`Request`].
pub mod kind {
    /// Adds `count` permits; they become [`MOST`](crate::MOST) at most.
    pub const ADD: u64 = 1;
    /// Takes one; waits while there is none.
    pub const TAKE: u64 = 2;
    /// Says how many there are.
    pub const COUNT: u64 = 3;
}

/// A request. Plain data: it may come from another kernel, so every field can be anything.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Request {
    /// One of [`kind`].
    pub kind: u64,
    /// Permits, for [`kind::ADD`].
    pub count: u64,
}

/// Values of [`Reply::status`].
pub mod status {
    /// Done.
    pub const DONE: u64 = 0;
    /// There is no such request.
    pub const UNKNOWN: u64 = 1;
    /// Too many callers wait.
    pub const CROWDED: u64 = 2;
}

/// A reply.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Reply {
    /// One of [`status`].
    pub status: u64,
    /// Permits that are left.
    pub left: u64,
}

/// The state. It may lie in memory that kernels of two ISAs share: no reference, no function
/// pointer, no trait object (`docs/design/shadowable.md`).
pub struct Permits {
    left: u64,
    parked: Parked<()>,
}

impl Permits {
    fn reply(&self, status: u64) -> Answer<Reply> {
        Answer::Done(Reply { status, left: self.left })
    }

    fn asked(
        &mut self,
        token: Token,
        request: &Request,
        effects: &mut dyn Effects,
    ) -> Answer<Reply> {
        // A woken caller asks again and is no longer parked; another life of it never was.
        self.parked.forget(token);
        match request.kind {
            kind::ADD => {
                self.left = self.left.saturating_add(request.count).min(MOST);
                self.parked.wake((), effects);
                self.reply(status::DONE)
            }
            kind::TAKE if self.left > 0 => {
                self.left -= 1;
                self.reply(status::DONE)
            }
            kind::TAKE => match self.parked.park(token, ()) {
                Some(()) => Answer::Parked,
                None => self.reply(status::CROWDED),
            },
            kind::COUNT => self.reply(status::DONE),
            _ => self.reply(status::UNKNOWN),
        }
    }
}

impl Service for Permits {
    type Request = Request;
    type Reply = Reply;
    const NAME: &'static str = "permits";

    fn start(_lives: u32) -> Permits {
        Permits { left: 0, parked: Parked::new(WAITING) }
    }

    /// No request sends bulk, and no reply fills any.
    fn sent(_: &Request, _: usize) -> usize {
        0
    }

    fn filled(_: &Reply) -> usize {
        0
    }

    fn step(
        &mut self,
        _now: u64,
        event: Event<'_, Request>,
        effects: &mut dyn Effects,
    ) -> Answer<Reply> {
        match event {
            Event::Request { token, request, .. } | Event::Again { token, request, .. } => {
                return self.asked(token, request, effects);
            }
            Event::Cancel(token) => self.parked.forget(token),
            Event::Gone(kernel, epoch) => self.parked.gone(kernel, epoch),
            Event::Timer | Event::Device => {}
        }
        Answer::NoReply
    }
}
