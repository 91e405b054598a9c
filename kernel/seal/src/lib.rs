//! The sealed image of a program (`abi::program::ImageHead`): [`seal`] makes one on the host, and
//! [`check`] is everything a kernel verifies before it runs the image's code.
//!
//! ```text
//!   0        16      48                136                     a page        the end
//!   | magic,  | seal  | sizes, class,   | arguments, environment, | code for   |
//!   | version,|       | limits, source  | preopens, endpoints     | one ISA    |
//!   | isa     |       |                 |                         |            |
//!   +---------+       +-------------------------------------------------------+
//!        \_______________ keyed BLAKE3 of both pieces ______________/
//! ```
//! A kernel runs this code with its own rights. So an image is accepted only if `pen install` made
//! exactly these bytes for this board's key; without the key it is impossible to make one. Before
//! the seal is verified, nothing but the head's first words is used ([`Preferences::of`] reads
//! more, but its result only decides where a program runs).
//!
//! Both functions work on bytes in memory and know nothing of files.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod image;
mod strings;
#[cfg(test)]
mod tests;

pub use image::{Contents, Image, Preferences, Refused, check, seal};
pub use strings::{Endpoint, HASH, OWN_AFFINITY, Preopen, To, endpoints, preopens, strings};

/// Length of a board's program key in bytes.
pub const KEY: usize = 32;
