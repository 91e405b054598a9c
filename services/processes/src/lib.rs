//! The process table, one for all kernels. `docs/design/processes.md` describes it; `abi::process`
//! defines the requests.
//!
//! - [`record`]   the record of a process, and the allocation of process numbers
//! - [`service`]  the state machine
//! - `begin`, `wait`, `kill`, `look`  the operations
//! - `end`        what follows when a process ends, a caller gives up or a kernel dies
//! - [`name`]     the name of a process, derived from its start data
//! - [`client`]   the requests as functions
//!
//! The table starts and stops no process itself. Kernels fetch their tasks from it (`Next`) and
//! report the results. The state lies in memory shared by kernels of different ISAs, so it holds
//! only numbers and collections of `alloc`: no references, no function pointers, no `dyn`, no
//! default hasher.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod begin;
pub mod client;
mod end;
mod kill;
mod look;
mod moves;
pub mod name;
pub mod record;
pub mod service;
mod wait;

pub use service::Processes;
