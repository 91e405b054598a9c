//! The sealed image of a program (`abi::program::ImageHead`): [`seal`] makes one on the host,
//! [`check`] is all that a kernel asks of one before it lets its code run.
//!
//! ```text
//!   0        16      48                136                     a page        the end
//!   | magic,  | seal  | sizes, class,   | arguments, environment, | code of one |
//!   | version,|       | limits, source  | preopens, endpoints     | ISA         |
//!   | isa     |       |                 |                         |             |
//!   +---------+       +------------------------------------------------------- +
//!        \_______________ keyed BLAKE3 of both pieces ______________/
//! ```
//! A kernel runs this code with its own rights, so an image is either what `pen install` made for
//! this very start of the board, to the bit, or refused. Whoever has no key can make none; nothing
//! but the head's first words is believed before the seal was found right ([`class_of`] looks at
//! more, and only says where a program is to run).
//!
//! Both work on bytes in memory and know nothing of files.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod image;
mod strings;
#[cfg(test)]
mod tests;

pub use image::{Contents, Image, Refused, check, class_of, seal};
pub use strings::{Endpoint, Preopen, endpoints, preopens, strings};

/// Bytes of a board's program key.
pub const KEY: usize = 32;
