//! The network service and the world outside: a simulated device and cable, and another stack at
//! the other end.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

/// Makes a test of each function, for each family.
macro_rules! for_both_families {
    ($($name:ident)*) => {
        mod v4 {
            $(#[test] fn $name() { super::$name(crate::hosts::V4); })*
        }
        mod v6 {
            $(#[test] fn $name() { super::$name(crate::hosts::V6); })*
        }
    };
}

mod basics;
mod deaths;
mod faults;
mod frames;
mod hostile;
mod hosts;
mod resets;
mod world;
