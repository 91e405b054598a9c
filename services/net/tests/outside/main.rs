//! The network service and the world outside: a simulated device and cable, and another stack at
//! the other end.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod basics;
mod deaths;
mod faults;
mod frames;
mod hostile;
mod world;
