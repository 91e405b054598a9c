//! The shell without I/O: it parses text, and requests everything else from a [`System`].
//!
//! ```text
//!   text -> lex, parse -> ast -> exec -> System: files, pipes, processes
//!                                 |
//!                           expand, glob, builtin
//! ```
//!
//! - [`Shell`]  runs texts
//! - [`System`] what it needs: `wasi` implements it for Penumbra, `tests` with a simulated one
//! - [`edit`]   the line editor: key bytes in, terminal output out
//!
//! Penumbra has no `fork`. A subshell runs in this shell, which restores its state afterwards; a
//! command that must run concurrently becomes text for a second shell (`exec/child.rs`).

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
