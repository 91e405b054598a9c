//! The name service: programs find the channels of other programs by name.
//! `docs/design/names.md` describes it; `abi::names` defines the requests.
//!
//! - [`service`]  the state machine
//! - [`table`]    the names, their limits, and the edition
//! - [`client`]   the requests as functions
//!
//! No message of a channel passes through it: it says to which kernel and door a name leads, and
//! the kernels connect the channel. The state lies in memory shared by kernels of different ISAs,
//! so it holds only numbers and collections of `alloc`.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod client;
pub mod service;
pub mod table;

pub use service::Names;
