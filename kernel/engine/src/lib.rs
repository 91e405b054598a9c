//! The interface to wasmtime: runs code that the installer compiled. No other crate of the kernel
//! names wasmtime. `docs/design/programs.md` describes the design.
//!
//! - `settings`: options on which the compiler on the host and the runtime here must agree
//! - `program`: loaded code, and the names of its functions
//! - `run`: a program from its first instruction to its end
//! - `imports`: the functions that programs call
//! - `short`: the clock, without wasmtime in between
//! - `raw`: trusting authenticated code
//!
//! wasmtime gets what it needs from its platform (memory, faults, thread-local words, locks) from
//! functions in `kernel/programs/src/programs/seam.rs`, by symbol name.
#![no_std]

extern crate alloc;

mod imports;
mod program;
mod raw;
mod run;
mod settings;
mod short;

pub use program::{LoadError, Program};
pub use raw::{Memory, Publish, Seal};
pub use run::{End, Engine, EngineError, Guest, Limits, Ran};
