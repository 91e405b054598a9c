//! Tests of the process table. The kernels are simulated here.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod deaths;
mod here;
mod hostile;
mod kills;
mod life;
mod moves;
mod quotas;
mod random;
mod waits;
