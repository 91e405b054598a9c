//! The unsafe code of this crate. It accesses memory through the linear map, and only memory that
//! was given to the frame allocator and not handed out (lists in free frames, tags), or that the
//! heap allocated from it (slabs). The caller of `add_region` promises that this memory is usable.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicU8;

use abi::boot::Blob;
use arch::lock::Once;
use arch::mmu::PageTable;
use base::addr::PhysAddr;
use base::id::DomainId;
use base::port::Frames;

use crate::MemoryManager;
use crate::heap::Heap;
use crate::mapping::{Audit, Violation};
use crate::set::BlockSet;

/// A word of memory that an allocator of this crate owns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word(usize);

impl Word {
    /// Returns the word at virtual address `at`, which is 8-aligned and belongs to the caller.
    #[inline]
    pub(crate) fn at(at: usize) -> Word {
        debug_assert!(at.is_multiple_of(8) && at != 0);
        Word(at)
    }

    #[inline]
    pub(crate) fn get(self) -> u64 {
        // SAFETY: the allocator that made this owns the word and holds the lock of its lists.
        unsafe { (self.0 as *const u64).read() }
    }

    #[inline]
    pub(crate) fn set(self, value: u64) {
        // SAFETY: as in `get`.
        unsafe { (self.0 as *mut u64).write(value) }
    }
}

/// Returns `count` bytes at `at`, forever: the tags of a region, in frames that it reserves.
pub(crate) fn tags(at: PhysAddr, count: usize) -> &'static [AtomicU8] {
    let first = at.to_virt().0 as *mut AtomicU8;
    // SAFETY: the caller of `add_region` promised the region, these frames are never handed out,
    // and any byte is a valid `AtomicU8`.
    unsafe { core::slice::from_raw_parts(first, count) }
}

/// Zeroes the tags of a block. The allocator holds its lock.
pub(crate) fn zero_tags(tags: &'static [AtomicU8]) {
    let first = tags.as_ptr() as usize;
    (first..first + tags.len()).step_by(8).for_each(|at| Word::at(at).set(0));
}

/// Fills frames with zeros. The caller must own them.
pub fn zero(at: PhysAddr, order: u8) {
    let frame = |i: usize| (at.to_virt().0 as usize + i * 4096) as *mut [u64; 512];
    for i in 0..1 << order {
        // SAFETY: frames are writable in the linear map, and the caller owns these.
        unsafe { frame(i).write([0; 512]) };
    }
}

/// Words per cache line.
const LINE_WORDS: usize = 8;

/// Copies a cache line, word by word, so that it compiles to one load and one store per word: a
/// copy of the whole line would become a call of a loop with twice as many instructions.
///
/// # Safety
/// Both lines are mapped, 8-aligned, distinct, and have no other user.
#[inline(always)]
unsafe fn copy_line(from: *const u64, into: *mut u64) {
    // SAFETY: within the lines that the caller promises.
    unsafe {
        let [a, b, c, d] =
            [from.read(), from.add(1).read(), from.add(2).read(), from.add(3).read()];
        let [e, f, g, h] =
            [from.add(4).read(), from.add(5).read(), from.add(6).read(), from.add(7).read()];
        into.write(a);
        into.add(1).write(b);
        into.add(2).write(c);
        into.add(3).write(d);
        into.add(4).write(e);
        into.add(5).write(f);
        into.add(6).write(g);
        into.add(7).write(h);
    }
}

/// A single frame, read and written word by word by its holder only.
#[derive(Debug, PartialEq, Eq)]
pub struct Page(PhysAddr);

impl Page {
    pub const WORDS: usize = 512;

    /// Allocates a movable page. Its holder frees it with [`Page::free`], and moves it when the
    /// balloon requests that.
    pub fn movable(frames: &MemoryManager) -> Option<Page> {
        frames.allocate_movable(0).map(Page)
    }

    pub fn at(&self) -> PhysAddr {
        self.0
    }

    fn cell(&self, index: usize) -> Word {
        assert!(index < Page::WORDS, "word of a page");
        Word::at(self.0.to_virt().0 as usize + 8 * index)
    }

    /// Returns a word. Panics if `index` is not below [`Page::WORDS`].
    pub fn get(&self, index: usize) -> u64 {
        self.cell(index).get()
    }

    /// Sets a word. Panics if `index` is not below [`Page::WORDS`].
    pub fn set(&mut self, index: usize, value: u64) {
        self.cell(index).set(value);
    }

    /// Moves the contents to the frame `to`, which [`crate::frames::span::Mover::move_page`]
    /// received for this page.
    pub fn relocate(&mut self, to: PhysAddr) {
        let place = |at: PhysAddr| at.to_virt().0 as *mut u64;
        let (from, into) = (place(self.0), place(to));
        for word in (0..Page::WORDS).step_by(4 * LINE_WORDS) {
            // SAFETY: both frames are mapped and have no other user: one is this page's, the other
            // was allocated for it; the four lines at `word` are within a page.
            unsafe {
                let (from, into) = (from.add(word), into.add(word));
                copy_line(from, into);
                copy_line(from.add(LINE_WORDS), into.add(LINE_WORDS));
                copy_line(from.add(2 * LINE_WORDS), into.add(2 * LINE_WORDS));
                copy_line(from.add(3 * LINE_WORDS), into.add(3 * LINE_WORDS));
            }
        }
        self.0 = to;
    }

    pub fn free(self, frames: &MemoryManager) {
        frames.free(self.0, 0);
    }
}

/// Switches this core to `table` if it passes the audit: then all code, data and stacks of the
/// running image keep their addresses, and no rule is broken.
pub fn activate(table: &PageTable, blob: &Blob, domain: DomainId) -> Result<Audit, Violation> {
    let audit = crate::mapping::audit(table, blob, domain, &BlockSet::new())?;
    // SAFETY: `kernel_table` mapped the image where it runs, and the audit found no rule broken.
    unsafe { table.activate() };
    Ok(audit)
}

/// The kernel's global allocator: `#[global_allocator] static HEAP: KernelHeap`. Allocation fails,
/// and never spins, without memory or before [`KernelHeap::init`].
pub struct KernelHeap {
    heap: Heap,
    frames: Once<&'static (dyn Frames + Sync)>,
}

impl KernelHeap {
    /// Creates a heap without frames.
    pub const fn new() -> Self {
        KernelHeap { heap: Heap::new(), frames: Once::new() }
    }

    /// Sets the source of frames. Only the first call has an effect.
    pub fn init(&self, frames: &'static (dyn Frames + Sync)) {
        let _ = self.frames.set(frames);
    }

    /// Returns the memory use.
    pub fn usage(&self) -> crate::heap::Usage {
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
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(&frames) = self.frames.get() else { return null_mut() };
        let memory = self.heap.allocate(frames, layout);
        memory.map_or(null_mut(), |at| at.get() as *mut u8)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if let (Some(&frames), Some(memory)) = (self.frames.get(), NonNull::new(memory)) {
            self.heap.free(frames, memory.addr(), layout);
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
