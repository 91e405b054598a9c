//! What a program may call: WASI preview 1 whole, and our own module ([`abi::program::MODULE`]).
//!
//! ```text
//!   program --import--> engine --memory, numbers--> Process::fd_write ... --> System (the kernel)
//!                                 descriptors, rights, strings                 files, processes,
//!                                                                              clocks, sleep
//! ```
//! Contract: pure code over one port, [`System`]. No thread, no global, nothing of the engine.
//! Every function gets the program's memory as bytes and its arguments as numbers, and whatever
//! they say is answered with an error number or done; nothing a program says panics. What ends the
//! program comes back as [`Stop`]. Numbers and layouts are in `docs/reference/abi.md`.
//!
//! - [`errno`]      error numbers, and how a function may end
//! - [`wasi`]       flags, rights and kinds of preview 1
//! - [`memory`]     the program's memory, bounds checked
//! - [`system`]     the port
//! - [`table`]      descriptors
//! - [`begin`]      what a process begins with, as bytes
//! - [`process`]    a process; the functions are its methods
//! - [`functions`]  the list of all, for an engine and for tests
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod begin;
mod children;
mod clocks;
mod data;
mod descriptors;
mod ending;
pub mod errno;
pub mod functions;
mod listing;
pub mod memory;
mod opening;
mod paths;
mod polling;
pub mod process;
mod strings;
pub mod system;
pub mod table;
mod transfer;
pub mod wasi;

pub use errno::{Done, Errno, Halt, Interrupted, Stop, outcome};
pub use functions::{FUNCTIONS, Function, call};
pub use process::{Installed, Process};
pub use system::{System, moved};
