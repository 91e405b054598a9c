//! Arena memory as a heap and as a service's state, and the allocator that routes between a
//! kernel's own heap and the current arena: the `unsafe` code of this crate.
//!
//! Contract: an arena's memory has no other user ([`Arena::new`]'s caller promises it) and is only
//! accessed under its service's lock ([`crate::instance`]). Head and pool have the same layout in
//! every ISA (`docs/design/shadowable.md`), so each kernel continues where the previous holder
//! stopped.
#![allow(unsafe_code)]

use crate::service::Service;
use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};
use rlsf::Tlsf;

/// Blocks of up to 16 MiB in 16 size classes per power of two; the tables take 2.6 KB of the head's
/// page.
type Pool = Tlsf<'static, u32, u16, 20, 16>;

/// "arena" and the layout's version.
const MAGIC: u64 = 0x0001_6172_656e_6100;
/// The head occupies the first page.
const HEAD: usize = 4096;

/// The header of an arena.
#[repr(C)]
struct Head {
    magic: u64,
    /// Size of the whole arena.
    bytes: u64,
    /// Hash of the service's name; determines the type of the state.
    service: u64,
    /// Number of starts of the service.
    lives: u64,
    /// Address of the state, or 0.
    state: u64,
    /// Allocated bytes, without the allocator's overhead.
    used: u64,
    pool: Pool,
}

const _: () = assert!(size_of::<Head>() <= HEAD && size_of::<usize>() == 8);

/// The memory of one service instance: its state and everything it allocates.
#[derive(Debug)]
pub struct Arena {
    base: usize,
    bytes: usize,
    /// The state that was found last.
    found: Found,
}

/// A state that was found in an arena, and when: see [`Arena::knows`].
#[derive(Clone, Copy, Debug)]
struct Found {
    service: u64,
    holding: u64,
    state: u64,
}

impl Found {
    const NOTHING: Found = Found { service: 0, holding: 0, state: 0 };
}

impl Arena {
    /// Creates an arena of `bytes` bytes at `base`. Returns `None` unless `base` is page-aligned
    /// and `bytes` is at least two pages and at most 1 GiB.
    ///
    /// # Safety
    /// The memory is readable and writable forever and has no other user. Of several arenas at one
    /// address in different kernels, only one is used at a time.
    pub const unsafe fn new(base: usize, bytes: usize) -> Option<Arena> {
        if base == 0 || !base.is_multiple_of(HEAD) || bytes < 2 * HEAD || bytes > 1 << 30 {
            return None;
        }
        Some(Arena { base, bytes, found: Found::NOTHING })
    }

    /// Creates an arena from all of `memory`; `None` under the conditions of [`Arena::new`].
    pub fn of(memory: &'static mut [u8]) -> Option<Arena> {
        let (base, bytes) = (memory.as_mut_ptr().expose_provenance(), memory.len());
        // SAFETY: the borrow lasts forever, so the memory has no other user.
        unsafe { Arena::new(base, bytes) }
    }

    /// Returns another kernel's arena of the same memory, of which one is used at a time.
    #[cfg(test)]
    pub(crate) fn twin(&self) -> Arena {
        Arena { found: Found::NOTHING, ..*self }
    }

    /// Returns the address of the first byte, which identifies the arena.
    pub const fn base(&self) -> usize {
        self.base
    }

    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn head(&self) -> *mut Head {
        self.base as *mut Head
    }

    /// Writes a new head and frees everything else.
    pub(crate) fn format(&mut self, service: u64, lives: u32) {
        self.forget();
        let head = Head {
            magic: 0,
            bytes: self.bytes as u64,
            service,
            lives: lives.into(),
            state: 0,
            used: 0,
            pool: Pool::new(),
        };
        // SAFETY: `new` reserves the first page for the head.
        unsafe { self.head().write(head) };
        let rest =
            core::ptr::slice_from_raw_parts_mut((self.base + HEAD) as *mut u8, self.bytes - HEAD);
        // SAFETY: the pool was just initialised in place; it owns the rest of the arena forever.
        unsafe {
            (*self.head()).pool.insert_free_block_ptr(NonNull::new_unchecked(rest));
            (*self.head()).magic = MAGIC;
        }
    }

    /// Returns the number of starts of `service`, or `None` if the memory holds no arena of it.
    pub(crate) fn lives(&self, service: u64) -> Option<u32> {
        let head = self.head();
        // SAFETY: the head's memory; any bytes are valid values of its first words.
        let (magic, of, lives) = unsafe { ((*head).magic, (*head).service, (*head).lives) };
        (magic == MAGIC && of == service).then_some(lives as u32)
    }

    /// Does the same as [`Arena::lives`], but returns `None` if the service has no state either.
    pub(crate) fn living(&self, service: u64) -> Option<u32> {
        // SAFETY: as in `lives`.
        self.lives(service).filter(|_| unsafe { (*self.head()).state } != 0)
    }

    /// Returns the number of allocated bytes.
    pub(crate) fn used(&self) -> u64 {
        // SAFETY: as in `lives`.
        unsafe { (*self.head()).used }
    }

    /// Allocates and stores the initial state in a formatted arena. Returns false if there is no
    /// room. Never inlined: the state may be large, and is on this frame's stack only.
    #[inline(never)]
    pub(crate) fn set_state<S: Service>(&mut self, lives: u32) -> bool {
        let Some(place) = NonNull::new(self.allocate(Layout::new::<S>()).cast::<S>()) else {
            return false;
        };
        // SAFETY: allocated for an `S` just now; the head is formatted.
        unsafe {
            place.write(S::start(lives));
            (*self.head()).state = place.as_ptr() as u64;
        }
        true
    }

    /// Returns the state that [`Arena::set_state`] stored, and notes where it is. `holding` is as
    /// for [`Arena::knows`].
    pub(crate) fn state<S: Service>(&mut self, service: u64, holding: u64) -> Option<&mut S> {
        self.lives(service)?;
        // SAFETY: as in `lives`.
        let state = unsafe { (*self.head()).state };
        self.found = Found { service, holding, state };
        self.known_state()
    }

    /// Returns whether [`Arena::state`] has found the state of `service` with this number, which
    /// changes whenever another kernel may have used the arena meanwhile
    /// ([`crate::Custody::holding`]). It has not moved since.
    #[inline]
    pub(crate) fn knows(&self, service: u64, holding: u64) -> bool {
        self.found.service == service && self.found.holding == holding && self.found.state != 0
    }

    /// Returns the state that was found last. To be called if [`Arena::knows`] it.
    #[inline]
    pub(crate) fn known_state<S: Service>(&mut self) -> Option<&mut S> {
        debug_assert_ne!(self.found.service, 0, "a state is found first");
        // SAFETY: when it was found, the arena was formatted for this service, so this is 0 or what
        // `set_state` stored for its one state type. `format` forgets it, and other kernels have
        // not used the arena since. By `new` one arena at a time is used, and this one is borrowed.
        unsafe { (self.found.state as *mut S).as_mut() }
    }

    /// Forgets the state that was found last.
    pub(crate) fn forget(&mut self) {
        self.found = Found::NOTHING;
    }

    fn allocate(&self, layout: Layout) -> *mut u8 {
        // SAFETY: formatted before it became current; one user at a time, by `new`.
        let head = unsafe { &mut *self.head() };
        let Some(memory) = head.pool.allocate(layout) else { return null_mut() };
        head.used += layout.size() as u64;
        memory.as_ptr()
    }

    /// # Safety
    /// `memory` was allocated in this arena with `layout`.
    unsafe fn free(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: as in `allocate`.
        let head = unsafe { &mut *self.head() };
        head.used -= layout.size() as u64;
        // SAFETY: the caller's promise.
        unsafe { head.pool.deallocate(memory, layout.align()) };
    }

    fn holds(&self, memory: *mut u8) -> bool {
        (self.base..self.base + self.bytes).contains(&memory.addr())
    }
}

/// Returns the arena at `base`.
///
/// # Safety
/// `base` is the current heap, so the arena was made by [`Arena::new`] and is formatted.
unsafe fn current(base: usize) -> Arena {
    // SAFETY: the caller's promise.
    let bytes = unsafe { (*(base as *const Head)).bytes } as usize;
    Arena { base, bytes, found: Found::NOTHING }
}

/// This core's current heap: 0 for the kernel's own, otherwise the base of an arena.
pub trait Current {
    fn heap() -> usize;
    /// Returns true only if it is the kernel's own; may be false then, but seldom is.
    #[inline]
    fn is_kernel_heap() -> bool {
        Self::heap() == 0
    }
    /// Sets the heap and returns the previous one.
    fn set_heap(heap: usize) -> usize;
}

/// The `#[global_allocator]` of a kernel with services. Allocations come from the current arena, if
/// there is one, otherwise from the kernel's heap. Memory is freed to the current arena if it lies
/// there, otherwise to the kernel's heap: an arena's memory is only freed while it is current.
pub struct Routed<K, C> {
    kernel: K,
    current: PhantomData<fn() -> C>,
}

impl<K, C> Routed<K, C> {
    /// Wraps the kernel's own heap.
    pub const fn new(kernel: K) -> Self {
        Routed { kernel, current: PhantomData }
    }

    pub const fn kernel(&self) -> &K {
        &self.kernel
    }
}

impl<K: GlobalAlloc, C> Routed<K, C> {
    /// Allocates, most often from an arena.
    ///
    /// # Safety
    /// That of [`GlobalAlloc::alloc`].
    #[inline(never)]
    unsafe fn allocate_beside(&self, layout: Layout) -> *mut u8
    where
        C: Current,
    {
        match C::heap() {
            // SAFETY: the caller's promise.
            0 => unsafe { self.kernel.alloc(layout) },
            // SAFETY: a current heap is an arena's base.
            base => unsafe { current(base) }.allocate(layout),
        }
    }

    /// Frees, most often while an arena is the current heap.
    ///
    /// # Safety
    /// That of [`GlobalAlloc::dealloc`].
    #[inline(never)]
    unsafe fn free_beside(&self, memory: *mut u8, layout: Layout)
    where
        C: Current,
    {
        let base = C::heap();
        if base == 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.kernel.dealloc(memory, layout) };
        }
        // SAFETY: a current heap is an arena's base.
        let arena = unsafe { current(base) };
        match NonNull::new(memory) {
            // SAFETY: the memory lies in the arena; the caller's promise.
            Some(at) if arena.holds(memory) => unsafe { arena.free(at, layout) },
            // SAFETY: the caller's promise.
            _ => unsafe { self.kernel.dealloc(memory, layout) },
        }
    }
}

// SAFETY: each arm is an allocator of its own, and an address tells which one it belongs to: by the
// promise of `Arena::new` no arena overlaps the kernel's heap. The current heap only changes within
// one stretch of unpreempted work.
unsafe impl<K: GlobalAlloc, C: Current> GlobalAlloc for Routed<K, C> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match C::is_kernel_heap() {
            // SAFETY: the caller's promise.
            true => unsafe { self.kernel.alloc(layout) },
            // SAFETY: the caller's promise.
            false => unsafe { self.allocate_beside(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match C::is_kernel_heap() {
            // SAFETY: the caller's promise.
            true => unsafe { self.kernel.dealloc(memory, layout) },
            // SAFETY: the caller's promise.
            false => unsafe { self.free_beside(memory, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if C::is_kernel_heap() || C::heap() == 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.kernel.realloc(memory, layout, new_size) };
        }
        // SAFETY: the caller promises that `new_size`, rounded up to the alignment, fits `isize`.
        let wanted = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: `wanted` is a valid layout of non-zero size, by the caller's promise.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both are valid for the smaller size, and distinct allocations.
            unsafe { moved.copy_from_nonoverlapping(memory, layout.size().min(new_size)) };
            // SAFETY: `memory` was allocated with `layout` and is not used again.
            unsafe { self.dealloc(memory, layout) };
        }
        moved
    }
}
