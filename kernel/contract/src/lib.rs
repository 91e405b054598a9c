//! Contracts of channels, in the form that kernels check: which message may follow which.
//!
//! A contract is an automaton. In each state at most one side may send, and a message leads to the
//! next state. [`Automaton::parse`] reads the bytes that the crate `contract` makes of a contract's
//! file, and verifies everything on which a kernel relies, so its input may be hostile.
//! [`Automaton::permits`] checks a message where it is sent, in constant time. A [`Conversation`]
//! is the state of a channel with both views; tests use it.
//!
//! ```text
//!   offset  bytes
//!   0       4       magic "PnCt"
//!   4       2       version of this format
//!   6       1, 1    number of states (S), number of messages (M)
//!   8       1, 1    start state, level (0 to 7)
//!   10      2       number of carried endpoints of all messages (E)
//!   12      4       length of the whole
//!   16      16      digest of all names and fields, which the tables below do not contain
//!   32      2 S     states: side that may send (0 client, 1 server, 2 none: an end state),
//!                   1 if that side may close the channel instead
//!           12 M    messages: side that sends it, number of carried endpoints, inline bytes (2),
//!                   maximum bytes of the block (4; 0: no block), first carried endpoint (2), 0 (2)
//!           20 E    carried endpoints: hash of the contract (16), side, 0 (3)
//!           S M     next state for each state and message; 255: not allowed
//! ```
//! All numbers are little-endian. An automaton has exactly one encoding, and the first 16 bytes of
//! that encoding's BLAKE3 are the [`struct@Hash`] that names the contract.
//!
//! The level is one more than the highest level of a carried endpoint's contract, 0 if there is
//! none. [`Automaton::parse`] knows only the hashes of these contracts, so a level may be wrong. A
//! kernel must refuse to send an endpoint whose channel is not of a lower level than the channel
//! that carries it; then no end is ever in its own queue, directly or through other ends.
//!
//! [`exchange`] has the types with which a process and its kernel's channels talk.
//!
//! This crate has no channels and no queues, and does not know a contract's names.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod automaton;
mod block;
mod bounds;
mod conversation;
pub mod exchange;
mod parcel;
mod tables;
mod types;

pub use automaton::Automaton;
pub use block::{Block, Lent, PAGE, Passed, Shared};
pub use conversation::Conversation;
pub use parcel::{Breach, Parcel};
pub use tables::{Shape, Tables, Turn};
pub use types::{Bound, Carried, Hash, Invalid, Message, Side, State};

/// The first bytes of an automaton.
pub const MAGIC: [u8; 4] = *b"PnCt";
/// Version of the format.
pub const VERSION: u16 = 1;
/// Maximum number of states.
pub const STATES: usize = 64;
/// Maximum number of messages.
pub const MESSAGES: usize = 64;
/// Maximum number of inline bytes of a message.
pub const INLINE: usize = 2048;
/// Maximum number of bytes of a block.
pub const BLOCK: usize = 16 << 20;
/// Maximum number of endpoints that a message carries.
pub const ENDPOINTS: usize = 2;
/// Maximum level of a contract.
pub const MAX_LEVEL: u8 = 7;
/// Maximum length of an automaton in bytes.
pub const BYTES: usize = HEAD
    + STATE * STATES
    + MESSAGE * MESSAGES
    + ENDPOINT * ENDPOINTS * MESSAGES
    + STATES * MESSAGES;

/// Length of the head, and of the entries of each table.
const HEAD: usize = 32;
const STATE: usize = 2;
const MESSAGE: usize = 12;
const ENDPOINT: usize = 20;
/// The side of an end state.
const NO_SIDE: u8 = 2;
/// In place of a next state: the message is not allowed.
const NONE: u8 = u8::MAX;

const _: () = assert!(STATES < NONE as usize && BYTES <= 8 << 10);
