//! This kernel's memory: frames, heap, stacks and the page table, and the frames before frames.

use arch::lock::{Lock, Once};
use arch::mmu::PageTable;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::{self, Frames};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use kernel_mem::spaces::Spaces;
use kernel_mem::stacks::{STACK, Stack, Stacks};
use kernel_mem::{KernelHeap, MemoryManager};
use share::{Current, Routed};

/// The heap that a core allocates from.
pub struct CoreHeap;

impl Current for CoreHeap {
    #[inline]
    fn heap() -> usize {
        arch::hold::heap()
    }
    fn set_heap(heap: usize) -> usize {
        arch::hold::set_heap(heap)
    }
}

/// Page frames.
pub static FRAMES: MemoryManager = MemoryManager::new();
/// Everything `alloc`: the kernel's own heap, and the arena of a service while it steps.
#[global_allocator]
pub static HEAP: Routed<KernelHeap, CoreHeap> = Routed::new(KernelHeap::new());
/// The page table of all cores.
pub static TABLE: Once<Lock<PageTable>> = Once::new();
/// Address space of all programs.
pub static SPACES: Spaces = Spaces::new();
static STACKS: Stacks = Stacks::new();

/// Frames of the image itself, for the first page table: nothing else is mapped until it is active.
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

    /// The first page table is never taken apart.
    fn free(&self, _: PhysAddr, _: u8) {}
}

/// Kernel stacks, as the scheduler wants them.
pub struct KernelStacks;

impl port::Stacks for KernelStacks {
    fn allocate(&self) -> Option<usize> {
        let stack = STACKS.allocate(TABLE.get()?, &FRAMES).ok()?;
        Some(stack.into_top())
    }

    fn release(&self, top: usize) {
        let (Some(stack), Some(table)) = (Stack::from_top(top), TABLE.get()) else { return };
        STACKS.release(stack);
        STACKS.trim(KEEP, table, &FRAMES, &crate::shootdown::flush_all);
    }
}

/// Unused stacks that keep their memory.
const KEEP: usize = 8;

/// Bytes of the page table; its first frames are the image's.
pub fn tables() -> u64 {
    TABLE.get().map_or(0, |table| table.lock().tables() as u64) * PAGE
}

/// Bytes of stacks that nobody runs on, with the `spare` ones that the scheduler keeps.
pub fn unused_stacks(spare: usize) -> u64 {
    (STACKS.idle() + spare) as u64 * STACK
}

/// Memory of this kernel, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// All local memory.
    pub total: u64,
    /// Free frames.
    pub free: u64,
    /// The image with its data.
    pub image: u64,
    /// The frame allocator's own tables.
    pub metadata: u64,
    /// Frames of the heap.
    pub heap: u64,
    /// Allocated from it.
    pub heap_live: u64,
}

impl Use {
    /// As of now.
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

    /// All that is not free.
    pub fn used(&self) -> u64 {
        self.total - self.free
    }
}
