//! This kernel's memory: page frames, heap, stacks and the page table, and the frames that the
//! first page table is made of, before there is a frame allocator.

use arch::lock::{Lock, Once};
use arch::mmu::PageTable;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::{self, Frames};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use kernel_mem::spaces::Spaces;
use kernel_mem::stacks::{STACK, Stack, Stacks};
use kernel_mem::{KernelHeap, MemoryManager};
use share::{Current, Routed};

/// Selects the heap that the current core allocates from.
pub struct CoreHeap;

impl Current for CoreHeap {
    #[inline]
    fn heap() -> usize {
        arch::hold::heap()
    }
    #[inline]
    fn is_kernel_heap() -> bool {
        arch::hold::is_kernel_heap()
    }
    #[inline]
    fn set_heap(heap: usize) -> usize {
        arch::hold::set_heap(heap)
    }
}

pub static FRAMES: MemoryManager = MemoryManager::new();
/// The global allocator: the kernel's own heap, or the arena of the service that the core is
/// executing a step of.
#[cfg_attr(target_os = "none", global_allocator)]
pub static HEAP: Routed<KernelHeap, CoreHeap> = Routed::new(KernelHeap::new());
/// The page table; all cores of this domain use it.
pub static TABLE: Once<Lock<PageTable>> = Once::new();
/// Address space of all programs.
pub static SPACES: Spaces = Spaces::new();
static STACKS: Stacks = Stacks::new();

/// Allocates frames from the image itself. For the first page table, because nothing else is mapped
/// until it is active.
pub struct BootFrames;

const BOOT_FRAMES: usize = 32;

#[repr(align(4096))]
struct Pages([[AtomicU64; 512]; BOOT_FRAMES]);

static PAGES: Pages = Pages([const { [const { AtomicU64::new(0) }; 512] }; BOOT_FRAMES]);
static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Frames for BootFrames {
    fn allocate(&self, order: u8) -> Option<PhysAddr> {
        let page = PAGES.0.get(NEXT.fetch_add(1, Ordering::Relaxed))?;
        (order == 0).then(|| VirtAddr(page.as_ptr() as u64).to_phys())
    }

    /// Does nothing: the first page table is never freed.
    fn free(&self, _: PhysAddr, _: u8) {}
}

/// Allocates kernel stacks for the scheduler.
pub struct KernelStacks;

impl port::Stacks for KernelStacks {
    fn allocate(&self) -> Option<usize> {
        let flush = &crate::shootdown::flush_all;
        let stack = STACKS.allocate(TABLE.get()?, &FRAMES, flush).ok()?;
        Some(stack.into_top())
    }

    fn release(&self, top: usize) {
        let (Some(stack), Some(table)) = (Stack::from_top(top), TABLE.get()) else { return };
        STACKS.release(stack);
        STACKS.trim(KEEP, table, &FRAMES, &crate::shootdown::flush_all);
    }
}

/// Number of unused stacks that keep their memory.
const KEEP: usize = 8;

/// Returns the size of the page table in bytes. Its first frames are part of the image.
pub fn tables() -> u64 {
    TABLE.get().map_or(0, |table| table.lock().tables() as u64) * PAGE
}

/// Returns the size in bytes of all unused stacks, including the `spare` ones that the scheduler
/// keeps.
pub fn unused_stacks(spare: usize) -> u64 {
    (STACKS.idle() + spare) as u64 * STACK
}

/// Frees what this core keeps of the heap and of frames.
pub fn flush_core() {
    HEAP.kernel().flush_core();
    FRAMES.flush_core();
}

/// How this kernel's memory is used, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// All local memory.
    pub total: u64,
    /// Free frames.
    pub free: u64,
    /// The image with its data.
    pub image: u64,
    /// Tables of the frame allocator.
    pub metadata: u64,
    /// Frames that the heap has taken.
    pub heap: u64,
    /// Bytes allocated from the heap, with what cores keep.
    pub heap_live: u64,
}

impl Use {
    /// Returns the current use.
    pub fn now() -> Use {
        let frames = FRAMES.statistics();
        let heap = HEAP.kernel().usage();
        let (start, end) = kernel_mem::mapping::image_range(&arch::image::layout());
        let image = end.0 - start.0;
        Use {
            total: frames.total as u64 * PAGE,
            free: frames.free as u64 * PAGE,
            image,
            metadata: (frames.kept as u64 * PAGE).saturating_sub(image),
            heap: heap.taken as u64,
            heap_live: heap.used as u64,
        }
    }

    pub fn used(&self) -> u64 {
        self.total - self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_frames_are_single_pages_of_the_image_until_none_is_left() {
        let mut frames = std::vec::Vec::new();
        while let Some(frame) = BootFrames.allocate(0) {
            assert!(frame.is_aligned(PAGE));
            frames.push(frame);
        }
        assert_eq!(frames.len(), BOOT_FRAMES);
        frames.dedup();
        assert_eq!(frames.len(), BOOT_FRAMES);
        assert_eq!(BootFrames.allocate(1), None);
    }
}
