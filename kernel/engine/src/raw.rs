//! Turns machine code from a file into functions.
#![allow(unsafe_code)]

use kernel_seal::Image;
use wasmtime::{Engine, Module};

/// Loads the code of an authenticated image.
pub fn load(engine: &Engine, image: &Image<'_>) -> wasmtime::Result<Module> {
    // SAFETY: only `kernel_seal::check` makes an `Image`, and its contents cannot change: these
    // bytes were compiled by wasmtime's own compiler, in an installer that had this board's key.
    unsafe { Module::deserialize(engine, image.code) }
}
