//! What programs with threads call: the start of a thread, and the functions that the installer has
//! put in place of instructions ([`abi::program::THREADS`]).
//!
//! ```text
//!   thread-spawn --Start--> the kernel: a thread --run_thread--> wasi_thread_start
//!   wait32, wait64: is the value the expected one? --> asleep, until notify, a time, or the end
//! ```

use crate::guest::{Guest, Waited};
use crate::inside::Inside;
use crate::pause::pause;
use crate::region::{Region, Start};
use crate::stopped::Stopped;
use abi::program::{LIGHT_SPAWN, MODULE, THREADS};
use alloc::sync::Arc;
use kernel_process::{SharedMemory, Stop};
use wasmtime::{Caller, Error, Linker, Result, Trap};

/// Module and name of the function that starts a thread.
const SPAWN: (&str, &str) = ("wasi", "thread-spawn");
/// What it returns if there cannot be another thread; a thread's number is positive.
const NO_THREAD: i32 = -6;
/// What `memory.grow` returns if the memory does not grow.
const NO_MEMORY: i32 = -1;

/// Defines the functions in `linker`.
pub fn define<G: Guest>(linker: &mut Linker<Inside<G>>) -> Result<()> {
    let (module, name) = SPAWN;
    linker.func_wrap(module, name, spawn)?;
    linker.func_wrap(MODULE, LIGHT_SPAWN, spawn_light)?;
    linker.func_wrap(THREADS, "grow", grow)?;
    linker.func_wrap(THREADS, "wait32", wait32)?;
    linker.func_wrap(THREADS, "wait64", wait64)?;
    linker.func_wrap(THREADS, "notify", notify)?;
    Ok(())
}

/// Returns the region of the calling thread's program, with which each function begins.
fn region<G: Guest>(caller: &mut Caller<'_, Inside<G>>) -> Result<Arc<Region>> {
    pause(caller)?;
    let region = caller.data().region.clone();
    region.ok_or_else(|| Error::msg("it has no memory that threads share"))
}

fn spawn<G: Guest>(mut caller: Caller<'_, Inside<G>>, argument: i32) -> Result<i32> {
    let start = Start { region: region(&mut caller)?, argument: argument.cast_unsigned() };
    let begun = caller.data_mut().guest.begin_thread(start);
    Ok(begun.map_or(NO_THREAD, u32::cast_signed))
}

fn spawn_light<G: Guest>(mut caller: Caller<'_, Inside<G>>, argument: i32) -> Result<i32> {
    let start = Start { region: region(&mut caller)?, argument: argument.cast_unsigned() };
    match caller.data_mut().guest.begin_light(start) {
        Ok(begun) => Ok(begun.map_or(NO_THREAD, u32::cast_signed)),
        Err(_) => Err(Error::new(Stopped(Stop::Interrupted))),
    }
}

fn grow<G: Guest>(mut caller: Caller<'_, Inside<G>>, pages: i32) -> Result<i32> {
    let region = region(&mut caller)?;
    let tables = region.count_tables(0, 0);
    let Inside { guest, limits, .. } = caller.data_mut();
    let before = region.grow(pages.cast_unsigned(), |bytes| {
        let fits = bytes <= limits.memory.saturating_sub(tables);
        if fits {
            guest.has_memory(bytes);
        }
        fits
    });
    Ok(before.map_or(NO_MEMORY, u32::cast_signed))
}

/// Returns the address of an instruction that accesses `bytes` bytes, which must be a multiple.
fn place(region: &Region, address: i32, offset: i32, bytes: u64) -> Result<u64> {
    let at = u64::from(address.cast_unsigned()) + u64::from(offset.cast_unsigned());
    if !at.is_multiple_of(bytes) {
        return Err(Trap::HeapMisaligned.into());
    }
    if at + bytes > region.size() as u64 {
        return Err(Trap::MemoryOutOfBounds.into());
    }
    Ok(at)
}

fn wait32<G: Guest>(
    mut caller: Caller<'_, Inside<G>>,
    address: i32,
    expected: i32,
    timeout: i64,
    offset: i32,
) -> Result<i32> {
    let region = region(&mut caller)?;
    let at = place(&region, address, offset, 4)?;
    let half = 8 * (at % 8) as u32;
    let is_expected = |word: u64| (word >> half) as u32 == expected.cast_unsigned();
    wait(caller, (&region, at, 4), timeout, &is_expected)
}

fn wait64<G: Guest>(
    mut caller: Caller<'_, Inside<G>>,
    address: i32,
    expected: i64,
    timeout: i64,
    offset: i32,
) -> Result<i32> {
    let region = region(&mut caller)?;
    let at = place(&region, address, offset, 8)?;
    let is_expected = |word| word == expected.cast_unsigned();
    wait(caller, (&region, at, 8), timeout, &is_expected)
}

/// Waits, if the word that has these `bytes` bytes is as expected, for at most `timeout` ns; for a
/// negative number without a limit.
fn wait<G: Guest>(
    mut caller: Caller<'_, Inside<G>>,
    (region, at, bytes): (&Region, u64, usize),
    timeout: i64,
    is_expected: &dyn Fn(u64) -> bool,
) -> Result<i32> {
    // A page fault here could end the thread on the spot, with what this function owns.
    if !region.touch(at as usize, bytes) {
        return Err(Trap::AllocationTooLarge.into());
    }
    // Under a lock, a page that has left with a window meanwhile must not fault: the program looks
    // again.
    let is_expected = || region.peek(at).is_some_and(is_expected);
    if !is_expected() {
        return Ok(Waited::Unexpected as i32);
    }
    let guest = &mut caller.data_mut().guest;
    let deadline = u64::try_from(timeout).ok().map(|ns| guest.monotonic().saturating_add(ns));
    match guest.wait_at(at, &is_expected, deadline) {
        Ok(waited) => Ok(waited as i32),
        Err(_) => Err(Error::new(Stopped(Stop::Interrupted))),
    }
}

fn notify<G: Guest>(
    mut caller: Caller<'_, Inside<G>>,
    address: i32,
    count: i32,
    offset: i32,
) -> Result<i32> {
    let at = place(&*region(&mut caller)?, address, offset, 4)?;
    let woken = caller.data_mut().guest.notify(at, count.cast_unsigned());
    Ok(woken.cast_signed())
}
