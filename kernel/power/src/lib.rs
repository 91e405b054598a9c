//! When a kernel rests, and the steps to a rest and back: state machines without I/O
//! (docs/design/rest.md).
#![no_std]
#![forbid(unsafe_code)]

pub mod governor;
pub mod rest;

pub use governor::{Facts, Governor, Verdict};
pub use rest::{Outcome, Rest, Step};
