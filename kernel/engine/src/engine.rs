//! The wasmtime runtime: its settings and the functions that programs can import.

use crate::guest::Guest;
use crate::imports;
use crate::inside::Inside;
use crate::platform::Platform;
use crate::region::Memories;
use crate::settings;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use wasmtime::Linker;

/// Reason why the runtime could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError(pub String);

/// The wasmtime runtime of a kernel.
pub struct Engine<G: Guest> {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<Inside<G>>,
    pub(crate) memories: Arc<Memories>,
    pub(crate) platform: Platform,
}

impl<G: Guest> Engine<G> {
    /// Makes a runtime for code of `isa`, this kernel's own.
    pub fn new(isa: u32, platform: Platform) -> Result<Engine<G>, EngineError> {
        let failed = |why: wasmtime::Error| EngineError(why.to_string());
        let memories = Arc::new(Memories::new(platform));
        let config = settings::config(isa, platform, memories.clone());
        let wasmtime = wasmtime::Engine::new(&config).map_err(failed)?;
        let mut linker = Linker::new(&wasmtime);
        imports::define(&mut linker).map_err(failed)?;
        Ok(Engine { wasmtime, linker, memories, platform })
    }
}
