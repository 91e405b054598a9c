//! A SAT solver: formulas from DIMACS files, the crate batsat, and the contract by which programs
//! use the solver of another one.
//!
//! - [`dimacs`]: formulas as text
//! - [`solve`]: values that satisfy a formula
//! - [`solver_v1`]: the contract, as `./pen contract rust` prints it; a test of `host/contract`
//!   compares

pub mod dimacs;
pub mod solve;
#[rustfmt::skip]
pub mod solver_v1;
