//! The ports: what a layer needs from below.

use crate::addr::PhysAddr;
use crate::id::{DomainId, Vector};

/// Waiting for something that another core or domain must do. The one implementation serves the
/// DSM queue, the shootdown queue and urgent messages meanwhile; nothing in the kernel may wait
/// in another way.
pub trait Attend {
    /// Returns when `ready` does; neither allocates nor locks.
    fn until(&self, ready: &mut dyn FnMut() -> bool);
}

/// Page frames of this kernel.
pub trait Frames {
    /// `1 << order` frames, aligned to their size; `None` when there are none.
    fn allocate(&self, order: u8) -> Option<PhysAddr>;
    /// Gives back what [`Frames::allocate`] returned for the same order.
    fn free(&self, frames: PhysAddr, order: u8);
}

/// Cache maintenance by address range, to the point of coherency.
pub trait Cache {
    /// Writes dirty lines back.
    fn clean(&self, start: usize, bytes: usize);
    /// Drops lines; dirty data in them is lost.
    fn invalidate(&self, start: usize, bytes: usize);
    /// Writes dirty lines back and drops them.
    fn clean_invalidate(&self, start: usize, bytes: usize);
}

/// Time.
pub trait Clock {
    /// Nanoseconds on the chip-wide clock, monotonic across domains.
    fn soc_time(&self) -> u64;
}

/// A bounded structured log; a full one drops the oldest record and counts it.
pub trait Trace {
    /// One record.
    fn event(&self, name: &'static str, a: u64, b: u64);
}

/// Waking one thread of this kernel by its token.
pub trait Wake {
    /// Wakes it; a stale token wakes nobody.
    fn wake(&self, token: u64);
}

/// Ringing another domain.
pub trait Doorbell {
    /// An edge at `vector` of `target`; edges coalesce, and one to a dead domain is lost.
    fn ring(&self, target: DomainId, vector: Vector);
}

/// Memory between domains as 64-bit words, one writer a word. On a kernel these are the accesses
/// of `arch::shared`; in the simulator, stores that linger and reorder until a barrier.
pub trait Words {
    /// Loads the word at byte offset `at` (a multiple of 8).
    fn load(&self, at: usize) -> u64;
    /// Stores the word at byte offset `at`; visible to others at the latest after a `barrier`.
    fn store(&self, at: usize, value: u64);
    /// Full barrier, outer shareable: accesses before it are seen before accesses after it.
    fn barrier(&self);
}

impl<W: Words + ?Sized> Words for &W {
    fn load(&self, at: usize) -> u64 {
        (**self).load(at)
    }
    fn store(&self, at: usize, value: u64) {
        (**self).store(at, value);
    }
    fn barrier(&self) {
        (**self).barrier();
    }
}

/// Kernel stacks, each with an unmapped guard below it.
pub trait Stacks {
    /// The top of a fresh one; `None` when there is no memory.
    fn allocate(&self) -> Option<usize>;
    /// Gives one back, by its top; nobody runs on it any more.
    fn release(&self, top: usize);
}

/// A value that one at a time reaches: on this kernel, or on all kernels.
pub trait Exclusive<T> {
    /// Runs `work` once, with nobody else at the value. Waits for its turn.
    fn exclusively(&self, work: &mut dyn FnMut(&mut T));
}
