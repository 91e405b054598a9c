//! The functions that programs may call: WASI preview 1 completely, and our own module
//! ([`abi::program::MODULE`]).
//!
//! ```text
//!   program --import--> engine --memory, numbers--> Process::fd_write ... --> System (the kernel)
//!                                 descriptors, rights, strings                 files, processes,
//!                                                                              clocks, sleep
//! ```
//! Pure code over one port, [`System`], without threads or globals and independent of the engine.
//! Each function takes the program's memory and its arguments as numbers. Whatever they
//! are, the function succeeds or returns an error number; nothing that a program passes can cause a
//! panic. A function that ends the program returns [`Stop`]. `docs/reference/abi.md` has numbers
//! and layouts.
//!
//! - [`errno`] - error numbers, and the results of functions
//! - [`wasi`] - flags, rights and file types of preview 1
//! - [`memory`] - bounds-checked access to the program's memory
//! - [`system`] - the port
//! - [`table`] - descriptors; [`object`]: what they refer to; [`saved`]: a process for another
//!   kernel
//! - `renewal` - preopened directories after a restart of the file service
//! - [`begin`] - encoding of the start data of a process
//! - [`reach`] - what a process may reach by sockets
//! - [`ends`] - its part for channels, and the contracts by which a process uses them; `plain`: the
//!   fast path of a call; `paged`: that of one with a block
//! - `channels` - channels; `receiving`: a message comes; `blocks`: blocks of messages
//! - `windows` - memory that two processes share; `sharing`: functions on it
//! - `transfer` - reads and writes of lists of buffers; `single`: the fast path for one
//! - [`process`] - a process; the functions are its methods
//! - [`functions`] - the list of all functions, for engines and tests
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod arguments;
pub mod authority;
pub mod begin;
mod blocks;
mod channels;
mod children;
pub mod clocks;
mod data;
mod descriptors;
mod ending;
pub mod ends;
pub mod errno;
pub mod functions;
mod listing;
pub mod memory;
pub mod object;
mod opening;
mod paged;
mod paths;
mod plain;
mod polling;
pub mod polls;
pub mod process;
pub mod reach;
mod receiving;
mod renewal;
pub mod saved;
mod sharing;
mod single;
mod sockets;
mod strings;
pub mod system;
pub mod table;
mod transfer;
pub mod wasi;
mod windows;

pub use authority::Authority;
pub use errno::{Done, Errno, Halt, Interrupted, Stop, outcome};
pub use functions::{FUNCTIONS, Function, call};
pub use memory::{Bytes, GuestMemory, SCRATCH, Scratch, SharedMemory};
pub use object::Object;
pub use process::{Installed, Process};
pub use system::{System, Wait, moved};
