//! What a WASI program asks Penumbra beyond WASI: other processes, pipes, second descriptors.
//!
//! - [`Command`]  begins a program: path, arguments, environment, files, preopens, kernel, group
//! - [`Child`]    waits for it, ends it; [`Ended`] says how it went
//! - [`process`]  who the caller is, which processes there are, signals, groups
//! - [`File`]     a descriptor that is closed when it goes: pipes, duplicates, paths, readiness
//! - [`layout`]   what crosses into the system, byte for byte
//!
//! ```ignore
//! let child = penumbra::Command::new("/bin/ls").arg("-l").spawn()?;
//! let ended = child.wait()?;
//! ```
//!
//! Needs `alloc` and no `std`. On a host it compiles, and each call answers [`Errno::NOSYS`].
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod command;
mod errno;
#[allow(unsafe_code, reason = "the calls of the system; the one home of unsafe")]
mod ffi;
mod file;
pub mod layout;
pub mod process;
pub mod ready;

pub use command::Command;
pub use errno::Errno;
pub use file::{File, Keys, Kind, Open, Stat, preopens};
pub use process::{Child, End, Ended, Identity, Process, State, Trap};
