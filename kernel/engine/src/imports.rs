//! The functions of `kernel_process` as wasmtime imports, each with its own type, so that wasmtime
//! calls them without a list of values.

use crate::guest::Guest;
use crate::inside::Inside;
use crate::moving;
use crate::pause::pause;
use crate::stopped::Stopped;
use crate::threads;
use kernel_process::{Done, GuestMemory, Process, Stop, System, for_each_function, outcome};
use wasmtime::{Caller, Error, Linker, Memory, Result};

/// Runs `work` with the arguments of every function: process, memory, system.
#[inline]
fn within<G: Guest>(
    caller: &mut Caller<'_, Inside<G>>,
    work: impl Fn(&Process, &mut GuestMemory<'_>, &mut dyn System) -> Done,
) -> Result<i32> {
    if let Some(stop) = caller.data_mut().left.take() {
        return Err(Error::new(Stopped(stop)));
    }
    pause(caller)?;
    if moving::before(caller)? {
        return Ok(0);
    }
    loop {
        let stop = match once(caller, &work)? {
            Ok(number) => return Ok(number.into()),
            Err(stop) => stop,
        };
        match moving::after(caller, stop)? {
            Some(true) => return Ok(0),
            Some(false) => return Err(Error::new(Stopped(stop))),
            None => {}
        }
    }
}

/// Runs `work` once.
#[inline]
fn once<G: Guest>(
    caller: &mut Caller<'_, Inside<G>>,
    work: impl Fn(&Process, &mut GuestMemory<'_>, &mut dyn System) -> Done,
) -> Result<core::result::Result<u16, Stop>> {
    let own = match caller.data().memory {
        None if caller.data().region.is_none() => Some(find_memory(caller)?),
        own => own,
    };
    let (bytes, inside) = match own {
        Some(memory) => memory.data_and_store_mut(caller),
        None => (&mut [][..], caller.data_mut()),
    };
    Ok(outcome(inside.with(bytes, work)))
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
    threads::define(linker)
}
