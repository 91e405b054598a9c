//! The drivers of one kernel, around its [`kernel_node::Node`]: what services need to run.
//!
//! Contract: a driver receives the node, and other drivers that it uses, as arguments. Nothing here
//! makes a request to a service; the requests of peers are executed through the port
//! [`peers::Procedures`]. There are no statics.
//!
//! - [`Platform`]: the node with all drivers
//! - [`peers`]: messages to and from the other kernels
//! - [`coherence`]: shared pages
//! - [`devices`]: the devices that this kernel may use
//! - [`balloon`]: memory blocks
//! - [`channels`]: channels between programs
//! - [`watch`]: waiting for their messages without sleep
//! - [`twins`]: references into other kernels' images
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod balloon;
pub mod channels;
pub mod coherence;
pub mod devices;
pub mod peers;
mod platform;
pub mod twins;
pub mod watch;

pub use platform::Platform;
