//! Memories of programs: address space of [`Platform`], which wasmtime gets through its
//! `MemoryCreator`. A home of `unsafe`.
//!
//! A memory of a program with one thread belongs to its instance. A [`Region`] is the memory of a
//! program with threads. Each thread has an instance in a store of its own, and wasmtime without
//! `std` has no memory that several stores share. So each of these instances imports a *view* of
//! the region: an unshared memory, as far as wasmtime knows, at the region's address.
//!
//! # Why this is sound
//! - **Compiled code** accesses a memory through a definition: address and size. It reads both each
//!   time through a pointer, because the memory is imported. [`Region::attach`] makes that pointer
//!   lead to the region's one definition; so all instances see a growth at once, and the address
//!   never changes. Accesses beyond the size fault, as the pages there are not open.
//! - **wasmtime's own code** makes Rust references to a memory's bytes in its host interface
//!   (`Memory::data`), which this crate does not use for a view, and copies through raw pointers
//!   for bulk instructions and data segments, as it does for its own shared memories. It grows a
//!   memory only by the instruction `memory.grow`, which the installer has replaced
//!   (`abi::program::THREADS`), and a view refuses to grow.
//! - **Functions of the kernel** get the bytes of a region as copies (`kernel_process::memory`),
//!   made here by atomic loads and stores: program code that races with them is not Rust, and finds
//!   each word old or new.
//! - **Lifetime**: views and threads hold the region, which frees its space when the last is gone.
#![allow(unsafe_code)]

use crate::platform::Platform;
use abi::program::engine::{GUARD, RESERVATION};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use arch::lock::{Lock, Rank};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use kernel_process::SharedMemory;
use wasmtime::{Func, LinearMemory, MemoryCreator, MemoryType, Result, Store};
use wasmtime_environ::{
    HostPtr, MemoryIndex, PtrSize, VMCONTEXT_MAGIC, VMOffsets, VMOffsetsFields,
};

/// Bytes of a page of WebAssembly.
const PAGE: u64 = 1 << 16;
/// Address space of a memory, with its guard.
const SPACE: usize = (RESERVATION + GUARD) as usize;
/// The rank of the regions that are being handed over, among those of `kernel_node::ranks`. While
/// it is held, memory is allocated and nothing else is called.
const HANDED: Rank = Rank::new(57, "regions");

/// A reserved space, freed when dropped.
struct Space {
    start: usize,
    platform: Platform,
}

impl Space {
    /// Reserves space for a memory and opens its first bytes.
    fn new(platform: Platform, bytes: usize) -> Option<Space> {
        let space = Space { start: (platform.reserve)(SPACE)?, platform };
        (bytes == 0 || (platform.open)(space.start, bytes)).then_some(space)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        (self.platform.release)(self.start);
    }
}

/// Address and size of a memory, as compiled code reads them.
#[repr(C)]
struct Definition {
    base: u64,
    bytes: AtomicU64,
}

/// The memory of a program with threads.
pub struct Region {
    space: Space,
    definition: Definition,
    /// Its maximum in bytes.
    most: u64,
    /// A thread grows it.
    grows: AtomicBool,
}

impl Region {
    /// Makes the memory of a program whose module imports this one. `None` without memory.
    pub(crate) fn new(platform: Platform, kind: &MemoryType) -> Option<Arc<Region>> {
        let bytes = kind.minimum().checked_mul(PAGE).filter(|&bytes| bytes <= RESERVATION)?;
        let most = kind.maximum().map_or(RESERVATION, |pages| pages.saturating_mul(PAGE));
        let space = Space::new(platform, bytes as usize)?;
        let definition = Definition { base: space.start as u64, bytes: AtomicU64::new(bytes) };
        let most = most.min(RESERVATION);
        Some(Arc::new(Region { space, definition, most, grows: AtomicBool::new(false) }))
    }

    /// Makes an instance use this region's definition. `function` is one of the instance's, whose
    /// only memory is an imported view of this region. Fails if the engine's layout is not the
    /// known one: what is found there is compared with what it must be.
    pub(crate) fn attach<T>(&self, store: &mut Store<T>, function: &Func) -> Result<()> {
        let reference = function.to_raw(&mut *store) as u64;
        let import = import_offset();
        let layout = HostPtr.vm_memory_definition();
        let expected = (self.definition.base, self.definition.bytes.load(Ordering::Relaxed));
        let is_ours = (layout.base(), layout.current_length()) == (0, 8);
        // SAFETY: `to_raw` returns wasmtime's reference to a function of a live instance; all words
        // read are words of wasmtime's structures, whose layout `wasmtime_environ` knows. The
        // definition written lives as long as the instance: the store holds the region.
        let attached = unsafe {
            let context = word(reference, HostPtr.vm_func_ref().vmctx());
            let magic = (context + u64::from(HostPtr.vmctx().magic())) as *const u32;
            let from = (context + u64::from(import)) as *mut u64;
            let is_known = is_ours && magic.read() == VMCONTEXT_MAGIC && {
                let definition = from.read();
                let found =
                    (word(definition, layout.base()), word(definition, layout.current_length()));
                found.0 == expected.0 && found.1 <= expected.1
            };
            if is_known {
                from.write(core::ptr::from_ref(&self.definition) as u64);
            }
            is_known
        };
        match attached {
            true => Ok(()),
            false => Err(wasmtime::Error::msg("the engine is not the version that is known here")),
        }
    }

    /// Adds pages, if the size that this gives is `allowed`. Returns the size in pages before, or
    /// `None` if the memory does not grow.
    pub(crate) fn grow(&self, pages: u32, allowed: impl FnOnce(u64) -> bool) -> Option<u32> {
        while self.grows.swap(true, Ordering::Acquire) {
            (self.space.platform.pause)();
        }
        let before = self.definition.bytes.load(Ordering::Relaxed);
        let after = before + u64::from(pages) * PAGE;
        let fits = after <= self.most && (pages == 0 || allowed(after));
        let grown =
            fits && (pages == 0 || (self.space.platform.open)(self.space.start, after as usize));
        if grown {
            self.definition.bytes.store(after, Ordering::SeqCst);
        }
        self.grows.store(false, Ordering::Release);
        grown.then_some((before / PAGE) as u32)
    }

    /// Returns a word of 32 bits, at an address that is a multiple of 4 and inside.
    pub(crate) fn word(&self, at: u64) -> Option<&AtomicU32> {
        let inside =
            at.is_multiple_of(4) && at + 4 <= self.definition.bytes.load(Ordering::Acquire);
        let address = (self.definition.base + at) as *mut u32;
        // SAFETY: the word is inside, where pages stay open as long as the region lives, and
        // aligned; Rust accesses it as an atomic only.
        inside.then(|| unsafe { AtomicU32::from_ptr(address) })
    }

    /// The same, for 64 bits and a multiple of 8.
    pub(crate) fn double_word(&self, at: u64) -> Option<&AtomicU64> {
        let inside =
            at.is_multiple_of(8) && at + 8 <= self.definition.bytes.load(Ordering::Acquire);
        let address = (self.definition.base + at) as *mut u64;
        // SAFETY: as in `word`.
        inside.then(|| unsafe { AtomicU64::from_ptr(address) })
    }

    /// Calls `byte` or `word` for the parts of a range, with their offsets in it.
    fn each(&self, at: usize, length: usize, mut part: impl FnMut(usize, Part<'_>)) {
        let end = at.checked_add(length).filter(|&end| end <= self.size());
        let Some(end) = end else { return };
        let mut next = at;
        while next < end {
            let address = self.definition.base as usize + next;
            if next.is_multiple_of(8) && end - next >= 8 {
                // SAFETY: as in `word`.
                part(next - at, Part::Word(unsafe { AtomicU64::from_ptr(address as *mut u64) }));
                next += 8;
            } else {
                // SAFETY: as in `word`.
                part(next - at, Part::Byte(unsafe { AtomicU8::from_ptr(address as *mut u8) }));
                next += 1;
            }
        }
    }
}

/// Returns the offset of the pointer to the definition of an imported memory, in the context of a
/// module with one such memory.
fn import_offset() -> u32 {
    let offsets = VMOffsets::from(VMOffsetsFields {
        ptr: HostPtr,
        num_imported_functions: 0,
        num_imported_tables: 0,
        num_imported_memories: 1,
        num_imported_globals: 0,
        num_imported_tags: 0,
        num_defined_tables: 0,
        num_defined_memories: 0,
        num_owned_memories: 0,
        num_defined_globals: 0,
        num_defined_tags: 0,
        num_escaped_funcs: 0,
        num_runtime_data: 0,
        has_startup_func: false,
    });
    let import = offsets.imported_memories().at(MemoryIndex::from_u32(0));
    import + u32::from(HostPtr.vm_memory_import().from())
}

/// # Safety
/// There is a readable word at `base + offset`.
unsafe fn word(base: u64, offset: u8) -> u64 {
    // SAFETY: the caller's obligation.
    unsafe { ((base + u64::from(offset)) as *const u64).read() }
}

/// A part of a region that is copied at once.
enum Part<'a> {
    Byte(&'a AtomicU8),
    Word(&'a AtomicU64),
}

impl SharedMemory for Region {
    fn size(&self) -> usize {
        self.definition.bytes.load(Ordering::Acquire) as usize
    }

    fn touch(&self, at: usize, length: usize) -> bool {
        (self.space.platform.touch)(self.space.start + at, length)
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        self.each(at, into.len(), |offset, part| match part {
            Part::Byte(byte) => into[offset] = byte.load(Ordering::Relaxed),
            Part::Word(word) => {
                into[offset..offset + 8]
                    .copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
        });
    }

    fn store(&self, at: usize, from: &[u8]) {
        self.each(at, from.len(), |offset, part| match part {
            Part::Byte(byte) => byte.store(from[offset], Ordering::Relaxed),
            Part::Word(word) => {
                if let Some(bytes) = from[offset..].first_chunk() {
                    word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
                }
            }
        });
    }
}

/// Makes the memories of all instances. Where a thread has been handed a region, it makes a view of
/// that.
pub(crate) struct Memories {
    platform: Platform,
    /// By thread.
    handed: Lock<BTreeMap<usize, Arc<Region>>>,
}

impl Memories {
    pub fn new(platform: Platform) -> Memories {
        Memories { platform, handed: Lock::new(HANDED, BTreeMap::new()) }
    }

    /// Calls `make`, in which the next memory that this thread creates is a view of `region`.
    pub fn view<R>(&self, region: &Arc<Region>, make: impl FnOnce() -> R) -> R {
        let thread = (self.platform.thread)();
        let before = self.handed.lock().insert(thread, region.clone());
        drop(before);
        let made = make();
        let unused = self.handed.lock().remove(&thread);
        drop(unused);
        made
    }
}

// SAFETY: each memory has a space of its own, or is a view, whose sharing is justified above.
unsafe impl MemoryCreator for Memories {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        _: Option<usize>,
        _: Option<usize>,
        _: usize,
    ) -> core::result::Result<Box<dyn LinearMemory>, String> {
        let handed = self.handed.lock().remove(&(self.platform.thread)());
        if let Some(region) = handed {
            return Ok(Box::new(View(region)));
        }
        let space = Space::new(self.platform, minimum);
        let space = space.ok_or_else(|| String::from("no memory for it"))?;
        Ok(Box::new(Own { space, bytes: minimum }))
    }
}

/// The memory of an instance that has one of its own.
struct Own {
    space: Space,
    bytes: usize,
}

// SAFETY: the space is `SPACE` bytes of address space, open up to `bytes`, which nothing else uses.
unsafe impl LinearMemory for Own {
    fn byte_size(&self) -> usize {
        self.bytes
    }

    fn byte_capacity(&self) -> usize {
        RESERVATION as usize
    }

    fn grow_to(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.byte_capacity() || !(self.space.platform.open)(self.space.start, bytes) {
            return Err(wasmtime::Error::msg("no memory for it"));
        }
        self.bytes = bytes;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.space.start as *mut u8
    }
}

/// A region, as the memory of one instance.
struct View(Arc<Region>);

// SAFETY: as for `Own`; others use the same memory, which is justified above.
unsafe impl LinearMemory for View {
    fn byte_size(&self) -> usize {
        self.0.size()
    }

    fn byte_capacity(&self) -> usize {
        RESERVATION as usize
    }

    fn grow_to(&mut self, _: usize) -> Result<()> {
        Err(wasmtime::Error::msg("a view of a memory does not grow"))
    }

    fn as_ptr(&self) -> *mut u8 {
        self.0.space.start as *mut u8
    }
}
