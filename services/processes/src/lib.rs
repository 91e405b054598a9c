//! The process table: one over all kernels. The concept is in `docs/design/processes.md`, the
//! requests are in `abi::process`.
//!
//! - [`record`]   what is known of a process, and how numbers are given
//! - [`service`]  the state, and its steps
//! - `begin`, `wait`, `kill`, `look`  the operations
//! - `end`        what follows from an end: of a process, of who waits, of a kernel
//! - [`name`]     a process's name, from its beginning
//! - [`client`]   requests as functions
//!
//! The table runs nothing and stops nothing: kernels ask it what there is to do (`Next`), and tell
//! it what became of that. Its state lies in memory that kernels of different ISAs share: it holds
//! collections of `alloc` and numbers, no reference, no function, no `dyn`, no default hasher.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod begin;
pub mod client;
mod end;
mod kill;
mod look;
pub mod name;
pub mod record;
pub mod service;
mod wait;

pub use service::Processes;
