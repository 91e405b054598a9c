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
const PHASE: u32 = 3;
/// A step that has kept the lock.
const STEP: u32 = 4;

/// The locks that a domain keeps.
#[derive(Debug)]
pub(super) struct Kept {
    /// Whether steps keep their locks.
    keeps: AtomicBool,
    /// For each lock its phase, and how many steps have kept it.
    states: [AtomicU32; LOCKS],
}

impl Kept {
    pub(super) const fn new() -> Kept {
        let states = [const { AtomicU32::new(FREE) }; LOCKS];
        Kept { keeps: AtomicBool::new(false), states }
    }

    fn state(&self, lock: u8) -> Option<&AtomicU32> {
        self.states.get(usize::from(lock))
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
        self.state(lock).map_or(0, |state| state.load(Ordering::Relaxed) / STEP)
    }

    /// Ends a step. Returns whether its lock is kept, or [`Kept::release_all`] has released it.
    #[inline(never)]
    pub(super) fn keep(&self, lock: u8) -> bool {
        let Some(state) = self.state(lock) else { return false };
        let next = (state.load(Ordering::Relaxed) & !PHASE).wrapping_add(STEP);
        state.store(next | KEPT, Ordering::SeqCst);
        // `release_all` sees that it is kept, or this sees that it no longer should be.
        self.keeps.load(Ordering::SeqCst) || !take(state)
    }

    /// Begins a step. Returns whether its lock was kept. The step has it then.
    pub(super) fn take(&self, lock: u8) -> bool {
        self.state(lock).is_some_and(take)
    }

    /// Steps keep their locks no longer, and each that is kept is released by `release`.
    pub(super) fn release_all(&self, release: impl Fn(u8)) {
        self.keeps.store(false, Ordering::SeqCst);
        // Another core may wait for the end of this.
        let on = cpu::irqs_off();
        for (lock, state) in (0..).zip(&self.states) {
            let seen = state.load(Ordering::SeqCst);
            let leaves = seen & !PHASE | LEAVING;
            let (ok, no) = (Ordering::SeqCst, Ordering::Relaxed);
            if seen & PHASE == KEPT && state.compare_exchange(seen, leaves, ok, no).is_ok() {
                release(lock);
                state.store(seen & !PHASE, Ordering::Release);
            }
        }
        cpu::irqs_restore(on);
    }
}

#[inline]
fn take(state: &AtomicU32) -> bool {
    loop {
        let seen = state.load(Ordering::Acquire);
        match seen & PHASE {
            KEPT => {
                let (free, ok) = (seen & !PHASE, Ordering::AcqRel);
                if state.compare_exchange(seen, free, ok, Ordering::Relaxed).is_ok() {
                    return true;
                }
            }
            // By another core, with interrupts masked.
            LEAVING => cpu::relax(),
            _ => return false,
        }
    }
}
