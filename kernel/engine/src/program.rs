//! Code that was loaded, ready to be run by any number of processes of this kernel.

use crate::imports::Inside;
use crate::raw;
use crate::run::{Engine, Guest};
use crate::short;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;
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
    functions: Functions,
    /// Where its contexts have the address of the clock ([`short::clock_of`]).
    pub(crate) clock: Option<u32>,
}

/// Where the functions of a module lie: in one piece, but the engine does not promise that. What
/// leads into them and out of them lies elsewhere.
struct Functions {
    pieces: Vec<Range<u64>>,
    /// The last one, which the installer added: it traps at once. A module that has none of its own
    /// has not this one either.
    way_out: Option<u64>,
}

impl Functions {
    /// Less lies between two of them than any other code takes.
    const NEAR: u64 = 16;

    fn of(module: &Module) -> Functions {
        let text = module.text().as_ptr() as u64;
        let mut functions = Functions { pieces: Vec::new(), way_out: None };
        for function in module.functions() {
            let start = text + function.offset as u64;
            let end = start + function.len as u64;
            match functions.pieces.last_mut() {
                Some(piece) if (piece.end..piece.end + Self::NEAR).contains(&start) => {
                    piece.end = end;
                }
                _ => functions.pieces.push(start..end),
            }
            functions.way_out = Some(start);
        }
        functions
    }
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
        let functions = Functions::of(&module);
        let clock = short::clock_of(&module);
        Ok(Program { module, ready, functions, clock })
    }

    /// Is it at an address of its code?
    pub fn holds(&self, address: u64) -> bool {
        let text = self.module.text().as_ptr_range();
        (text.start as u64..text.end as u64).contains(&address)
    }

    /// Where a process goes on that is to end: at a function that traps at once. It can from any
    /// instruction of a function, since each might trap, and come back there from whatever that has
    /// called; not from code between programs and the engine. Any context.
    pub fn way_out(&self, address: u64) -> Option<u64> {
        let within = self.functions.pieces.iter().any(|piece| piece.contains(&address));
        self.functions.way_out.filter(|_| within)
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
