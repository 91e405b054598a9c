//! The network service against a model, hostile requests, and the tokens of two kernels.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod hostile;
mod limits;
mod model;
mod parking;
