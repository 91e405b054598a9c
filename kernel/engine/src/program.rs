//! Code that was loaded, ready to be run by any number of processes of this kernel.

use crate::imports::Inside;
use crate::raw;
use crate::run::{Engine, Guest};
use alloc::string::{String, ToString};
use kernel_seal::Image;
use wasmtime::{InstancePre, Module};

/// Why an image is no program here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// No memory for its code.
    NoMemory,
    /// The engine does not take it: what it says.
    Refused(String),
    /// It wants a function that there is not, as `module.name`.
    Import(String),
    /// It has nothing to start with.
    NoStart,
}

/// A program. Shared by whoever runs it, and gone with the last of them.
pub struct Program<G: Guest> {
    pub(crate) module: Module,
    pub(crate) ready: InstancePre<Inside<G>>,
}

impl<G: Guest> Program<G> {
    /// From an authenticated image.
    pub fn load(engine: &Engine<G>, image: &Image<'_>) -> Result<Program<G>, LoadError> {
        let module =
            raw::load(&engine.wasmtime, image).map_err(|why| match why
                .downcast_ref::<wasmtime::error::OutOfMemory>()
            {
                Some(_) => LoadError::NoMemory,
                None => LoadError::Refused(why.to_string()),
            })?;
        if module.get_export_index("_start").is_none() {
            return Err(LoadError::NoStart);
        }
        let ready = engine.linker.instantiate_pre(&module);
        let ready = ready.map_err(|why| LoadError::Import(why.to_string()))?;
        Ok(Program { module, ready })
    }

    /// Is it at an address of its code?
    pub fn holds(&self, address: u64) -> bool {
        let text = self.module.text().as_ptr_range();
        (text.start as u64..text.end as u64).contains(&address)
    }

    /// The function at an address of its code: its name, or its number, and how far in.
    pub fn name_at(&self, address: u64) -> Option<(String, u64)> {
        let offset = address.checked_sub(self.module.text().as_ptr() as u64)? as usize;
        let within = |f: &wasmtime::ModuleFunction| (f.offset..f.offset + f.len).contains(&offset);
        let found = self.module.functions().find(within)?;
        let name =
            found.name.unwrap_or_else(|| alloc::format!("function {}", found.index.as_u32()));
        Some((name, (offset - found.offset) as u64))
    }
}
