//! Several kernels of the protocol crates in one process, from one seed; and litmus tests.
//!
//! - [`memory`]   shared words as weakly ordered domains see them
//! - [`machine`]  runs protocol code over it, interrupted at any access
//! - [`place`]    layout of the simulated window; the barriers that can be omitted
//! - [`kernel`]   a simulated kernel: threads, handlers, pool, a core that attends
//! - [`op`]       its operations
//! - `world`      the chip around the kernels, and the properties to check
//! - [`payload`]  payloads that reveal corruption
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
