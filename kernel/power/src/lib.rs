//! When a kernel rests, the steps to a rest and back, which one serves the devices and keeps the
//! timers meanwhile, the energy that all of this takes, and how busy cores are: state machines
//! without I/O (docs/design/rest.md, docs/design/power.md).
#![no_std]
#![forbid(unsafe_code)]

pub mod duty;
pub mod governor;
pub mod meter;
pub mod rest;
pub mod timers;
pub mod usage;

pub use governor::{Facts, Governor, Verdict};
pub use meter::{Meter, Powers, Residency};
pub use rest::{Outcome, Rest, Step};
