//! Ids, addresses, units, bounded collections, prng; and the ports.
//!
//! A port is what a layer needs from below without naming who provides it. Ports are declared
//! here, implemented by arch and mem, plugged by image, and passed as parameters.
#![cfg_attr(not(test), no_std)]

pub mod addr;
pub mod bytes;
pub mod id;
pub mod port;
pub mod prng;
