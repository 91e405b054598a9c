//! A direct call of the clock: programs call a kernel function without wasmtime in between, like
//! the vDSO on Linux.
//!
//! Code compiled by Cranelift calls an import through an address in its instance. For a host
//! function that is the address of a trampoline into wasmtime, which then finds the function
//! through the store: this takes longer than reading a clock. So the clock's address is replaced in
//! each new instance. That is safe for the clock, which neither ends a program nor grows its
//! memory.
//!
//! Everything read from the instance ([`Context`]) is compared with the engine's own answers before
//! anything is written; if they differ, the indirect call stays.
#![allow(unsafe_code)]

use crate::context::Context;
use crate::guest::Guest;
use crate::inside::Inside;
use crate::program::Program;
use arch::types::DirectImport;
use core::marker::PhantomData;
use core::slice::from_raw_parts_mut;
use kernel_process::{Bytes, Errno, clocks};
use wasmtime::{Func, Store};

/// Makes the instance of function `begin` call its clock directly.
pub fn shorten<G: Guest>(program: &Program<G>, store: &mut Store<Inside<G>>, begin: &Func) {
    let Some(clock) = program.clock else { return };
    let (start, least) = match (&store.data().region, store.data().memory) {
        (Some(region), _) => region.extent(),
        (None, Some(memory)) => (memory.data_ptr(&*store) as u64, memory.data_size(&*store) as u64),
        (None, None) => return,
    };
    let data: *const Inside<G> = store.data();
    // The memory of threads may have grown meanwhile.
    let grows = store.data().region.is_some();
    // SAFETY: `clock_of` checked that the module has one memory, its own. The store keeps the
    // instance.
    let context = unsafe { Context::of(store, begin) };
    let known = context.filter(|context| {
        let (base, bytes) = context.memory();
        (context.data(), base) == (data as u64, start) && (bytes == least || grows && bytes > least)
    });
    let known = known.is_some_and(|context| {
        let call = context.word(clock);
        // SAFETY: `clock_of` computed this offset from the module's imports. Until now there is the
        // address of a trampoline in the module's own code.
        unsafe {
            let known = program.holds(call.read());
            if known {
                call.write(arch::program::import_address::<Clock<G>>());
            }
            known
        }
    });
    debug_assert!(known, "the engine is not the version that this was written for");
}

/// The clock, as called by a program.
struct Clock<G>(PhantomData<G>);

impl<G: Guest> DirectImport for Clock<G> {
    extern "C" fn call(context: u64, id: u64, _precision: u64, time: u64) -> u64 {
        // SAFETY: the caller is a function of an instance that `shorten` checked. It waits for this
        // call, and with it wasmtime and the code that runs it, so nothing else uses its data.
        let context = unsafe { Context::at(context) };
        // SAFETY: as above.
        let inside = unsafe { &mut *(context.data() as *mut Inside<G>) };
        let time = time as u32;
        if inside.guest.pause().is_err() {
            // The process is about to end, and its memory may not be here.
            return Errno::IO.0.into();
        }
        let done = clocks::now(&mut inside.guest, id as u32).and_then(|now| match &inside.region {
            None => {
                let (base, bytes) = context.memory();
                // SAFETY: as above, and no other thread uses the memory, which has these bytes.
                let memory = unsafe { from_raw_parts_mut(base as *mut u8, bytes as usize) };
                Bytes::Own(memory).store_u64(time, now)
            }
            Some(region) => Bytes::Shared(&**region).store_u64(time, now),
        });
        done.map_or_else(|why| why.0, |()| 0).into()
    }
}
