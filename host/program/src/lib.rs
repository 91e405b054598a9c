//! Programs on the host: what a manifest says, and the sealed image that a board is given.
//!
//! [`Manifest`] is the file beside a program that says what it may do; [`seal`] makes the image of
//! it and of the code for one ISA, [`open`] reads one back, with the very check that kernels make
//! (`kernel-seal`). The manual is `docs/design/programs.md`.
//!
//! This crate compiles nothing and talks to no board.

mod error;
mod fields;
mod image;
mod manifest;

pub use error::{ManifestError, Reason};
pub use image::{Opened, open, seal};
pub use kernel_seal::{KEY, Refused};
pub use manifest::{Class, Endpoint, Manifest, Preopen, Signals};

/// BLAKE3 of a .wasm, as images carry it.
pub fn source_hash(wasm: &[u8]) -> [u8; 32] {
    *blake3::hash(wasm).as_bytes()
}

/// Under which name the code is kept that `maker` makes of `wasm` for `isa`. Another engine, other
/// settings or another layout of images give another name.
pub fn cache_name(wasm: &[u8], isa: &str, maker: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    let version = abi::program::IMAGE_VERSION;
    let engine = abi::program::engine::VERSION;
    hasher.update(format!("{engine} {version} {isa} {maker}\0").as_bytes());
    hasher.update(wasm);
    hasher.finalize().to_hex().to_string()
}
