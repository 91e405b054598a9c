//! The file service: names, handles and pipes, and the file systems behind them. The concept is in
//! `docs/design/files.md`, the requests are in `abi::fs`.
//!
//! - [`filesystem`]  what a file system must do, and the enum of all there are
//! - [`ramfs`]       the one in memory
//! - [`ext2`]        the one on a device
//! - [`devfs`]       devices that are no hardware
//! - [`served`]      those that somebody else serves
//! - [`vfs`]         the service: handles, paths, mounts, pipes, who waits
//! - [`private`]     a pipe while one kernel has all of its ends
//! - [`client`]      requests as functions
//! - [`exercise`]    random operations from a seed, and a digest of what they did
//! - [`model`]       the same service once more, as simple as can be: what replies must be
//!
//! The state lies in memory that kernels of different ISAs share: it holds collections of `alloc`
//! and numbers, no reference, no function, no `dyn`, no default hasher.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod client;
pub mod devfs;
pub mod exercise;
pub mod ext2;
pub mod filesystem;
pub mod model;
pub mod private;
pub mod ramfs;
pub mod served;
pub mod vfs;

pub use vfs::Vfs;
