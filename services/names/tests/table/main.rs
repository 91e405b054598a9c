//! Tests of the name service. The kernels are simulated here.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod deaths;
mod hostile;
mod life;
mod limits;
mod random;
mod watches;
