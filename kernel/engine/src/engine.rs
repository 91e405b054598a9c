//! The wasmtime runtime: its settings and the functions that programs can import.

use crate::guest::Guest;
use crate::imports;
use crate::inside::Inside;
use crate::raw::Publish;
use crate::settings;
use alloc::string::{String, ToString};
use wasmtime::Linker;

/// Reason why the runtime could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError(pub String);

/// The wasmtime runtime of a kernel.
pub struct Engine<G: Guest> {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<Inside<G>>,
}

impl<G: Guest> Engine<G> {
    /// Makes a runtime for code of `isa`, this kernel's own. `publish` makes such code executable.
    pub fn new(isa: u32, publish: Publish) -> Result<Engine<G>, EngineError> {
        let failed = |why: wasmtime::Error| EngineError(why.to_string());
        let wasmtime = wasmtime::Engine::new(&settings::config(isa, publish)).map_err(failed)?;
        let mut linker = Linker::new(&wasmtime);
        imports::define(&mut linker).map_err(failed)?;
        Ok(Engine { wasmtime, linker })
    }
}
