//! The functions of `kernel_process` as wasmtime imports, each with its own type, so that wasmtime
//! calls them without a list of values.

use crate::run::{Guest, Limits, Stopped};
use abi::program::{MAX_TABLE_ENTRIES, MAX_TABLES};
use kernel_process::{Done, Process, System, for_each_function, outcome};
use wasmtime::{Caller, Error, Linker, Memory, ResourceLimiter, Result};

/// Data of a program's store.
pub struct Inside<G> {
    pub process: Process,
    pub guest: G,
    /// The program's memory, once a function has needed it.
    pub memory: Option<Memory>,
    pub limits: Limits,
    /// Bytes of its tables, which are in the kernel's heap.
    pub tables: u64,
}

/// Bytes of an entry of a table.
const ENTRY: u64 = 8;

impl<G: Guest> ResourceLimiter for Inside<G> {
    fn memory_growing(&mut self, _: usize, wanted: usize, _: Option<usize>) -> Result<bool> {
        let fits = wanted as u64 <= self.limits.memory.saturating_sub(self.tables);
        if fits {
            self.guest.has_memory(wanted as u64);
        }
        Ok(fits)
    }

    fn table_growing(&mut self, has: usize, wanted: usize, _: Option<usize>) -> Result<bool> {
        let more = (wanted as u64).saturating_sub(has as u64).saturating_mul(ENTRY);
        let tables = self.tables.saturating_add(more);
        let fits = tables <= (MAX_TABLE_ENTRIES * ENTRY).min(self.limits.memory)
            && self.guest.has_room(more);
        if fits {
            self.tables = tables;
        }
        Ok(fits)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        MAX_TABLES as usize
    }

    fn memories(&self) -> usize {
        1
    }
}

/// Runs `work` with the arguments of every function: process, memory, system.
#[inline]
fn within<G: Guest>(
    caller: &mut Caller<'_, Inside<G>>,
    work: impl FnOnce(&mut Process, &mut [u8], &mut dyn System) -> Done,
) -> Result<i32> {
    let memory = match caller.data().memory {
        Some(memory) => memory,
        None => find_memory(caller)?,
    };
    let (bytes, inside) = memory.data_and_store_mut(caller);
    match outcome(work(&mut inside.process, bytes, &mut inside.guest)) {
        Ok(number) => Ok(number.into()),
        Err(stop) => Err(Error::new(Stopped(stop))),
    }
}

#[cold]
fn find_memory<G: Guest>(caller: &mut Caller<'_, Inside<G>>) -> Result<Memory> {
    let found = caller.get_export("memory").and_then(|found| found.into_memory());
    let memory = found.ok_or_else(|| Error::msg("it exports no `memory`"))?;
    caller.data_mut().memory = Some(memory);
    Ok(memory)
}

macro_rules! module {
    (wasi) => {
        kernel_process::functions::WASI
    };
    (own) => {
        abi::program::MODULE
    };
}

macro_rules! word {
    (i32, $value:expr) => {
        $value as u32
    };
    (i64, $value:expr) => {
        $value as u64
    };
}

macro_rules! closure {
    ($name:ident($($arg:ident: $type:ident),*) -> i32) => {
        |mut caller: Caller<'_, Inside<G>>, $($arg: $type),*| {
            within(&mut caller, |process, memory, system| {
                process.$name(memory, system, $(word!($type, $arg)),*)
            })
        }
    };
    ($name:ident($($arg:ident: $type:ident),*)) => {
        |mut caller: Caller<'_, Inside<G>>, $($arg: $type),*| {
            let number = within(&mut caller, |process, memory, system| {
                process.$name(memory, system, $(word!($type, $arg)),*)
            });
            number.map(|_| ())
        }
    };
}

macro_rules! register {
    ([$linker:tt]
        $($module:ident $text:literal $name:ident $arguments:tt $(-> $result:ident)?;)*) => {
        $($linker.func_wrap(module!($module), $text, closure!($name $arguments $(-> $result)?))?;)*
    };
}

/// Defines all functions in `linker`.
pub fn define<G: Guest>(linker: &mut Linker<Inside<G>>) -> Result<()> {
    for_each_function!(register, linker);
    Ok(())
}
