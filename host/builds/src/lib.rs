//! Builds what a board executes: kernels and programs.
//!
//! ```text
//!   kernel/, arch/stub --kernels--> ELF --image--> staged image of a domain
//!   apps/, files       --apps-----> .wasm --compiler--> sealed image for each ISA
//! ```
//! - [`kernels`]  kernel and stub of each ISA
//! - [`image`]  ELF files: staged images, symbols
//! - [`apps`]  programs, from Rust, C, WebAssembly text or crates of others
//! - [`compiler`]  programs to sealed images, by a release of wasmtime or by our own compiler
//! - [`building`]  one build at a time
//!
//! Contract: a build happens only when its sources changed; no board is started.

pub mod apps;
pub mod building;
pub mod calls;
pub mod compiler;
pub mod image;
pub mod kernels;
