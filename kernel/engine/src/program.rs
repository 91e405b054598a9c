//! Loaded code, which any number of processes of this kernel can run.

use crate::engine::Engine;
use crate::guest::Guest;
use crate::inside::Inside;
use crate::moving;
use crate::raw::{self, Loaded, Memory, Seal};
use crate::slots;
use abi::program::{LIGHT_SPAWN, MAX_TABLES, MODULE, THREADS, engine as abi_engine};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;
use kernel_seal::{Image, Refused};
use wasmtime::error::OutOfMemory;
use wasmtime::{Instance, InstancePre, MemoryType, Module, Store};

/// Reason why an image cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The image is not sealed for this board.
    Seal(Refused),
    /// Out of memory.
    NoMemory,
    /// wasmtime refuses it, with this message.
    Refused(String),
    /// It imports an unknown function, `module.name`.
    Import(String),
    /// It exports no `_start`.
    NoStart,
}

const NO_WAY_OUT: &str = "its last function is not the one that stops it: `pen install` adds that";

/// A program. Shared by the processes that run it, and freed with the last of them.
pub struct Program<G: Guest> {
    ready: InstancePre<Inside<G>>,
    /// The type of the memory that its threads share; `None`: it has one thread.
    shared: Option<MemoryType>,
    /// It may start light threads.
    is_light: bool,
    /// It can move to another kernel while it runs.
    is_movable: bool,
    functions: Functions,
    /// Offsets in its contexts of the addresses of functions that are called directly.
    pub(crate) slots: [Option<u32>; slots::COUNT],
    /// The code to which the fields above refer; dropped last.
    loaded: Loaded,
}

/// Addresses of a module's functions: in practice one range, but wasmtime does not promise that.
/// The trampolines into and out of them are elsewhere.
struct Functions {
    pieces: Vec<Range<u64>>,
    /// The last function, added by the installer, which traps at once. A module without functions
    /// of its own does not have it.
    way_out: Option<u64>,
}

impl Functions {
    /// The gap between two functions of one range is smaller than this; other code between them is
    /// larger.
    const NEAR: u64 = 16;

    /// Fails if the module has functions, and the last one is not such a function.
    fn of(module: &Module) -> Result<Functions, LoadError> {
        let text = module.text().as_ptr() as u64;
        let mut functions = Functions { pieces: Vec::new(), way_out: None };
        let mut last = None;
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
            last = module.text().get(function.offset..function.offset + function.len);
        }
        match functions.way_out.is_none() || last == Some(abi_engine::trap_at_once(arch::cpu::ISA))
        {
            true => Ok(functions),
            false => Err(LoadError::Refused(NO_WAY_OUT.to_string())),
        }
    }
}

/// Refuses a module that could not be instantiated.
fn check(module: &Module) -> Result<(), LoadError> {
    let needs = module.resources_required();
    if needs.num_memories > 1 {
        let count = needs.num_memories;
        let what = alloc::format!("it has {count} memories, and a program has one");
        return Err(LoadError::Refused(what));
    }
    if needs.num_tables > MAX_TABLES {
        let count = needs.num_tables;
        let what = alloc::format!("it has {count} tables, and a program has {MAX_TABLES} at most");
        return Err(LoadError::Refused(what));
    }
    match module.get_export_index("_start") {
        Some(_) => Ok(()),
        None => Err(LoadError::NoStart),
    }
}

/// Returns the type of the memory of a module with threads, which imports what the installer puts
/// in place of instructions, and exports its memory.
fn shared_memory(module: &Module) -> Result<Option<MemoryType>, LoadError> {
    if !module.imports().any(|import| import.module() == THREADS) {
        return Ok(None);
    }
    match module.get_export("memory").and_then(|kind| kind.memory().cloned()) {
        Some(memory) => Ok(Some(memory)),
        None => Err(LoadError::Refused("it does not export its memory".to_string())),
    }
}

impl<G: Guest> Program<G> {
    /// Loads the image in `memory` if it has this seal. Its code is executed in place, not copied.
    /// Also returns the result of `read`, which is called with the image.
    pub fn load<R>(
        engine: &Engine<G>,
        memory: Box<dyn Memory>,
        seal: Seal<'_>,
        read: impl FnOnce(&Image<'_>) -> R,
    ) -> Result<(Program<G>, R), LoadError> {
        let refused = |why: wasmtime::Error| match why.downcast_ref::<OutOfMemory>() {
            Some(_) => LoadError::NoMemory,
            None => LoadError::Refused(why.to_string()),
        };
        let loaded = raw::load(&engine.wasmtime, memory, seal, read).map_err(LoadError::Seal)?;
        let (loaded, found) = loaded.map_err(refused)?;
        let module = &loaded.module;
        check(module)?;
        let ready = engine.linker.instantiate_pre(module);
        let ready = ready.map_err(|why| LoadError::Import(why.to_string()))?;
        let shared = shared_memory(module)?;
        let names = (MODULE, LIGHT_SPAWN);
        let is_light = module.imports().any(|import| (import.module(), import.name()) == names);
        let is_movable = shared.is_none() && moving::is_movable(module);
        let functions = Functions::of(module)?;
        let slots = slots::slots_of(module);
        Ok((Program { ready, shared, is_light, is_movable, functions, slots, loaded }, found))
    }

    /// Returns the type of the memory that its threads share; `None`: it has one thread.
    pub(crate) fn shared_memory(&self) -> Option<&MemoryType> {
        self.shared.as_ref()
    }

    /// Returns whether it can move to another kernel while it runs.
    pub fn is_movable(&self) -> bool {
        self.is_movable
    }

    /// Returns whether it has threads and may start light ones.
    pub fn is_light(&self) -> bool {
        self.is_light && self.shared.is_some()
    }

    /// Makes an instance. The region that the store holds, if any, becomes its memory.
    pub(crate) fn instantiate(
        &self,
        engine: &Engine<G>,
        store: &mut Store<Inside<G>>,
    ) -> wasmtime::Result<Instance> {
        match store.data().region.clone() {
            None => self.ready.instantiate(store),
            Some(region) => engine.memories.view(&region, || self.ready.instantiate(store)),
        }
    }

    pub(crate) fn module(&self) -> &Module {
        &self.loaded.module
    }

    /// Returns whether `address` is in its code.
    pub fn holds(&self, address: u64) -> bool {
        let text = self.module().text().as_ptr_range();
        (text.start as u64..text.end as u64).contains(&address)
    }

    /// Returns the address to which a process that must end is redirected: a function that traps at
    /// once. This is possible from any instruction of a function, since each might trap, and on
    /// return to it from anything that it called; not from trampolines (`None`). May be called in
    /// any context.
    pub fn way_out(&self, address: u64) -> Option<u64> {
        let within = self.functions.pieces.iter().any(|piece| piece.contains(&address));
        self.functions.way_out.filter(|_| within)
    }

    /// Returns the function at an address of its code (name or number) and the offset in it.
    pub fn name_at(&self, address: u64) -> Option<(String, u64)> {
        let offset = address.checked_sub(self.module().text().as_ptr() as u64)? as usize;
        let within = |f: &wasmtime::ModuleFunction| (f.offset..f.offset + f.len).contains(&offset);
        let found = self.module().functions().find(within)?;
        let name =
            found.name.unwrap_or_else(|| alloc::format!("function {}", found.index.as_u32()));
        Some((name, (offset - found.offset) as u64))
    }
}
