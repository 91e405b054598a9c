//! The unsafe lines of this crate: memory of an arena as a heap and as a service's state, and the
//! allocator that routes between a kernel's own heap and the arena that is current.
//!
//! Contract: an arena's memory is nobody else's ([`Arena::new`] promises it), and is reached under
//! its service's lock only ([`crate::instance`]). Head and pool have the same layout in every ISA
//! (`docs/design/shadowable.md`), so that whichever kernel holds the lock goes on where the other
//! left it.
#![allow(unsafe_code)]

use crate::form::Service;
use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};
use rlsf::Tlsf;

/// Blocks up to 16 MiB, in 16 size classes a power of two; the tables fill half a page.
type Pool = Tlsf<'static, u32, u16, 20, 16>;

/// "arena", and the version of the layout.
const MAGIC: u64 = 0x0001_6172_656e_6100;
/// The head has the first page to itself.
const HEAD: usize = 4096;

/// What an arena begins with.
#[repr(C)]
struct Head {
    magic: u64,
    /// Of the whole arena.
    bytes: u64,
    /// Names the service, and with it the type of its state.
    service: u64,
    /// How often the service was started.
    lives: u64,
    /// Address of its state, or 0.
    state: u64,
    /// Bytes that are allocated, as asked for.
    used: u64,
    pool: Pool,
}

const _: () = assert!(size_of::<Head>() <= HEAD && size_of::<usize>() == 8);

/// Memory of one service instance: its state, and everything that it allocates.
#[derive(Debug)]
pub struct Arena {
    base: usize,
    bytes: usize,
}

impl Arena {
    /// The `bytes` bytes at `base`; `None` when that is no place for one.
    ///
    /// # Safety
    /// They are readable and writable memory for ever and nobody else's. Where there are arenas at
    /// this place in several kernels, one at a time is used.
    pub const unsafe fn new(base: usize, bytes: usize) -> Option<Arena> {
        if base == 0 || !base.is_multiple_of(HEAD) || bytes < 2 * HEAD || bytes > 1 << 30 {
            return None;
        }
        Some(Arena { base, bytes })
    }

    /// All of `memory`, which begins at a page; `None` when it is no place for one.
    pub fn of(memory: &'static mut [u8]) -> Option<Arena> {
        let (base, bytes) = (memory.as_mut_ptr().expose_provenance(), memory.len());
        // SAFETY: it is borrowed for ever, so nobody else has it.
        unsafe { Arena::new(base, bytes) }
    }

    /// First byte; names the arena.
    pub const fn base(&self) -> usize {
        self.base
    }

    /// Bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn head(&self) -> *mut Head {
        self.base as *mut Head
    }

    /// Empties it: the head anew, all else free.
    pub(crate) fn format(&mut self, service: u64, lives: u32) {
        let head = Head {
            magic: 0,
            bytes: self.bytes as u64,
            service,
            lives: lives.into(),
            state: 0,
            used: 0,
            pool: Pool::new(),
        };
        // SAFETY: the first page is the head's, by `new`.
        unsafe { self.head().write(head) };
        let rest =
            core::ptr::slice_from_raw_parts_mut((self.base + HEAD) as *mut u8, self.bytes - HEAD);
        // SAFETY: the pool was just made, in place; the rest of the arena is its for ever.
        unsafe {
            (*self.head()).pool.insert_free_block_ptr(NonNull::new_unchecked(rest));
            (*self.head()).magic = MAGIC;
        }
    }

    /// Starts of `service` so far; `None` when the memory holds no arena of it.
    pub(crate) fn lives(&self, service: u64) -> Option<u32> {
        let head = self.head();
        // SAFETY: memory of the head; any bytes are a value of its first words.
        let (magic, of, lives) = unsafe { ((*head).magic, (*head).service, (*head).lives) };
        (magic == MAGIC && of == service).then_some(lives as u32)
    }

    /// The same, when its state is there.
    pub(crate) fn living(&self, service: u64) -> Option<u32> {
        // SAFETY: as in `lives`.
        self.lives(service).filter(|_| unsafe { (*self.head()).state } != 0)
    }

    /// Bytes that are allocated.
    pub(crate) fn used(&self) -> u64 {
        // SAFETY: as in `lives`.
        unsafe { (*self.head()).used }
    }

    /// Puts a service's first state into it, formatted as that service's. False: no room. The state
    /// may be large: it is on the stack here, and in no frame above.
    #[inline(never)]
    pub(crate) fn set_state<S: Service>(&mut self, lives: u32) -> bool {
        let Some(place) = NonNull::new(self.allocate(Layout::new::<S>()).cast::<S>()) else {
            return false;
        };
        // SAFETY: just allocated for an `S`; the head is formatted.
        unsafe {
            place.write(S::start(lives));
            (*self.head()).state = place.as_ptr() as u64;
        }
        true
    }

    /// The state that [`Arena::set_state`] put there.
    pub(crate) fn state<S: Service>(&mut self, service: u64) -> Option<&mut S> {
        self.lives(service)?;
        // SAFETY: formatted as this service's, so the word is 0 or what `set_state` stored for its
        // one type of state; one arena at a time is used, by `new`, and this one is borrowed.
        unsafe { ((*self.head()).state as *mut S).as_mut() }
    }

    fn allocate(&self, layout: Layout) -> *mut u8 {
        // SAFETY: formatted before it became current; used by one at a time, by `new`.
        let head = unsafe { &mut *self.head() };
        let Some(memory) = head.pool.allocate(layout) else { return null_mut() };
        head.used += layout.size() as u64;
        memory.as_ptr()
    }

    /// # Safety
    /// `memory` was allocated here with `layout`.
    unsafe fn free(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: as in `allocate`.
        let head = unsafe { &mut *self.head() };
        head.used -= layout.size() as u64;
        // SAFETY: by the caller's promise.
        unsafe { head.pool.deallocate(memory, layout.align()) };
    }

    fn holds(&self, memory: *mut u8) -> bool {
        (self.base..self.base + self.bytes).contains(&memory.addr())
    }
}

/// The arena at `base`, which was the base of one.
///
/// # Safety
/// It is the current heap, so it was made by [`Arena::new`] and is formatted.
unsafe fn current(base: usize) -> Arena {
    // SAFETY: by the caller's promise.
    let bytes = unsafe { (*(base as *const Head)).bytes } as usize;
    Arena { base, bytes }
}

/// Which heap is current on this core: 0 the kernel's own, else the base of an arena.
pub trait Current {
    /// Now.
    fn heap() -> usize;
    /// Another one; returns the one before.
    fn set_heap(heap: usize) -> usize;
}

/// The global allocator of a kernel with services: `#[global_allocator]`. What is allocated while
/// an arena is current comes from it. Memory is given back to where it came from: an arena's, if it
/// lies in the current one, and nobody else holds any of it.
pub struct Routed<K, C> {
    kernel: K,
    current: PhantomData<fn() -> C>,
}

impl<K, C> Routed<K, C> {
    /// Around the kernel's own heap.
    pub const fn new(kernel: K) -> Self {
        Routed { kernel, current: PhantomData }
    }

    /// The kernel's own heap.
    pub const fn kernel(&self) -> &K {
        &self.kernel
    }
}

// SAFETY: each arm is an allocator of its own, and which one a piece of memory is from is told by
// its address: arenas and a kernel's own heap do not overlap, by the promise of `Arena::new`. The
// current heap changes within one piece of unpreempted work only.
unsafe impl<K: GlobalAlloc, C: Current> GlobalAlloc for Routed<K, C> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match C::heap() {
            // SAFETY: by the caller's promise.
            0 => unsafe { self.kernel.alloc(layout) },
            // SAFETY: a current heap is an arena's base.
            base => unsafe { current(base) }.allocate(layout),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match (C::heap(), NonNull::new(memory)) {
            // SAFETY: a current heap is an arena's base; the memory lies in it.
            (base, Some(at)) if base != 0 && unsafe { current(base) }.holds(memory) => {
                // SAFETY: the same, and the caller's promise.
                unsafe { current(base).free(at, layout) }
            }
            // SAFETY: by the caller's promise.
            _ => unsafe { self.kernel.dealloc(memory, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if C::heap() == 0 {
            // SAFETY: by the caller's promise.
            return unsafe { self.kernel.realloc(memory, layout, new_size) };
        }
        // SAFETY: the caller promises that `new_size`, rounded up to the alignment, fits `isize`.
        let wanted = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: `wanted` is a valid layout of non-zero size, by the caller's promise.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both are valid for the smaller size, and distinct allocations.
            unsafe { moved.copy_from_nonoverlapping(memory, layout.size().min(new_size)) };
            // SAFETY: `memory` was allocated with `layout`, and is not used any more.
            unsafe { self.dealloc(memory, layout) };
        }
        moved
    }
}
