//! Locks that this domain keeps between its steps, as long as no other domain runs that could want
//! them.
//!
//! Contract: for all other domains a kept lock is one that this domain has. That none of them runs
//! is only a hint: a domain that wants a kept lock waits for it. This domain releases all that it
//! keeps ([`Kept::release_all`]) when the chip page changes, which says that another one runs;
//! before it waits for a lock; and when it has waited long for anything else.
//!
//! ```text
//!   others run:                none does:
//!   free <--- step ---> had    had --- step ends ---> kept
//!     ^                         ^ <--- step begins ---  |
//!     |                                                 | release_all
//!     '------------------ leaving <---------------------'
//! ```
//! Steps begin and end on any core, one at a time for each lock. [`Kept::release_all`] may run on
//! another core at the same time, or interrupt a step.

use abi::lock::LOCKS;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::cpu;

/// A step has the lock, or this domain has not.
const FREE: u32 = 0;
const KEPT: u32 = 1;
/// It is being released.
const LEAVING: u32 = 2;

/// The locks that a domain keeps.
#[derive(Debug)]
pub(super) struct Kept {
    /// Whether steps keep their locks.
    keeps: AtomicBool,
    locks: [KeptLock; LOCKS],
}

/// One of them.
#[derive(Debug)]
struct KeptLock {
    phase: AtomicU32,
    /// How many steps have kept it.
    steps: AtomicU32,
}

impl Kept {
    pub(super) const fn new() -> Kept {
        let locks = [const { KeptLock::new() }; LOCKS];
        Kept { keeps: AtomicBool::new(false), locks }
    }

    /// Steps keep their locks from now on.
    pub(super) fn begin(&self) {
        self.keeps.store(true, Ordering::SeqCst);
    }

    /// Returns whether steps keep their locks.
    #[inline]
    pub(super) fn keeps(&self) -> bool {
        self.keeps.load(Ordering::Relaxed)
    }

    /// Returns how many steps have kept this lock.
    pub(super) fn steps(&self, lock: u8) -> u32 {
        self.locks.get(usize::from(lock)).map_or(0, |lock| lock.steps.load(Ordering::Relaxed))
    }

    /// Ends a step. Returns whether its lock is kept, or [`Kept::release_all`] has released it.
    #[inline]
    pub(super) fn keep(&self, lock: u8) -> bool {
        let Some(lock) = self.locks.get(usize::from(lock)) else { return false };
        // Only steps write it, one at a time.
        lock.steps.store(lock.steps.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        lock.phase.store(KEPT, Ordering::SeqCst);
        // `release_all` sees that it is kept, or this sees that it no longer should be.
        self.keeps.load(Ordering::SeqCst) || !lock.take()
    }

    /// Begins a step. Returns whether its lock was kept. The step has it then.
    #[inline]
    pub(super) fn take(&self, lock: u8) -> bool {
        self.locks.get(usize::from(lock)).is_some_and(KeptLock::take)
    }

    /// Steps keep their locks no longer, and each that is kept is released by `release`.
    pub(super) fn release_all(&self, release: impl Fn(u8)) {
        self.keeps.store(false, Ordering::SeqCst);
        // Another core may wait for the end of this.
        let on = cpu::irqs_off();
        for (number, lock) in (0..).zip(&self.locks) {
            // In order also where it fails: see `keep`.
            if lock.change(KEPT, LEAVING, (Ordering::SeqCst, Ordering::SeqCst)) {
                release(number);
                lock.phase.store(FREE, Ordering::Release);
            }
        }
        cpu::irqs_restore(on);
    }
}

impl KeptLock {
    const fn new() -> KeptLock {
        KeptLock { phase: AtomicU32::new(FREE), steps: AtomicU32::new(0) }
    }

    #[inline]
    fn change(&self, from: u32, to: u32, (done, failed): (Ordering, Ordering)) -> bool {
        self.phase.compare_exchange(from, to, done, failed).is_ok()
    }

    #[inline]
    fn take(&self) -> bool {
        let has_it = self.change(KEPT, FREE, (Ordering::AcqRel, Ordering::Relaxed));
        if !has_it {
            self.await_release();
        }
        has_it
    }

    /// Waits until it is not being released any more.
    #[cold]
    #[inline(never)]
    fn await_release(&self) {
        // By another core, with interrupts masked.
        while self.phase.load(Ordering::Acquire) == LEAVING {
            cpu::relax();
        }
    }
}
