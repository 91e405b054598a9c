//! Device drivers, written once: virtio over shared memory and doorbells.
//!
//! On this chip registers cannot trap and caches are not coherent. So a device consists of words in
//! the uncached window, and a doorbell in each direction. Drivers are state machines over
//! `base::port::Words`. They hold offsets, never pointers, and allocate nothing ([`streams`], which
//! is not a driver, has buffers). They wait only for the set-up handshake of the transport, through
//! `base::port::Attend`.
//!
//! Interrupts are edges, wired to every domain and latched at a hand-over. So a handler looks at
//! memory and counts completions, never interrupts.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod block;
pub mod console;
pub mod queue;
pub mod request;
pub mod rng;
pub mod streams;
pub mod transport;
pub mod vsock;

#[cfg(test)]
mod fake;
