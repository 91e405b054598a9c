//! Light threads: threads of a process that run on the weak kernel, and only while no other thread
//! of the process runs on the strong one. State machines without I/O
//! (docs/design/light-threads.md).
//!
//! - [`gate`]: on the kernel with the normal threads, one for each process with light threads
//! - [`group`]: on the weak kernel, the light threads of one process
//! - [`message`]: what the two say to each other
#![no_std]
#![forbid(unsafe_code)]

pub mod gate;
pub mod group;
pub mod message;
pub mod sequence;
pub mod threads;

pub use gate::{Delays, End, Entry, Gate, Rest, Unexpected};
pub use group::{Group, Stop};
pub use message::{FromLight, Lights, Permission, Report, ToLight};
pub use sequence::Sequence;
pub use threads::Place;
