//! The heap as Rust's global allocator. The unsafe code here is that trait's.

use core::alloc::{GlobalAlloc, Layout};
use core::num::NonZeroUsize;
use core::ptr::NonNull;

use arch::lock::Once;
use base::port::Frames;

use crate::heap::magazines::Magazines;
use crate::heap::{Backing, Heap, Usage, backing};

/// The kernel's global allocator: `#[global_allocator] static HEAP: KernelHeap`. Allocation fails,
/// and never spins, without memory or before [`KernelHeap::init`].
pub struct KernelHeap {
    heap: Heap,
    magazines: Magazines,
    frames: Once<&'static (dyn Frames + Sync)>,
}

impl KernelHeap {
    /// Creates a heap without frames.
    pub const fn new() -> Self {
        KernelHeap { heap: Heap::new(), magazines: Magazines::new(), frames: Once::new() }
    }

    /// Sets the source of frames. Only the first call has an effect.
    pub fn init(&self, frames: &'static (dyn Frames + Sync)) {
        let _ = self.frames.set(frames);
    }

    /// Allocates what this core does not keep. Returns 0 without memory.
    #[cold]
    #[inline(never)]
    fn allocate_from_heap(&self, layout: Layout) -> usize {
        let Some(&frames) = self.frames.get() else { return 0 };
        let directly = || self.heap.allocate(frames, layout);
        let found = match backing(layout) {
            Backing::Class(class) => self.magazines.refill_and_take(&self.heap, frames, class),
            _ => directly(),
        };
        found
            .or_else(|| {
                self.flush_core();
                directly()
            })
            .map_or(0, NonZeroUsize::get)
    }

    /// Frees what this core does not keep.
    #[cold]
    #[inline(never)]
    fn free_to_heap(&self, memory: *mut u8, layout: Layout) {
        let (Some(&frames), Some(memory)) = (self.frames.get(), NonNull::new(memory)) else {
            return;
        };
        match backing(layout) {
            Backing::Class(class) => {
                self.magazines.empty_and_give(&self.heap, frames, class, memory.addr().get());
            }
            _ => self.heap.free(frames, memory.addr(), layout),
        }
    }

    /// Frees the objects that this core keeps, so that their slabs can be freed too.
    pub fn flush_core(&self) {
        if let Some(&frames) = self.frames.get() {
            self.magazines.flush_core(&self.heap, frames);
        }
    }

    /// Returns the memory use.
    pub fn usage(&self) -> Usage {
        self.heap.usage()
    }
}

impl Default for KernelHeap {
    fn default() -> Self {
        KernelHeap::new()
    }
}

// SAFETY: `Heap` hands out memory of frames that only it holds, at least as large and aligned as
// the layout, and no byte twice before it is freed; it only unwinds if an invariant is broken.
// Layouts of `dealloc` and `realloc` are the allocation's, by the trait's contract.
unsafe impl GlobalAlloc for KernelHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let kept = match backing(layout) {
            Backing::Class(class) => self.magazines.take(class),
            _ => 0,
        };
        let memory = if kept != 0 { kept } else { self.allocate_from_heap(layout) };
        memory as *mut u8
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let is_kept = match backing(layout) {
            Backing::Class(class) => self.magazines.give(class, memory.addr()),
            _ => false,
        };
        if !is_kept {
            self.free_to_heap(memory, layout);
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `new_size`, rounded up to the alignment, fits `isize`.
        let wanted = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if self.heap.resize_in_place(layout, wanted) {
            return memory;
        }
        // SAFETY: `wanted` is a valid layout of non-zero size, by the caller's promise.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both are valid for the smaller size, and distinct allocations.
            unsafe { moved.copy_from_nonoverlapping(memory, layout.size().min(new_size)) };
            // SAFETY: `memory` was allocated here with `layout` and is not used again.
            unsafe { self.dealloc(memory, layout) };
        }
        moved
    }
}
