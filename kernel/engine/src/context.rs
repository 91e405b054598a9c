//! What compiled code finds in the context of its instance. A home of `unsafe`.
//!
//! `wasmtime_environ`, of the same version as the engine, has the layout. Users compare what they
//! read here with the engine's own answers before they write anything.
#![allow(unsafe_code)]

use wasmtime::{Func, Store};
use wasmtime_environ::{HostPtr, PtrSize, VMCONTEXT_MAGIC};

/// The context of an instance, which exists as long as this does and has one memory, its own.
pub struct Context(u64);

impl Context {
    /// Returns the context of a function's instance. `None` if the layout is not the known one.
    ///
    /// # Safety
    /// The instance has exactly one memory, its own, and outlives the context.
    pub unsafe fn of<T>(store: &mut Store<T>, function: &Func) -> Option<Context> {
        let reference = function.to_raw(&mut *store) as u64;
        // SAFETY: `to_raw` returns wasmtime's reference to a function of a live instance. The magic
        // number is at the start of every context.
        unsafe {
            let context = Context(word(reference, HostPtr.vm_func_ref().vmctx()));
            let magic = (context.0 + u64::from(HostPtr.vmctx().magic())) as *const u32;
            (magic.read() == VMCONTEXT_MAGIC).then_some(context)
        }
    }

    /// Returns the context at an address, as compiled code passes it to an import.
    ///
    /// # Safety
    /// As for [`Context::of`], which has returned `Some` for the instance.
    #[inline]
    pub unsafe fn at(address: u64) -> Context {
        Context(address)
    }

    /// Returns the address of the data of its store.
    #[inline]
    pub fn data(&self) -> u64 {
        // SAFETY: both are words of wasmtime's structures.
        unsafe {
            let store = word(self.0, HostPtr.vmctx().store_context());
            word(store, HostPtr.vm_store_context().store_data())
        }
    }

    /// Returns the address of its memory, and the size in bytes.
    #[inline]
    pub fn memory(&self) -> (u64, u64) {
        let (definition, layout) = (self.definition(), HostPtr.vm_memory_definition());
        // SAFETY: both are words of the definition.
        unsafe { (word(definition, layout.base()), word(definition, layout.current_length())) }
    }

    /// Returns the address of the size of its memory.
    pub fn size(&self) -> u64 {
        self.definition() + u64::from(HostPtr.vm_memory_definition().current_length())
    }

    #[inline]
    fn definition(&self) -> u64 {
        // SAFETY: the instance has one memory, whose definition this word points to.
        unsafe { word(self.0, HostPtr.vmctx().end_of_static_fields()) }
    }

    /// Returns the address of the word at an offset.
    pub fn word(&self, offset: u32) -> *mut u64 {
        (self.0 + u64::from(offset)) as *mut u64
    }
}

/// # Safety
/// There is a readable word at `base + offset`.
#[inline]
unsafe fn word(base: u64, offset: u8) -> u64 {
    // SAFETY: the caller's obligation.
    unsafe { ((base + u64::from(offset)) as *const u64).read() }
}
