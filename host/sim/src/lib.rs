//! N kernels of the protocol crates in one process, from one seed; and litmus files.
//!
//! - [`memory`]   what weakly ordered domains see of shared words
//! - [`machine`]  runs protocol code over it, interrupted at any access
//! - [`place`]    where the simulated window holds what; the barriers that can be left out
//! - [`kernel`]   a simulated kernel: threads, handlers, pool, one core that attends
//! - [`op`]       what it can do in one go
//! - `world`      the chip around the kernels, and what counts as right
//! - [`payload`]  payloads that show whether they are whole
//! - [`explore`]  one step of an operation, for model checkers
//! - [`dsm`]      the same for the DSM protocol, with pages and their values
//! - [`litmus`]   small programs, executed in every allowed order

mod actor;
pub mod dsm;
pub mod explore;
pub mod kernel;
pub mod litmus;
pub mod machine;
pub mod memory;
pub mod op;
pub mod payload;
pub mod place;
pub mod tally;
mod trace;
mod world;

pub use place::Break;
pub use world::{Failure, Tally, simulate};
