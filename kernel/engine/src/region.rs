//! Memories of programs: address space of [`Platform`], which wasmtime gets through its
//! `MemoryCreator`. A home of `unsafe`.
//!
//! A memory of a program with one thread belongs to its instance. A [`Region`] is the memory of a
//! program with threads. Each thread has an instance in a store of its own, and wasmtime without
//! `std` has no memory that several stores share. So each of these instances gets a *view* of the
//! region: a memory of its own, as far as wasmtime knows, at the region's address.
//!
//! # Why this is sound
//! - **Compiled code** finds address and size of a memory in its instance's *definition* of it. The
//!   address never changes. A growth stores the new size in the definitions of all instances
//!   ([`Region::attach`]), an atomic word in wasmtime too, because memories that are shared are
//!   grown by other threads there. Accesses beyond the size fault, as the pages there are not open.
//! - **wasmtime's own code** makes Rust references to a memory's bytes in its host interface
//!   (`Memory::data`), which this crate does not use for a view, and copies through raw pointers
//!   for bulk instructions and data segments. That races with program code that writes the same
//!   bytes; wasmtime does the same with its own shared memories, and says that Rust's model does
//!   not allow for it. It grows a memory only by the instruction `memory.grow`, which the installer
//!   has replaced (`abi::program::THREADS`), and a view refuses to grow.
//! - **Functions of the kernel** get the bytes of a region as copies (`kernel_process::memory`),
//!   made by atomic loads and stores ([`arch::racing`]): program code that races with them is not
//!   Rust, and finds each byte old or new. Two such copies may race by words and by bytes, on the
//!   same bytes, which Rust's model has no rule for and the ISAs allow.
//! - **The start function** of a module runs before its instance is attached: a growth in it, or of
//!   another thread meanwhile, is seen at `memory.size` and by bulk instructions afterwards only.
//!   Linkers make start functions that fill the memory and grow nothing.
//! - **Lent memory** ([`Lent`]) is also used by another kernel, but never at the same time. What
//!   reaches it here, program code or a function of the kernel, has entered the process's turn.
//! - **Lifetime**: views and threads hold the region, which frees its space when the last is gone.
//!   An instance is detached before it is freed.
#![allow(unsafe_code)]

use crate::context::Context;
use crate::platform::Platform;
use abi::program::engine::{GUARD, RESERVATION};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::lock::{Lock, Rank};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use kernel_process::SharedMemory;
use wasmtime::{Error, Func, LinearMemory, MemoryCreator, MemoryType, Result, Store};

/// Bytes of a page of WebAssembly.
const PAGE: u64 = 1 << 16;
/// Address space of a memory, with its guard.
const SPACE: usize = (RESERVATION + GUARD) as usize;
/// The rank of the regions that are being handed over, among those of `kernel_node::ranks`. While
/// it is held, memory is allocated and nothing else is called.
const HANDED: Rank = Rank::new(57, "regions");
/// The same for the instances of a region.
const SIZES: Rank = Rank::new(60, "sizes of a region");

/// Memory that two kernels use in turn, at an address that its kernel has chosen: as much reserved
/// space as any memory has.
pub trait Lent: Send + Sync + 'static {
    fn start(&self) -> usize;

    /// Opens the bytes between the end of the open part and another end. Returns false without
    /// memory.
    fn open(&self, from: u64, to: u64) -> bool;
}

/// A reserved space, freed when dropped.
struct Space {
    start: usize,
    platform: Platform,
    /// The space is this one's, which frees it.
    lent: Option<Arc<dyn Lent>>,
}

impl Space {
    /// Reserves space for a memory and opens its first bytes.
    fn new(platform: Platform, bytes: usize) -> Option<Space> {
        let space = Space { start: (platform.reserve)(SPACE)?, platform, lent: None };
        space.open(0, bytes as u64).then_some(space)
    }

    /// Opens the bytes between the end of the open part and another end. Returns false without
    /// memory.
    fn open(&self, from: u64, to: u64) -> bool {
        if let Some(lent) = &self.lent {
            return from >= to || lent.open(from, to);
        }
        let (at, bytes) = (self.start + from as usize, to.saturating_sub(from) as usize);
        bytes == 0 || (self.platform.open)(at, bytes)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if self.lent.is_none() {
            (self.platform.release)(self.start);
        }
    }
}

/// The memory of a program with threads.
pub struct Region {
    space: Space,
    bytes: AtomicU64,
    /// Its maximum in bytes.
    most: u64,
    /// A thread grows it.
    grows: AtomicBool,
    /// Bytes of the tables of all threads, which are in the kernel's heap.
    tables: AtomicU64,
    /// Addresses of the sizes in the definitions of all instances.
    sizes: Lock<Vec<u64>>,
}

impl Region {
    /// Makes the memory of a program whose module has one of this type. `None` without memory.
    pub(crate) fn new(platform: Platform, kind: &MemoryType) -> Option<Arc<Region>> {
        let bytes = least(kind)?;
        Some(Arc::new(Region::of(Space::new(platform, bytes as usize)?, kind, bytes)))
    }

    /// Makes the same in lent memory. If the process begins here, opens its first bytes; else its
    /// size is known when this kernel's turn begins ([`Region::resized`]).
    pub(crate) fn lent(
        platform: Platform,
        kind: &MemoryType,
        lent: Arc<dyn Lent>,
        begins: bool,
    ) -> Option<Arc<Region>> {
        let bytes = if begins { least(kind)? } else { 0 };
        let space = Space { start: lent.start(), platform, lent: Some(lent) };
        space.open(0, bytes).then(|| Arc::new(Region::of(space, kind, bytes)))
    }

    fn of(space: Space, kind: &MemoryType, bytes: u64) -> Region {
        let most = kind.maximum().map_or(RESERVATION, |pages| pages.saturating_mul(PAGE));
        Region {
            space,
            bytes: AtomicU64::new(bytes),
            most: most.min(RESERVATION),
            grows: AtomicBool::new(false),
            tables: AtomicU64::new(0),
            sizes: Lock::new(SIZES, Vec::new()),
        }
    }

    /// Reports the size of lent memory, which another kernel may have grown. No thread uses it
    /// meanwhile. Returns false if it cannot have this size.
    pub fn resized(&self, bytes: u64) -> bool {
        let before = self.bytes.load(Ordering::Relaxed);
        let is_valid = bytes >= before && bytes <= self.most && bytes.is_multiple_of(PAGE);
        if is_valid && bytes != before {
            self.set_all(bytes);
        }
        is_valid
    }

    /// Counts tables of a thread, or those that it had. Returns the bytes of all threads' tables.
    pub(crate) fn count_tables(&self, more: u64, fewer: u64) -> u64 {
        let change = more.wrapping_sub(fewer);
        self.tables.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }

    /// Returns its address and its size in bytes.
    pub(crate) fn extent(&self) -> (u64, u64) {
        (self.space.start as u64, self.bytes.load(Ordering::Relaxed))
    }

    /// Makes an instance follow the growth of this region. `function` is one of the instance's,
    /// whose memory is a view of it. Returns what [`Region::detach`] takes. Fails if the engine's
    /// layout is not the known one: what is found there is compared with what it must be.
    pub(crate) fn attach<T>(&self, store: &mut Store<T>, function: &Func) -> Result<Attached> {
        // SAFETY: a program has one memory (`program::check`), and the store keeps the instance.
        let context = unsafe { Context::of(store, function) };
        let mut sizes = self.sizes.lock();
        let bytes = self.bytes.load(Ordering::Relaxed);
        let known = context.filter(|context| {
            let (base, size) = context.memory();
            base == self.space.start as u64 && size <= bytes
        });
        let size = known.map(|context| context.size());
        let size = size.ok_or_else(|| Error::msg("the engine is not the version known here"))?;
        sizes.try_reserve(1).map_err(|_| Error::msg("no memory for another thread"))?;
        sizes.push(size);
        // SAFETY: as for `set_all`.
        unsafe { set(size, bytes) };
        Ok(Attached(size))
    }

    /// Ends what `attach` began. The instance must still exist.
    pub(crate) fn detach(&self, attached: Attached) {
        self.sizes.lock().retain(|&size| size != attached.0);
    }

    fn set_all(&self, bytes: u64) {
        let sizes = self.sizes.lock();
        self.bytes.store(bytes, Ordering::SeqCst);
        // SAFETY: `attach` found these words in instances, which exist until they are detached.
        sizes.iter().for_each(|&size| unsafe { set(size, bytes) });
    }

    /// Adds pages, if the size that this gives is `allowed`. Returns the size in pages before, or
    /// `None` if the memory does not grow.
    pub(crate) fn grow(&self, pages: u32, allowed: impl FnOnce(u64) -> bool) -> Option<u32> {
        while self.grows.swap(true, Ordering::Acquire) {
            (self.space.platform.pause)();
        }
        let before = self.bytes.load(Ordering::Relaxed);
        let after = before + u64::from(pages) * PAGE;
        let fits = after <= self.most && (pages == 0 || allowed(after));
        let grown = fits && self.space.open(before, after);
        if grown {
            self.set_all(after);
        }
        self.grows.store(false, Ordering::Release);
        grown.then_some((before / PAGE) as u32)
    }

    /// Returns the word of 64 bits with the byte at this address; `None` if that is outside, or its
    /// page has no memory now. Never faults.
    pub(crate) fn peek(&self, at: u64) -> Option<u64> {
        arch::probe::load(self.range(at as usize, 1)? as u64)
    }

    /// Returns the address of a range, if it is inside.
    fn range(&self, at: usize, length: usize) -> Option<usize> {
        let is_inside = at.checked_add(length).is_some_and(|end| end <= self.size());
        is_inside.then(|| self.space.start + at)
    }
}

/// Returns the initial size of a memory in bytes.
fn least(kind: &MemoryType) -> Option<u64> {
    kind.minimum().checked_mul(PAGE).filter(|&bytes| bytes <= RESERVATION)
}

/// An instance that follows the growth of its region.
pub(crate) struct Attached(u64);

/// Stores the size of a memory in an instance.
///
/// # Safety
/// `size` is the address of such a word.
unsafe fn set(size: u64, bytes: u64) {
    // SAFETY: the caller's obligation; wasmtime has an atomic word there.
    unsafe { AtomicU64::from_ptr(size as *mut u64) }.store(bytes, Ordering::SeqCst);
}

/// What a new thread begins with, besides its process.
pub struct Start {
    pub(crate) region: Arc<Region>,
    /// Passed on to the program.
    pub(crate) argument: u32,
}

impl Start {
    pub fn new(region: Arc<Region>, argument: u32) -> Start {
        Start { region, argument }
    }

    pub fn argument(&self) -> u32 {
        self.argument
    }
}

impl SharedMemory for Region {
    fn size(&self) -> usize {
        self.bytes.load(Ordering::Acquire) as usize
    }

    fn start(&self) -> u64 {
        self.space.start as u64
    }

    fn touch(&self, at: usize, length: usize) -> bool {
        (self.space.platform.touch)(self.space.start + at, length)
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        if let Some(at) = self.range(at, into.len()) {
            // SAFETY: the range is inside, where pages stay open as long as the region lives, and
            // Rust accesses it as atomics only.
            unsafe { arch::racing::load(at, into) };
        }
    }

    fn store(&self, at: usize, from: &[u8]) {
        if let Some(at) = self.range(at, from.len()) {
            // SAFETY: as in `load`.
            unsafe { arch::racing::store(at, from) };
        }
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
        if bytes > self.byte_capacity() || !self.space.open(self.bytes as u64, bytes as u64) {
            return Err(Error::msg("no memory for it"));
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
        Err(Error::msg("a view of a memory does not grow"))
    }

    fn as_ptr(&self) -> *mut u8 {
        self.0.space.start as *mut u8
    }
}
