//! Device drivers, written once: virtio over shared memory and doorbells.
//!
//! Registers cannot trap on this chip and caches do not agree, so a device is words in the uncached
//! window plus a doorbell in each direction. Drivers are state machines over `base::port::Words`:
//! they hold offsets, never pointers, allocate nothing ([`streams`], no driver, has buffers) and
//! wait for nothing except the transport's set-up handshake, through `base::port::Attend`.
//!
//! Interrupts are edges, wired to every domain and latched at a hand-over: a handler looks at
//! memory and counts completions, never interrupts.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod block;
pub mod console;
pub mod queue;
pub mod rng;
pub mod streams;
pub mod transport;
pub mod vsock;

#[cfg(test)]
mod fake;
