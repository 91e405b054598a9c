//! Turns machine code from a file into functions.
#![allow(unsafe_code)]

use alloc::boxed::Box;
use core::ptr::NonNull;
use kernel_seal::{Image, Refused};
use wasmtime::{CustomCodeMemory, Engine, Module};

/// The file of an image in memory.
///
/// # Safety
/// [`bytes`](Self::bytes) returns the same memory each time, as long as this lives, also after a
/// move. That memory is not written.
pub unsafe trait Memory: Send + Sync {
    /// All of the file.
    fn bytes(&self) -> &[u8];
}

/// A module, and the memory that contains its code. A running program borrows it, so nothing
/// refers to the code when it is dropped.
pub struct Loaded {
    pub module: Module,
    /// Dropped after the module.
    _memory: Box<dyn Memory>,
}

/// What an image must be sealed for.
#[derive(Clone, Copy)]
pub struct Seal<'a> {
    /// Its ISA: [`abi::boot::isa`].
    pub isa: u32,
    /// The board's program key.
    pub key: &'a [u8; kernel_seal::KEY],
}

/// Checks the image in `memory`, calls `read` with it, and makes a module of its code in place. The
/// outer error is the seal's, the inner one the engine's.
pub fn load<R>(
    engine: &Engine,
    memory: Box<dyn Memory>,
    seal: Seal<'_>,
    read: impl FnOnce(&Image<'_>) -> R,
) -> Result<wasmtime::Result<(Loaded, R)>, Refused> {
    let image = kernel_seal::check(memory.bytes(), seal.isa, seal.key)?;
    let found = read(&image);
    let code = NonNull::from(image.code);
    // SAFETY: only `kernel_seal::check` makes an `Image`: these bytes are what the installer of
    // this board's key made with wasmtime's own compiler. They stay there, and as they are, as
    // long as the module does: `Loaded` keeps `memory` longer, and `Memory` promises the rest.
    let module = unsafe { Module::deserialize_raw(engine, code) };
    Ok(module.map(|module| (Loaded { module, _memory: memory }, found)))
}

/// How wasmtime makes code executable that it did not allocate.
pub struct CodeMemory {
    pub page: usize,
    /// [`Platform::publish`](crate::Platform::publish)
    pub publish: fn(usize, usize) -> bool,
}

impl CustomCodeMemory for CodeMemory {
    fn required_alignment(&self) -> usize {
        self.page
    }

    fn publish_executable(&self, start: *const u8, bytes: usize) -> wasmtime::Result<()> {
        let done = (self.publish)(start.addr(), bytes);
        if done { Ok(()) } else { Err(wasmtime::Error::msg("no memory for its code")) }
    }

    /// [`Loaded`] frees the memory right after the module.
    fn unpublish_executable(&self, _: *const u8, _: usize) -> wasmtime::Result<()> {
        Ok(())
    }
}
