//! A value that one core at a time can access, among the cores of this kernel or of all kernels;
//! for the steps of services and for the block table.
//!
//! The caller must not be preempted ([`crate::hold`]), but interrupts stay unmasked, so that a step
//! may be long; interrupt and fault handlers must not start one. Cores of one kernel take turns in
//! FIFO order, kernels by a [`DomainLock`]. Both waits go through [`attend`].

use crate::attend;
use crate::attend::percore::per_core;
use crate::domain_lock::DomainLock;
use crate::hold;
use crate::order::{self, Rank};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

pub struct Exclusion<T> {
    next: AtomicU32,
    serving: AtomicU32,
    /// Excludes other kernels.
    between: Option<DomainLock>,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: tickets give the value to one core at a time.
unsafe impl<T: Send> Sync for Exclusion<T> {}

/// Looks at the turn after which the core that has it is assumed to be stopped.
const STALLED: u32 = 256;

impl<T> Exclusion<T> {
    /// Creates a value that the cores of this kernel access in turn. With `between`, the turn is
    /// shared with all kernels whose `between` is the same lock.
    pub const fn new(rank: Rank, between: Option<DomainLock>, value: T) -> Self {
        let (next, serving) = (AtomicU32::new(0), AtomicU32::new(0));
        Exclusion { next, serving, between, rank, value: UnsafeCell::new(value) }
    }

    /// Returns the lock that excludes other kernels, if there is one.
    pub const fn between(&self) -> Option<&DomainLock> {
        self.between.as_ref()
    }

    /// Waits for another core of this kernel.
    #[cold]
    #[inline(never)]
    fn wait_for(&self, ticket: u32) {
        loop {
            let (mut is_served, mut looks) = (false, 0);
            attend::until(|| {
                looks += 1;
                is_served = self.serving.load(Ordering::Acquire) == ticket;
                is_served || looks == STALLED
            });
            if is_served {
                return;
            }
            attend::core_stalled();
        }
    }

    #[inline]
    fn run_alone<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: this core's ticket is being served, so no other core of this kernel is here, and
        // the lock excludes other kernels; the ranks keep this core from getting here twice.
        let work = || work(unsafe { &mut *self.value.get() });
        let Some(between) = &self.between else { return work() };
        let _guard = between.acquire();
        HELD.during(|held| held | 1 << between.number(), work)
    }
}

// The locks between domains that exclusions hold on this core, one bit each.
per_core! { static HELD: u64 = 0; }

/// Returns the locks between domains that this core has, one bit each, for the steps of services.
pub fn held() -> u64 {
    HELD.with(|held| *held)
}

impl<T> base::port::Exclusive<T> for Exclusion<T> {
    #[inline]
    fn exclusively<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        debug_assert!(hold::is_held(), "a step must not be preempted");
        order::assert_may_wait();
        order::note_acquire(self.rank);
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        if self.serving.load(Ordering::Acquire) != ticket {
            self.wait_for(ticket);
        }
        let result = self.run_alone(work);
        self.serving.store(ticket.wrapping_add(1), Ordering::Release);
        order::note_release(self.rank);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Window;
    use base::port::Exclusive;
    use core::sync::atomic::AtomicU64;
    use std::sync::Arc;
    use std::thread;

    const RANK: Rank = Rank::new(1, "test");

    #[test]
    fn cores_and_kernels_exclude_each_other() {
        let words = Window::fresh(2);
        let shared: &'static [AtomicU64] = Box::leak(Box::new([AtomicU64::new(0)]));
        let kernel = |id: usize| {
            let between = DomainLock::over(&words, 2, id);
            Arc::new(Exclusion::new(RANK, Some(between), ()))
        };
        let kernels = [kernel(0), kernel(1)];
        let run = |exclusion: Arc<Exclusion<()>>| {
            thread::spawn(move || {
                for _ in 0..1000 {
                    hold::begin();
                    exclusion.exclusively(|()| {
                        let seen = shared[0].load(Ordering::Relaxed);
                        thread::yield_now();
                        shared[0].store(seen + 1, Ordering::Relaxed);
                    });
                    let _ = hold::end();
                }
            })
        };
        let threads: Vec<_> = (0..4).map(|i| run(Arc::clone(&kernels[i % 2]))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(shared[0].load(Ordering::Relaxed), 4000);
    }
}
