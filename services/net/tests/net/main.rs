//! Tests of the network service: a model, hostile requests, and callers in two kernels.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod about;
mod common;
mod families;
mod hostile;
mod limits;
mod model;
mod moves;
mod parking;
mod posix;
mod waits;
