//! Single frames kept by each core, in front of the buddy allocator.
//!
//! The usual allocation and the usual free are a pop and a push on this core's stack of frames,
//! with interrupts masked and without a lock. An empty stack is refilled and a full one drained
//! by half its size, under one lock. A frame in a cache is marked, so that freeing it again is
//! found out there as well.

use core::sync::atomic::{AtomicUsize, Ordering};

use abi::boot::MAX_CORES;
use arch::lock::CoreLocal;
use base::addr::PhysAddr;
use base::port::Frames;

use crate::frames::{FrameAllocator, FreeError, Placing, RegionError, Statistics};

/// Frames a core keeps.
const SIZE: usize = 32;
/// Frames moved at once.
const BATCH: usize = SIZE / 2;

const _: () = assert!(SIZE * MAX_CORES <= 256, "caches are small beside a kernel's memory");

#[derive(Clone, Copy)]
struct Stack {
    count: usize,
    frames: [PhysAddr; SIZE],
}

/// The kernel's frames: what implements [`Frames`].
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
    /// Without memory.
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

    /// A single frame, from this core's cache.
    #[inline]
    pub fn allocate_one(&self) -> Option<PhysAddr> {
        self.stacks.with(|stack| {
            if stack.count == 0 {
                stack.count = self.frames.refill(&mut stack.frames[..BATCH]);
            }
            let frame = *stack.frames.get(stack.count.checked_sub(1)?)?;
            stack.count -= 1;
            self.frames.take_cached(frame);
            Some(frame)
        })
    }

    /// Gives a single frame back, to this core's cache.
    #[inline]
    pub fn free_one(&self, frame: PhysAddr) -> Result<(), FreeError> {
        self.stacks.with(|stack| {
            if !self.frames.put_cached(frame)? {
                return self.frames.free(frame, 0);
            }
            if stack.count == SIZE {
                self.frames.drain(&stack.frames[BATCH..]);
                stack.count = BATCH;
            }
            stack.frames[stack.count] = frame;
            stack.count += 1;
            Ok(())
        })
    }

    /// A block that its owner lets be moved, near the balloon's frontier.
    pub fn allocate_movable(&self, order: u8) -> Option<PhysAddr> {
        self.frames.allocate_placed(order, Placing::Movable)
    }

    /// The allocator behind the caches, for the balloon.
    pub fn buddy(&self) -> &FrameAllocator {
        &self.frames
    }

    /// Gives a block back.
    pub fn try_free(&self, block: PhysAddr, order: u8) -> Result<(), FreeError> {
        if order == 0 { self.free_one(block) } else { self.frames.free(block, order) }
    }

    /// Empties this core's cache, so that its frames can join into blocks.
    pub fn flush_core(&self) {
        self.stacks.with(|stack| {
            self.frames.drain(&stack.frames[..stack.count]);
            stack.count = 0;
        });
    }

    /// Frames in the buddy allocator; those in caches count as used.
    pub fn statistics(&self) -> Statistics {
        self.frames.statistics()
    }

    /// Of the buddy allocator those that nobody has.
    pub fn free_count(&self) -> usize {
        self.frames.free_count()
    }

    /// Frees that were refused: each one is a defect of its caller.
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
}

#[cfg(test)]
mod tests;
