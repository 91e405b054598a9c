//! Programs that can move to another kernel while they run (docs/design/moves.md).
//!
//! The installer has made them so that they can leave all their functions and enter them again
//! (Asyncify). In between, all that they have is in their memory and in their globals.
//!
//! ```text
//!   a function of the kernel is called, or waits: `before`, `after`
//!     --> the program unwinds its stack into its memory --> `_start` returns --> Guest::depart
//!            it is on the other kernel: End::Left <--+--> it stays: `_start` rewinds, and calls
//!                                                         the same function again
//!   on the other kernel: a new instance --> `load` --> `_start` rewinds, likewise
//! ```
//! Contract: a function that the program leaves from has had no effect, and is called again with
//! the same arguments. Only programs without threads move.

use crate::guest::Guest;
use crate::inside::Inside;
use crate::unwound::{Area, Arrival, Moving, Phase, Unwound};
use abi::moves::{AREA_HEAD, EXPORTED_GLOBAL, SPARE, asyncify};
use alloc::format;
use alloc::vec::Vec;
use kernel_process::Stop;
use wasmtime::{
    AsContextMut, Caller, Error, Extern, Func, Global, Instance, Module, Mutability, Result, Store,
    Val, ValType,
};

/// Bytes of a page of WebAssembly.
const PAGE: u64 = 1 << 16;

/// The program is on another kernel now: an error, on its way through wasmtime.
#[derive(Clone, Copy, Debug)]
pub struct Left;

impl core::fmt::Display for Left {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("it has left")
    }
}

impl core::error::Error for Left {}

/// Returns whether the installer has made a program so that it can move.
pub fn is_movable(module: &Module) -> bool {
    module.get_export(&global_name(0)).is_some_and(|kind| kind.global().is_some())
        && asyncify::ALL.iter().all(|name| module.get_export(name).is_some())
}

fn global_name(number: usize) -> alloc::string::String {
    format!("{EXPORTED_GLOBAL}{number}")
}

/// Called before a function of the kernel. Returns whether the program leaves instead: then the
/// function returns at once, with any result.
#[inline]
pub fn before<G: Guest>(caller: &mut Caller<'_, Inside<G>>) -> Result<bool> {
    match &caller.data().moving {
        None => Ok(false),
        Some(_) => before_movable(caller),
    }
}

#[inline(never)]
fn before_movable<G: Guest>(caller: &mut Caller<'_, Inside<G>>) -> Result<bool> {
    let phase = caller.data().moving.as_ref().map(|moving| moving.phase);
    match phase {
        Some(Phase::Rewinds) => {
            call(caller, asyncify::STOP_REWIND, None)?;
            set_phase(caller.data_mut(), Phase::Runs);
            Ok(false)
        }
        Some(Phase::Runs) => {
            let guest = &mut caller.data_mut().guest;
            guest.calls();
            if guest.is_called_away() { leave(caller) } else { Ok(false) }
        }
        // A function that Asyncify does not know of would have its effect twice.
        Some(Phase::Unwinds) => {
            Err(Error::msg("it calls the kernel while it leaves its functions"))
        }
        None => Ok(false),
    }
}

/// Called after a function of the kernel that did not succeed. Returns whether the program leaves,
/// as before it; `None`: the function must be called again.
#[cold]
#[inline(never)]
pub fn after<G: Guest>(caller: &mut Caller<'_, Inside<G>>, stop: Stop) -> Result<Option<bool>> {
    let Inside { guest, moving, .. } = caller.data();
    let is_meant = stop == Stop::Interrupted && guest.is_called_away();
    if !is_meant || moving.is_none() || guest.stop_signal().is_some() {
        return Ok(Some(false));
    }
    Ok(leave(caller)?.then_some(true))
}

fn set_phase<G>(inside: &mut Inside<G>, phase: Phase) {
    if let Some(moving) = &mut inside.moving {
        moving.phase = phase;
    }
}

/// Makes the program unwind its stack. Returns false if it has no memory for that: then it stays.
fn leave<G: Guest>(caller: &mut Caller<'_, Inside<G>>) -> Result<bool> {
    let Some(area) = area(caller)? else {
        caller.data_mut().guest.cannot_move();
        return Ok(false);
    };
    let head = [area.at + AREA_HEAD, area.at + area.bytes];
    let memory = caller.data().memory.ok_or_else(|| Error::msg("it has no memory"))?;
    for (word, value) in (0..).zip(head) {
        memory.write(&mut *caller, area.at as usize + 4 * word, &value.to_le_bytes())?;
    }
    call(caller, asyncify::START_UNWIND, Some(area.at))?;
    set_phase(caller.data_mut(), Phase::Unwinds);
    Ok(true)
}

/// Returns the area, large enough for the frames that the stack has now. A first or larger one is
/// at the end of the program's memory, which grows. `None` if it cannot.
fn area<G: Guest>(caller: &mut Caller<'_, Inside<G>>) -> Result<Option<Area>> {
    let depth = caller.data().guest.depth();
    let had = caller.data().moving.as_ref().map(|moving| moving.area).unwrap_or_default();
    let needed = SPARE * depth;
    if had.bytes != 0 && u64::from(had.bytes) >= needed {
        return Ok(Some(had));
    }
    // What it had is lost, so there are few of them.
    let wanted = needed.max(2 * u64::from(had.bytes)).next_multiple_of(PAGE).max(PAGE);
    let memory = caller.data().memory.ok_or_else(|| Error::msg("it has no memory"))?;
    let Ok(pages) = memory.grow(&mut *caller, wanted / PAGE) else { return Ok(None) };
    let (Ok(at), Ok(bytes)) = (u32::try_from(pages * PAGE), u32::try_from(wanted)) else {
        return Ok(None);
    };
    // The last address is needed, too.
    if at.checked_add(bytes).is_none() {
        return Ok(None);
    }
    let area = Area { at, bytes };
    if let Some(moving) = &mut caller.data_mut().moving {
        moving.area = area;
    }
    Ok(Some(area))
}

/// Calls one of the functions that Asyncify has added.
fn call<G: Guest>(
    caller: &mut Caller<'_, Inside<G>>,
    name: &str,
    argument: Option<u32>,
) -> Result<()> {
    let function = caller.get_export(name).and_then(Extern::into_func);
    call_function(caller, function, argument)
}

fn call_function(
    store: impl AsContextMut,
    function: Option<Func>,
    argument: Option<u32>,
) -> Result<()> {
    let function = function.ok_or_else(|| Error::msg("it is not made to move"))?;
    let mut store = store;
    match argument {
        Some(value) => function.typed::<u32, ()>(&store)?.call(&mut store, value),
        None => function.typed::<(), ()>(&store)?.call(&mut store, ()),
    }
}

/// Runs a program by `begin`, for as long as it is on this kernel.
pub fn run<G: Guest>(
    store: &mut Store<Inside<G>>,
    instance: &Instance,
    begin: impl Fn(&mut Store<Inside<G>>) -> Result<()>,
) -> Result<()> {
    if store.data().moving.is_none() {
        return begin(store);
    }
    if let Some(arrival) = store.data_mut().guest.arrival() {
        load(store, instance, &*arrival)?;
        drop(arrival);
        if !store.data_mut().guest.arrived() {
            return Err(Error::new(Left));
        }
    }
    loop {
        begin(store)?;
        let moving = store.data().moving.as_ref();
        let Some(area) = moving.filter(|it| it.phase == Phase::Unwinds).map(|it| it.area) else {
            return Ok(());
        };
        let stop = instance.get_func(&mut *store, asyncify::STOP_UNWIND);
        call_function(&mut *store, stop, None)?;
        let unwound = Unwound { globals: saved(store, instance)?, area };
        let memory = store.data().memory.ok_or_else(|| Error::msg("it has no memory"))?;
        let (bytes, inside) = memory.data_and_store_mut(&mut *store);
        if inside.guest.depart(&inside.process, bytes, &unwound) {
            return Err(Error::new(Left));
        }
        rewind(store, instance, area)?;
    }
}

fn rewind<G: Guest>(store: &mut Store<Inside<G>>, instance: &Instance, area: Area) -> Result<()> {
    let start = instance.get_func(&mut *store, asyncify::START_REWIND);
    call_function(&mut *store, start, Some(area.at))?;
    if let Some(moving) = &mut store.data_mut().moving {
        *moving = Moving { phase: Phase::Rewinds, area };
    }
    Ok(())
}

/// Gives a new instance the state of a program that has come from another kernel.
fn load<G: Guest>(
    store: &mut Store<Inside<G>>,
    instance: &Instance,
    arrival: &dyn Arrival,
) -> Result<()> {
    let damaged = || Error::msg("what the other kernel has sent of it is damaged");
    let memory = store.data().memory.ok_or_else(damaged)?;
    let (had, wanted) = (memory.data_size(&*store) as u64, arrival.bytes());
    let more = wanted.checked_sub(had).filter(|more| more.is_multiple_of(PAGE));
    memory.grow(&mut *store, more.ok_or_else(damaged)? / PAGE)?;
    if !arrival.fill(memory.data_mut(&mut *store)) {
        return Err(damaged());
    }
    let Unwound { globals, area } = arrival.unwound();
    let is_inside = u64::from(area.at) + u64::from(area.bytes) <= wanted;
    let own = exported(store, instance)?;
    if own.len() != globals.len() || !is_inside {
        return Err(damaged());
    }
    for (global, bits) in own.into_iter().zip(globals) {
        let value = match *global.ty(&*store).content() {
            ValType::I32 => Val::I32(*bits as i32),
            ValType::F32 => Val::F32(*bits as u32),
            ValType::F64 => Val::F64(*bits),
            _ => Val::I64(bits.cast_signed()),
        };
        global.set(&mut *store, value)?;
    }
    rewind(store, instance, *area)
}

/// Returns the globals that change while the program runs.
fn exported<G>(store: &mut Store<Inside<G>>, instance: &Instance) -> Result<Vec<Global>> {
    let mut all = Vec::new();
    while let Some(global) = instance.get_global(&mut *store, &global_name(all.len())) {
        all.try_reserve(1).map_err(|_| Error::msg("no memory"))?;
        all.push(global);
    }
    Ok(all.into_iter().filter(|it| it.ty(&*store).mutability() == Mutability::Var).collect())
}

/// Returns their values as bits.
fn saved<G>(store: &mut Store<Inside<G>>, instance: &Instance) -> Result<Vec<u64>> {
    let bits = |value| match value {
        Val::I32(value) => Ok(u64::from(value.cast_unsigned())),
        Val::I64(value) => Ok(value.cast_unsigned()),
        Val::F32(bits) => Ok(bits.into()),
        Val::F64(bits) => Ok(bits),
        _ => Err(Error::msg("a global of a kind that cannot move")),
    };
    let globals = exported(store, instance)?;
    globals.into_iter().map(|global| bits(global.get(&mut *store))).collect()
}
