//! What Penumbra offers a WASI program beyond WASI: processes, pipes, duplicated descriptors,
//! sockets, channels.
//!
//! - [`Command`]  starts a program: path, arguments, environment, files, preopens, kernel, group
//! - [`Child`]    waits for it or signals it; [`Ended`] is the result
//! - [`process`]  the caller's identity, the list of processes, signals, groups
//! - [`File`]     an owned descriptor: pipes, duplicates, paths, readiness
//! - [`net`]      sockets: streams and datagrams
//! - [`light`]    threads on the weak kernel
//! - [`channel`]  channels between programs, and what generated code of contracts needs
//! - [`versions!`] a function in two versions, with SIMD and without
//! - [`layout`]   layouts of the structures that are passed to the system
//!
//! ```ignore
//! let child = penumbra::Command::new("/bin/ls").arg("-l").spawn()?;
//! let ended = child.wait()?;
//! ```
//!
//! Needs `alloc`, not `std`. On a host it compiles, and each call returns [`Errno::NOSYS`].
#![cfg_attr(not(test), no_std)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod channel;
mod command;
mod errno;
#[allow(unsafe_code, reason = "the calls of the system; the one home of unsafe")]
mod ffi;
mod file;
pub mod layout;
pub mod light;
pub mod net;
pub mod process;
pub mod ready;
mod versions;

pub use command::Command;
pub use errno::Errno;
pub use file::{File, Keys, Kind, Open, Stat, preopens};
pub use process::{Child, End, Ended, Identity, Process, State, Trap};
