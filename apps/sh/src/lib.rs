//! The shell, without I/O of its own: it reads text, and asks a [`System`] for the rest.
//!
//! ```text
//!   text -> lex, parse -> ast -> exec -> System: files, pipes, processes
//!                                 |
//!                           expand, glob, builtin
//! ```
//!
//! - [`Shell`]  carries out texts
//! - [`System`] what it needs: Penumbra's is `wasi`, a made-up one is in `tests`
//! - [`edit`]   the line that is being typed: bytes in, what the terminal shows out
//!
//! There is no `fork` on Penumbra. A subshell runs in this shell, with its state put back behind
//! it; what must run beside it is text for a second shell (`exec/child.rs`).

mod arith;
mod ast;
mod builtin;
pub mod complete;
pub mod edit;
mod error;
mod escape;
mod exec;
mod expand;
pub mod full;
mod glob;
mod history;
mod jobs;
mod lex;
mod parse;
mod path;
mod pattern;
mod print;
mod shell;
mod system;
mod vars;
#[cfg(target_os = "wasi")]
pub mod wasi;

pub use history::History;
pub use shell::Shell;
pub use system::{Program, Stat, System};
