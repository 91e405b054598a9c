//! A direct call of the clock: programs call a kernel function without wasmtime in between, like
//! the vDSO on Linux.
//!
//! Code compiled by Cranelift calls an import through an address in its instance. For a host
//! function that is the address of a trampoline into wasmtime, which then finds the function
//! through the store: this takes longer than reading a clock. So the clock's address is replaced in
//! each new instance. That is safe for the clock, which neither ends a program nor grows its
//! memory.
//!
//! `wasmtime_environ`, of the same version as the engine, has the layout. Everything read by that
//! layout is compared with the engine's own answers before anything is written; if they differ, the
//! indirect call stays.
#![allow(unsafe_code)]

use crate::guest::Guest;
use crate::inside::Inside;
use crate::program::Program;
use arch::types::DirectImport;
use core::marker::PhantomData;
use kernel_process::{Bytes, clocks};
use wasmtime::{Func, Store};
use wasmtime_environ::{HostPtr, PtrSize, VMCONTEXT_MAGIC};

/// Makes the instance of function `begin` call its clock directly.
pub fn shorten<G: Guest>(program: &Program<G>, store: &mut Store<Inside<G>>, begin: &Func) {
    let Some(clock) = program.clock else { return };
    let memory = match (&store.data().region, store.data().memory) {
        (Some(region), _) => region.extent(),
        (None, Some(memory)) => (memory.data_ptr(&*store) as u64, memory.data_size(&*store) as u64),
        (None, None) => return,
    };
    let reference = begin.to_raw(&mut *store) as u64;
    let data: *const Inside<G> = store.data();
    let expected = Reached { data: data as u64, memory };
    // The memory of threads may have grown meanwhile.
    let grows = store.data().region.is_some();
    // SAFETY: `to_raw` returns wasmtime's reference to a function of a live instance, and
    // `clock_of` checked that the module has the one memory for which the offsets are computed.
    let known = unsafe {
        let context = word(reference, HostPtr.vm_func_ref().vmctx());
        let magic = (context + u64::from(HostPtr.vmctx().magic())) as *const u32;
        let call = (context + u64::from(clock)) as *mut u64;
        // Until now this is the address of a trampoline in the module's own code.
        let known = magic.read() == VMCONTEXT_MAGIC
            && Reached::from(context).agrees(&expected, grows)
            && program.holds(call.read());
        if known {
            call.write(arch::program::import_address::<Clock<G>>());
        }
        known
    };
    debug_assert!(known, "the engine is not the version that this was written for");
}

/// Pointers that compiled code finds in its context.
struct Reached {
    /// Data of the store: an [`Inside`].
    data: u64,
    /// Address and size of the memory.
    memory: (u64, u64),
}

impl Reached {
    /// Returns whether these are the pointers of `expected`, and the size too, or with `grows` no
    /// smaller one.
    fn agrees(&self, expected: &Reached, grows: bool) -> bool {
        let ((base, bytes), (at, least)) = (self.memory, expected.memory);
        (self.data, base) == (expected.data, at) && (bytes == least || grows && bytes > least)
    }

    /// # Safety
    /// `context` is that of an instance with exactly one memory, its own.
    #[inline]
    unsafe fn from(context: u64) -> Reached {
        let definition = HostPtr.vm_memory_definition();
        // SAFETY: the caller's obligation; all of these are words of wasmtime's structures.
        unsafe {
            let store = word(context, HostPtr.vmctx().store_context());
            let memory = word(context, HostPtr.vmctx().end_of_static_fields());
            Reached {
                data: word(store, HostPtr.vm_store_context().store_data()),
                memory: (
                    word(memory, definition.base()),
                    word(memory, definition.current_length()),
                ),
            }
        }
    }
}

impl Reached {
    /// # Safety
    /// Nothing else uses the memory meanwhile.
    unsafe fn bytes<'a>(&self) -> &'a mut [u8] {
        let (base, bytes) = self.memory;
        // SAFETY: the caller's obligation; the memory has these bytes.
        unsafe { core::slice::from_raw_parts_mut(base as *mut u8, bytes as usize) }
    }
}

/// # Safety
/// There is a readable word at `base + offset`.
#[inline]
unsafe fn word(base: u64, offset: u8) -> u64 {
    // SAFETY: the caller's obligation.
    unsafe { ((base + u64::from(offset)) as *const u64).read() }
}

/// The clock, as called by a program.
struct Clock<G>(PhantomData<G>);

impl<G: Guest> DirectImport for Clock<G> {
    extern "C" fn call(context: u64, id: u64, _precision: u64, time: u64) -> u64 {
        // SAFETY: the caller is a function of an instance that `shorten` checked. It waits for this
        // call, and with it wasmtime and the code that runs it, so nothing else uses its data.
        let reached = unsafe { Reached::from(context) };
        // SAFETY: as above.
        let inside = unsafe { &mut *(reached.data as *mut Inside<G>) };
        let time = time as u32;
        let done = clocks::now(&mut inside.guest, id as u32).and_then(|now| match &inside.region {
            // SAFETY: as above, and no other thread uses the memory.
            None => Bytes::Own(unsafe { reached.bytes() }).store_u64(time, now),
            Some(region) => Bytes::Shared(&**region).store_u64(time, now),
        });
        done.map_or_else(|why| why.0, |()| 0).into()
    }
}
