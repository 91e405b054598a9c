//! Turns machine code from a file into functions.
#![allow(unsafe_code)]

use alloc::boxed::Box;
use core::ptr::NonNull;
use kernel_seal::{Image, Refused};
use wasmtime::{CustomCodeMemory, Engine, Module};

/// The file of an image in memory.
///
/// # Safety
/// [`bytes`](Self::bytes) returns the same memory each time, as long as this lives, wherever it is
/// moved to. Nobody writes to that memory.
pub unsafe trait Memory: Send + Sync {
    /// All of the file.
    fn bytes(&self) -> &[u8];
}

/// A module, and the memory that its code is in. Nothing refers to the code when this goes: who
/// runs a program borrows it.
pub struct Loaded {
    pub module: Module,
    /// Dropped behind the module.
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

/// Checks the image in `memory`, has it read by `read`, and uses its code where it is. The outer
/// error is the seal's, the inner one the engine's.
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

/// Makes code executable: where it begins, and its bytes; false if it cannot be.
pub type Publish = fn(usize, usize) -> bool;

/// The memory of modules, as wasmtime sees it.
pub struct CodeMemory {
    pub page: usize,
    pub publish: Publish,
}

impl CustomCodeMemory for CodeMemory {
    fn required_alignment(&self) -> usize {
        self.page
    }

    fn publish_executable(&self, start: *const u8, bytes: usize) -> wasmtime::Result<()> {
        let done = (self.publish)(start.addr(), bytes);
        if done { Ok(()) } else { Err(wasmtime::Error::msg("no memory for its code")) }
    }

    /// Its memory goes right behind it ([`Loaded`]).
    fn unpublish_executable(&self, _: *const u8, _: usize) -> wasmtime::Result<()> {
        Ok(())
    }
}
