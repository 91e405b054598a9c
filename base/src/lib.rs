//! Identifiers, addresses, a random number generator, and the ports.
//!
//! A port is a trait for a service that a layer needs from below. Ports are declared here,
//! implemented by `arch` and `kernel/mem`, connected by `kernel/image`, and passed as parameters.
#![cfg_attr(not(test), no_std)]

pub mod addr;
pub mod bytes;
pub mod id;
pub mod port;
pub mod prng;
