//! Per-core caches of single frames in front of the buddy allocator.
//!
//! Usually, allocating and freeing a frame is a pop and a push on this core's stack of frames, with
//! interrupts masked and without a lock. An empty stack is refilled, and a full one drained, by
//! half its size under one lock. Cached frames are marked in their tags, so that a double free is
//! detected here too.

use core::sync::atomic::{AtomicUsize, Ordering};

use abi::boot::MAX_CORES;
use arch::lock::CoreLocal;
use base::addr::PhysAddr;
use base::port::Frames;

use crate::frames::{FrameAllocator, FreeError, Placing, RegionError, Statistics};

/// Capacity of a core's cache, in frames.
const SIZE: usize = 32;
/// Number of frames moved per refill or drain.
const BATCH: usize = SIZE / 2;

const _: () = assert!(SIZE * MAX_CORES <= 256, "caches are small compared with a kernel's memory");

#[derive(Clone, Copy)]
struct Stack {
    count: usize,
    frames: [PhysAddr; SIZE],
}

/// The kernel's frames; implements [`Frames`].
pub struct MemoryManager {
    frames: FrameAllocator,
    stacks: CoreLocal<Stack>,
    bad_frees: AtomicUsize,
}

impl Default for MemoryManager {
    fn default() -> Self {
        MemoryManager::new()
    }
}

impl MemoryManager {
    /// Creates a manager without memory.
    pub const fn new() -> Self {
        const EMPTY: Stack = Stack { count: 0, frames: [PhysAddr(0); SIZE] };
        MemoryManager {
            frames: FrameAllocator::new(),
            stacks: CoreLocal::new(EMPTY),
            bad_frees: AtomicUsize::new(0),
        }
    }

    /// See [`FrameAllocator::add_region`].
    pub fn add_region(
        &self,
        base: PhysAddr,
        bytes: u64,
        kept: &[(PhysAddr, PhysAddr)],
    ) -> Result<(), RegionError> {
        self.frames.add_region(base, bytes, kept)
    }

    /// Allocates a single frame from this core's cache.
    #[inline]
    pub fn allocate_one(&self) -> Option<PhysAddr> {
        self.stacks.with(|stack| {
            if stack.count == 0 {
                self.refill(stack);
            }
            let frame = *stack.frames.get(stack.count.checked_sub(1)?)?;
            stack.count -= 1;
            self.frames.take_cached(frame);
            Some(frame)
        })
    }

    /// Frees a single frame to this core's cache.
    #[inline]
    pub fn free_one(&self, frame: PhysAddr) -> Result<(), FreeError> {
        self.stacks.with(|stack| {
            if !self.frames.put_cached(frame)? {
                return self.free_uncached(frame);
            }
            if stack.count == SIZE {
                self.drain(stack);
            }
            stack.frames[stack.count] = frame;
            stack.count += 1;
            Ok(())
        })
    }

    #[inline(never)]
    fn refill(&self, stack: &mut Stack) {
        stack.count = self.frames.refill(&mut stack.frames[..BATCH]);
    }

    #[inline(never)]
    fn drain(&self, stack: &mut Stack) {
        self.frames.drain(&stack.frames[BATCH..]);
        stack.count = BATCH;
    }

    /// Frees a frame that caches do not take.
    #[cold]
    #[inline(never)]
    fn free_uncached(&self, frame: PhysAddr) -> Result<(), FreeError> {
        self.frames.free(frame, 0)
    }

    /// Allocates a block that its owner can move ([`crate::frames::span::Mover`]), near the
    /// balloon's frontier.
    pub fn allocate_movable(&self, order: u8) -> Option<PhysAddr> {
        self.frames.allocate_placed(order, Placing::Movable)
    }

    /// Returns the buddy allocator, for the balloon.
    pub fn buddy(&self) -> &FrameAllocator {
        &self.frames
    }

    /// Frees a block of `1 << order` frames.
    pub fn try_free(&self, block: PhysAddr, order: u8) -> Result<(), FreeError> {
        if order == 0 { self.free_one(block) } else { self.frames.free(block, order) }
    }

    /// Empties this core's cache, so that its frames can join with their buddies.
    pub fn flush_core(&self) {
        self.stacks.with(|stack| {
            self.frames.drain(&stack.frames[..stack.count]);
            stack.count = 0;
        });
    }

    /// Returns the buddy allocator's statistics, which count cached frames as used.
    pub fn statistics(&self) -> Statistics {
        self.frames.statistics()
    }

    /// Returns the number of free frames in the buddy allocator.
    pub fn free_count(&self) -> usize {
        self.frames.free_count()
    }

    /// Returns the number of refused frees; each is a bug of its caller.
    pub fn bad_frees(&self) -> usize {
        self.bad_frees.load(Ordering::Relaxed)
    }
}

impl Frames for MemoryManager {
    #[inline]
    fn allocate(&self, order: u8) -> Option<PhysAddr> {
        if order == 0 {
            return self.allocate_one();
        }
        self.frames.allocate(order).or_else(|| {
            self.flush_core();
            self.frames.allocate(order)
        })
    }

    #[inline]
    fn free(&self, block: PhysAddr, order: u8) {
        if self.try_free(block, order).is_err() {
            self.bad_frees.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn allocate_run(&self, count: usize) -> Option<PhysAddr> {
        if count == 1 {
            return self.allocate_one();
        }
        self.frames.allocate_run(count).or_else(|| {
            self.flush_core();
            self.frames.allocate_run(count)
        })
    }

    fn free_run(&self, run: PhysAddr, count: usize) {
        let freed = if count == 1 { self.free_one(run) } else { self.frames.free_run(run, count) };
        if freed.is_err() {
            self.bad_frees.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
