//! The tree that `pen` works on, and what `pen` says and hears while it works.
//!
//! - [`place`]  paths: the tree, the build output, the toolchain
//! - [`progress`]  lines that tell a person what takes time
//! - [`interrupt`]  the signals that end `pen`
//! - [`counted`]  what a test has done
//!
//! Contract: nothing here knows of boards, kernels or programs. All other crates of `pen` import
//! this one.

pub mod counted;
pub mod interrupt;
pub mod place;
pub mod progress;
