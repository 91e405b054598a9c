//! Every layout that crosses a kernel, ISA, program or device boundary.
//!
//! Plain data only: `repr(C)`, fixed width, no `usize`, no pointer, no `bool`; sizes are asserted
//! at compile time. This crate imports nothing of ours and holds no behaviour beyond checking and
//! packing its own fields.
#![no_std]

pub mod boot;
pub mod channel;
mod codes;
pub mod dma;
pub mod dsm;
pub mod ethernet;
pub mod fs;
pub mod hang;
pub mod homes;
pub mod host;
pub mod light;
pub mod lock;
pub mod memory;
pub mod moves;
pub mod msg;
pub mod names;
pub mod net;
pub mod platform;
pub mod power;
pub mod process;
pub mod program;
pub mod quota;
pub mod reach;
pub mod served;
pub mod service;
pub mod soc;
pub mod vsock;
