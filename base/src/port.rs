//! The ports: services that a layer needs from below.

use crate::addr::PhysAddr;

/// Waiting for something that another core or domain must do. The kernel's implementation serves
/// the DSM queue, the TLB shootdown queue and urgent messages meanwhile, so nothing may wait in
/// another way.
pub trait Attend {
    /// Returns when `ready` returns true. Neither allocates nor locks.
    fn until(&self, ready: &mut dyn FnMut() -> bool);
}

/// Page frames of this kernel.
pub trait Frames {
    /// Allocates `1 << order` frames, aligned to their size; `None` if there is no memory.
    fn allocate(&self, order: u8) -> Option<PhysAddr>;
    /// Frees what [`Frames::allocate`] returned for the same order.
    fn free(&self, frames: PhysAddr, order: u8);

    /// Allocates at least `count` adjacent frames, aligned to the power of two that is no smaller.
    fn allocate_run(&self, count: usize) -> Option<PhysAddr> {
        self.allocate(order_of(count)?)
    }

    /// Frees what [`Frames::allocate_run`] returned for the same count.
    fn free_run(&self, frames: PhysAddr, count: usize) {
        if let Some(order) = order_of(count) {
            self.free(frames, order);
        }
    }
}

/// Returns the order of the smallest block that has `count` frames; `None` for none.
pub fn order_of(count: usize) -> Option<u8> {
    let frames = count.checked_next_power_of_two().filter(|_| count != 0);
    frames.map(|frames| frames.ilog2() as u8)
}

/// Cache maintenance by address range, to the point of coherency.
pub trait Cache {
    /// Writes dirty lines back.
    fn clean(&self, start: usize, bytes: usize);
    /// Drops lines; dirty data in them are lost.
    fn invalidate(&self, start: usize, bytes: usize);
    /// Writes dirty lines back and drops them.
    fn clean_invalidate(&self, start: usize, bytes: usize);
}

/// A bounded structured log. When full, it drops the oldest record and counts it.
pub trait Trace {
    /// Adds a record.
    fn event(&self, name: &'static str, a: u64, b: u64);
}

/// Memory between domains: 64-bit words with one writer each. A kernel uses the accesses of
/// `arch::shared`; in the simulator, stores are delayed and reordered until a barrier.
pub trait Words {
    /// Loads the word at byte offset `at` (a multiple of 8).
    fn load(&self, at: usize) -> u64;
    /// Stores the word at byte offset `at`; other domains see it after a `barrier`, or earlier.
    fn store(&self, at: usize, value: u64);
    /// Loads the words from byte offset `at` on.
    fn load_all(&self, at: usize, to: &mut [u64]) {
        to.iter_mut().enumerate().for_each(|(i, word)| *word = self.load(at + 8 * i));
    }
    /// Stores the words from byte offset `at` on.
    fn store_all(&self, at: usize, from: &[u64]) {
        from.iter().enumerate().for_each(|(i, word)| self.store(at + 8 * i, *word));
    }
    /// Full barrier: every domain sees accesses before it before those after it.
    fn barrier(&self);
}

impl<W: Words + ?Sized> Words for &W {
    fn load(&self, at: usize) -> u64 {
        (**self).load(at)
    }
    fn store(&self, at: usize, value: u64) {
        (**self).store(at, value);
    }
    fn load_all(&self, at: usize, to: &mut [u64]) {
        (**self).load_all(at, to);
    }
    fn store_all(&self, at: usize, from: &[u64]) {
        (**self).store_all(at, from);
    }
    fn barrier(&self) {
        (**self).barrier();
    }
}

/// Kernel stacks, each with an unmapped guard below it.
pub trait Stacks {
    /// Allocates a stack and returns its top; `None` if there is no memory.
    fn allocate(&self) -> Option<usize>;
    /// Frees a stack by its top. No thread runs on it.
    fn release(&self, top: usize);
}

/// A value with mutual exclusion, in this kernel or among all kernels.
pub trait Exclusive<T> {
    /// Runs `work` with exclusive access to the value, waiting for its turn.
    fn exclusively<R>(&self, work: impl FnOnce(&mut T) -> R) -> R;
}
