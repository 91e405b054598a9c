//! Rings and RPC between kernels: state machines over [`base::port::Words`], without I/O, statics,
//! allocation or `unsafe`. The concept is in `docs/design/messages.md`.
//!
//! - [`ring`]      one direction, one class: slots, producer and consumer words, sessions of epochs
//! - [`caller`]    our calls to one peer: reply slots, sequence numbers, what peer death does to
//!   them
//! - [`server`]    one peer's calls to us: requests in, replies out
//! - [`notify`]    when the doorbell must be rung, and how a core goes to sleep without missing it
//! - [`pace`]      when a waiting caller rings again, and when it gives up
//! - [`pool`]      policy of the handler threads of one core
//! - [`endpoint`]  all peers of one kernel bundled behind one `&mut`, for the simulator and
//!   one-lock users
//! - [`rpc`]       the words of all of these: classes, levels, errors
//!
//! # Who may run what at once
//! [`Caller`] and [`Server`] of a peer share no state: put each behind a lock of its own, so that a
//! call holds one lock for the copy of its request only. Both are leaf locks: **never wait (attend)
//! with one held**; a hook that serves urgent messages while waiting takes them with `try_lock` and
//! moves on when that fails, because it comes again. Whoever polls only once has to lock: the other
//! holder may have looked already. A handler runs outside both.
//! [`notify`] needs no lock. A [`pool::Pool`] belongs to its core.
#![cfg_attr(not(test), no_std)]

pub mod caller;
pub mod endpoint;
pub mod notify;
pub mod pace;
pub mod pool;
pub mod ring;
pub mod rpc;
pub mod server;

pub use caller::Caller;
pub use endpoint::{Endpoint, Event};
pub use rpc::{Busy, CallError, CallId, Class, Level, PeerFault, Refusal, ReplyTo, Wires};
pub use server::{Request, Server};
