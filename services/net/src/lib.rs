//! The network service: UDP and TCP sockets over a loopback device, on smoltcp.
//! `docs/design/net.md` describes it; `abi::net` defines the requests.
//!
//! - [`device`]   the loopback device
//! - [`stack`]    smoltcp's interface and sockets
//! - [`sockets`]  handles and what they refer to
//! - [`service`]  the state machine: requests and waiting callers; `operations`, `about`: each
//!   request
//! - [`client`]   the requests as functions
//! - [`check`]    the self-test, over any carrier of requests
//!
//! The state lies in memory shared by kernels of different ISAs (`docs/design/shadowable.md`).
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod about;
pub mod check;
pub mod client;
pub mod device;
mod operations;
pub mod service;
pub mod sockets;
pub mod stack;

pub use service::Net;
