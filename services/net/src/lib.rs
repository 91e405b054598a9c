//! The network service: UDP and TCP sockets over a loopback device, on smoltcp. The concept is in
//! `docs/design/net.md`, the requests are in `abi::net`.
//!
//! - [`device`]   the loopback device
//! - [`stack`]    smoltcp, its sockets, and packets moved until nothing moves
//! - [`sockets`]  what a handle leads to, and whose it is
//! - [`service`]  the service: requests, who waits; `operations` one by one
//! - [`client`]   requests as functions
//! - [`check`]    its self-test, over any carrier of requests
//!
//! The state lies in memory that kernels of different ISAs share (`docs/design/shadowable.md`).
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod check;
pub mod client;
pub mod device;
mod operations;
pub mod service;
pub mod sockets;
pub mod stack;

pub use service::Net;
