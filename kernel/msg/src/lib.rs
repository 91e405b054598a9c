//! Message rings and RPC between kernels: state machines over [`base::port::Words`], without I/O,
//! statics, allocation or `unsafe`. `docs/design/messages.md` describes the protocol.
//!
//! - [`ring`]: one direction and class: slots, producer and consumer words, sessions of epochs, and
//!   how the sender of a stream learns of room
//! - [`caller`]: our calls to a peer: reply slots, sequence numbers, effects of the peer's death
//! - [`server`]: a peer's calls to us: requests in, replies out
//! - [`notify`]: when a doorbell is needed, and how a core goes to sleep without missing a message
//! - [`retry`]: when a waiting caller rings again, and when it gives up
//! - [`pool`]: policy for the handler threads of a core
//! - [`endpoint`]: all peers of a kernel in one value, for the simulator and single-lock users
//! - [`rpc`]: shared vocabulary: classes, levels, errors
//!
//! # Locking
//! [`Caller`] and [`Server`] of a peer share no state. Give each its own lock, so that a call holds
//! one lock only while it copies its request. Both are leaf locks: **never wait (attend) while
//! holding one**. The hook that serves urgent messages while a core waits takes them with
//! `try_lock` and skips them on failure, because it will run again. Code that polls only once must
//! use `lock`: the other holder may already have polled. Handlers run outside both locks. A
//! core that executes messages of a stream holds a third lock while it receives and executes one.
//! [`notify`] needs no lock. A [`pool::Pool`] belongs to its core.
#![cfg_attr(not(test), no_std)]

pub mod caller;
pub mod endpoint;
pub mod notify;
pub mod pool;
pub mod retry;
pub mod ring;
pub mod rpc;
pub mod server;

pub use caller::Caller;
pub use endpoint::{Endpoint, Event};
pub use ring::Payload;
pub use rpc::{Busy, CallError, CallId, Class, Level, LinkPair, PeerFault, Refusal, ReplyTo};
pub use server::{Request, Server};
