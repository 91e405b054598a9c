//! The file service: paths, handles, pipes, terminals, and the file systems beneath them.
//! `docs/design/files.md` describes it; `abi::fs` defines the requests.
//!
//! - [`filesystem`]  the trait of a file system
//! - [`any`]         the enum of all file systems
//! - [`ramfs`]       the file system in memory
//! - [`ext2`]        the file system on a block device
//! - [`devfs`]       device files: `null`, `zero`, `random`, `console`
//! - [`served`]      file systems that a server implements
//! - [`vfs`]         the service: handles, paths, mounts, pipes, waiting callers
//! - [`private`]     a pipe whose ends are all in one kernel
//! - [`client`]      the requests as functions
//! - [`exercise`]    random operations from a seed, and a digest of their results
//! - [`model`]       a simple model of the service, which predicts its replies
//!
//! The state lies in memory shared by kernels of different ISAs, so it holds only numbers and
//! collections of `alloc`: no references, no function pointers, no `dyn`, no default hasher.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod any;
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
