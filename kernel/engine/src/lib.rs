//! The interface to wasmtime: runs code that the installer compiled. No other crate of the kernel
//! names wasmtime. `docs/design/programs.md` describes the design.
//!
//! - `settings`: options on which the compiler on the host and the runtime here must agree
//! - `engine`: the wasmtime runtime
//! - `program`: loaded code, and the names of its functions
//! - `run`: a program from its first instruction to its end
//! - `guest`: a process's connection to its kernel
//! - `inside`: the data of a program's store, and its limits
//! - `imports`: the functions that programs call; `threads`: those of programs with threads
//! - `moving`: programs that move to another kernel while they run; `unwound`: what they are then
//! - `pause`: what each of these functions does first
//! - `region`: memories, of one instance or of all threads of a program
//! - `context`: what compiled code finds in its instance
//! - `stopped`: the end of a program, on its way through wasmtime
//! - `platform`: what all this needs of the kernel
//! - `short`: calls without wasmtime in between; `slots` says where their addresses are
//! - `raw`: trusting authenticated code
//!
//! wasmtime gets what else it needs of its platform (faults, thread-local words, locks) from
//! functions in `kernel/programs/src/programs/seam.rs`, by symbol name.
#![no_std]

extern crate alloc;

mod context;
mod engine;
mod guest;
mod imports;
mod inside;
mod moving;
mod pause;
mod platform;
mod program;
mod raw;
mod region;
mod run;
mod settings;
mod short;
mod slots;
mod stopped;
mod threads;
mod unwound;

pub use engine::{Engine, EngineError};
pub use guest::{Guest, Waited};
pub use inside::Limits;
pub use platform::Platform;
pub use program::{LoadError, Program};
pub use raw::{Memory, Seal};
pub use region::{Lent, Region, Start};
pub use run::{End, Ran};
pub use unwound::{Area, Arrival, Unwound};
