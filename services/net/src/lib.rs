//! The network service: UDP and TCP sockets, on smoltcp over Ethernet, and over loopback.
//! `docs/design/net.md` describes it; `abi::net` defines the requests.
//!
//! - [`nic`]      the driver of the network device; [`addresses`]: what it says about the network;
//!   [`neighbours`]: the hosts on it; `discovery`: how they are found
//! - [`stack`]    the sockets of both sides; [`pairs`]: connections on loopback; [`budget`]: how
//!   many sockets, with how much memory
//! - [`ethernet`] smoltcp's interface to the outside; [`outside`]: the sockets there; `patience`:
//!   how long their connections wait
//! - [`sockets`]  handles and what they refer to; `owners`: their kernels; `readiness`: what they
//!   are ready for; [`listener`]: listening ports; [`inbox`]: received datagrams
//! - [`service`]  the state machine: requests and waiting callers; `operations`, `datagrams`,
//!   `about`: each request; `listing`: all sockets; `exchange`: frames
//! - [`client`]   the requests as functions
//! - [`check`]    the self-test, over any carrier of requests
//!
//! The state lies in memory shared by kernels of different ISAs (`docs/design/shadowable.md`).
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod about;
pub mod addresses;
pub mod budget;
pub mod check;
pub mod client;
mod datagrams;
mod discovery;
pub mod ethernet;
mod exchange;
pub mod inbox;
pub mod listener;
mod listing;
pub mod neighbours;
pub mod nic;
mod operations;
pub mod outside;
mod owners;
pub mod pairs;
mod patience;
mod readiness;
pub mod service;
pub mod sockets;
pub mod stack;

pub use service::Net;
