//! Channels between programs, on one kernel or on two: a state machine without I/O
//! (docs/design/channel-protocol.md).
//!
//! - [`Channels`]: all ends on one kernel, and what programs do with them
//! - [`message`]: what kernels say to each other; [`wire`]: the same as words
//! - [`name`]: how kernels and programs name an end
//! - [`Blocks`]: the blocks of messages
//! - [`Listed`]: the table for people
//!
//! Nothing waits, and nothing allocates after construction. Messages between two kernels arrive in
//! order and are not lost while both live; the transport drops those of an older epoch.
//!
//! Its driver is `kernel_platform::channels`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod arrive;
mod blocks;
mod bounds;
mod channels;
mod charge;
mod death;
mod end;
mod link;
mod listed;
pub mod message;
pub mod name;
mod news;
mod pairs;
mod peers;
mod permit;
mod poll;
#[cfg(test)]
#[path = "../tests/proof/mod.rs"]
mod proof;
mod quiet;
mod settled;
mod table;
pub mod wire;

pub use blocks::{BlockLimits, BlockName, BlockNotice, Blocks, Fate};
pub use bounds::{Bounds, CARRIED, MAX_LEVEL};
pub use channels::{
    About, BadEnd, Carried, Channels, Contract, CreateError, Effects, Limits, Outgoing,
    ReceiveError, Received, Refused, SendError,
};
pub use end::Place;
pub use listed::Listed;
pub use message::{Message, PeerFault};
pub use name::{ChannelName, ContractId, EndId, EndName, Life, Side};
pub use pairs::Paired;
pub use quiet::{Quiet, Taken};
pub use settled::{Arrival, Settled};
