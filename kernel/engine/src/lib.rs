//! The seam to wasmtime: code that the installer made runs here, and nowhere else is wasmtime
//! named. The concept is in `docs/design/programs.md`.
//!
//! - [`settings`]  what the compiler on the host and the runtime here must agree upon
//! - [`program`]   code that was loaded, and the names of its functions
//! - [`run`]       one program from its first instruction to its end
//! - [`imports`]   the functions that programs call
//! - `short`       the clock without wasmtime in between
//! - `raw`         trusting authenticated code
//!
//! What wasmtime wants of its platform (memory, faults, a thread's own words, locks) it gets from
//! the functions of `kernel/image/src/programs/seam.rs`, by name.
#![no_std]

extern crate alloc;

mod imports;
mod program;
mod raw;
mod run;
mod settings;
mod short;

pub use program::{LoadError, Program};
pub use run::{End, Engine, EngineError, Guest, Limits, Ran};
