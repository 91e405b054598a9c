//! Machine code from a file becomes functions.
#![allow(unsafe_code)]

use kernel_seal::Image;
use wasmtime::{Engine, Module};

/// The code of an image that was authenticated.
pub fn load(engine: &Engine, image: &Image<'_>) -> wasmtime::Result<Module> {
    // SAFETY: only `kernel_seal::check` makes an `Image`, whose contents nobody can change: these
    // bytes are what the installer of this board's key made with wasmtime's own compiler.
    unsafe { Module::deserialize(engine, image.code) }
}
