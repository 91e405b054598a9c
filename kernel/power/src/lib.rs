//! When a kernel rests, the steps to a rest and back, and which one serves the devices meanwhile:
//! state machines without I/O (docs/design/rest.md).
#![no_std]
#![forbid(unsafe_code)]

pub mod duty;
pub mod governor;
pub mod rest;

pub use governor::{Facts, Governor, Verdict};
pub use rest::{Outcome, Rest, Step};
