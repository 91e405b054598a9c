//! The short way to the clock: a program calls our function and nothing of wasmtime's in between,
//! as one of Linux calls the vDSO.
//!
//! Code that Cranelift made calls what it imports through the address in its instance's list. For a
//! function of the host that is code which leads into wasmtime, and there through a store to the
//! function: more than a clock takes. Once an instance is made, the clock's address is replaced.
//! The clock may be, since it neither stops a program nor makes its memory grow.
//!
//! Where compiled code finds all this, `wasmtime_environ` says, of the same version as the engine.
//! All of it is compared with what the engine itself says before anything is written; where
//! something differs, the long way stays.
#![allow(unsafe_code)]

use crate::imports::Inside;
use crate::program::Program;
use crate::run::Guest;
use arch::types::Called;
use core::marker::PhantomData;
use kernel_process::{Errno, functions, outcome};
use wasmtime::{ExternType, Func, Module, Store};
use wasmtime_environ::{FuncIndex, HostPtr, PtrSize, VMCONTEXT_MAGIC, VMOffsets, VMOffsetsFields};

/// Where contexts of a module have the address of its clock, if it may have a short way: for that
/// the module has just one memory, its own, and imports nothing but functions.
pub fn clock_of(module: &Module) -> Option<u32> {
    let is_function = |kind: &ExternType| matches!(kind, ExternType::Func(_));
    let owns_memory = module.resources_required().num_memories == 1
        && module.get_export("memory").is_some_and(|kind| kind.memory().is_some());
    let only_functions = module.imports().all(|import| is_function(&import.ty()));
    let clock = module
        .imports()
        .position(|import| (import.module(), import.name()) == (functions::WASI, "clock_time_get"));
    let number = clock.filter(|_| owns_memory && only_functions)?;
    u32::try_from(number).ok().map(call_of)
}

/// Lets the instance that `begin` is a function of call its clock by the short way.
pub fn shorten<G: Guest>(program: &Program<G>, store: &mut Store<Inside<G>>, begin: &Func) {
    let (Some(clock), Some(memory)) = (program.clock, store.data().memory) else {
        return;
    };
    let reference = begin.to_raw(&mut *store) as u64;
    let data: *const Inside<G> = store.data();
    let expected = Reached {
        data: data as u64,
        memory: (memory.data_ptr(&*store) as u64, memory.data_size(&*store) as u64),
    };
    // SAFETY: `to_raw` gives a reference of the engine's to a function of a living instance, and
    // `clock_of` saw that the module has the one memory that the offsets are computed for.
    let known = unsafe {
        let context = word(reference, HostPtr.vm_func_ref().vmctx());
        let magic = (context + u64::from(HostPtr.vmctx().magic())) as *const u32;
        let call = (context + u64::from(clock)) as *mut u64;
        // So far it leads into wasmtime, by code of the module's own.
        let known = magic.read() == VMCONTEXT_MAGIC
            && Reached::from(context) == expected
            && program.holds(call.read());
        if known {
            call.write(arch::program::called::<Clock<G>>());
        }
        known
    };
    debug_assert!(known, "the engine is not the version that this was written for");
}

/// Where the address of imported function `number` is, in a context with one memory of its own.
fn call_of(number: u32) -> u32 {
    let offsets = VMOffsets::from(VMOffsetsFields {
        ptr: HostPtr,
        num_imported_functions: number + 1,
        num_imported_tables: 0,
        num_imported_memories: 0,
        num_imported_globals: 0,
        num_imported_tags: 0,
        num_defined_tables: 0,
        num_defined_memories: 1,
        num_owned_memories: 1,
        num_defined_globals: 0,
        num_defined_tags: 0,
        num_escaped_funcs: 0,
        num_runtime_data: 0,
        has_startup_func: false,
    });
    let import = HostPtr.vm_function_import();
    offsets.imported_functions().at(FuncIndex::from_u32(number)) + u32::from(import.wasm_call())
}

/// What compiled code reaches from the context of its instance.
#[derive(PartialEq, Eq)]
struct Reached {
    /// Of the store: an [`Inside`].
    data: u64,
    /// Where its memory begins, and how long it is.
    memory: (u64, u64),
}

impl Reached {
    /// # Safety
    /// `context` is an instance's, whose one memory is its own.
    #[inline]
    unsafe fn from(context: u64) -> Reached {
        let definition = HostPtr.vm_memory_definition();
        // SAFETY: the caller's promise; all these are words of the engine's.
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

/// # Safety
/// There is a word.
#[inline]
unsafe fn word(base: u64, offset: u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { ((base + u64::from(offset)) as *const u64).read() }
}

/// The clock, called by code of a program.
struct Clock<G>(PhantomData<G>);

impl<G: Guest> Called for Clock<G> {
    extern "C" fn call(context: u64, id: u64, precision: u64, time: u64) -> u64 {
        // SAFETY: the caller is a function of an instance that was looked at in `shorten`; it
        // waits, and with it wasmtime and whoever runs it, so nobody else has these.
        let (memory, inside) = unsafe {
            let reached = Reached::from(context);
            let (base, bytes) = reached.memory;
            let memory = core::slice::from_raw_parts_mut(base as *mut u8, bytes as usize);
            (memory, &mut *(reached.data as *mut Inside<G>))
        };
        let Inside { process, guest, .. } = inside;
        let done = process.clock_time_get(memory, guest, id as u32, precision, time as u32);
        // No clock stops a program.
        outcome(done).unwrap_or(Errno::INVAL.0).into()
    }
}
