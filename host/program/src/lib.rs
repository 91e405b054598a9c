//! Programs on the host: their manifests, and the sealed images for a board.
//!
//! [`Manifest`] is the file next to a program that says what it may do. [`seal`] creates the image
//! of the manifest and the code for one ISA; [`open`] decodes one, with the same check as kernels
//! (`kernel-seal`). The manual is `docs/design/programs.md`.
//!
//! This crate compiles no code and talks to no board.

mod error;
mod fields;
mod image;
mod manifest;
mod placement;

pub use error::{ManifestError, Reason};
pub use image::{Opened, open, seal};
pub use kernel_seal::{HASH, KEY, Refused};
pub use manifest::{Class, Limits, Manifest, Movable, Preopen, Signals};
pub use placement::{Affinity, Endpoint, Platforms, To};

/// Returns the BLAKE3 hash of a .wasm, as stored in images.
pub fn source_hash(wasm: &[u8]) -> [u8; 32] {
    *blake3::hash(wasm).as_bytes()
}

/// Returns the cache key of the code that `maker` compiles from `wasm` for `isa`. It changes with
/// the engine, its settings and the layout of images.
pub fn cache_name(wasm: &[u8], isa: &str, maker: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    let version = abi::program::IMAGE_VERSION;
    let engine = abi::program::engine::VERSION;
    hasher.update(format!("{engine} {version} {isa} {maker}\0").as_bytes());
    hasher.update(wasm);
    hasher.finalize().to_hex().to_string()
}
