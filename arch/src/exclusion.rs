//! A value that one core at a time can access, among the cores of this kernel or of all kernels;
//! for the steps of services.
//!
//! The caller must not be preempted ([`crate::hold`]), but interrupts stay unmasked, so that a step
//! may be long; interrupt and fault handlers must not start one. Cores of one kernel take turns in
//! FIFO order, kernels by a hardware spinlock. Both waits go through [`attend`].

use crate::attend;
use crate::attend::percore::per_core;
use crate::hold;
use crate::order::{self, Rank};
use crate::shared::HwLock;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

pub struct Exclusion<T> {
    next: AtomicU32,
    serving: AtomicU32,
    /// Excludes other kernels.
    between: Option<HwLock>,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: tickets give the value to one core at a time.
unsafe impl<T: Send> Sync for Exclusion<T> {}

impl<T> Exclusion<T> {
    /// Creates a value that the cores of this kernel access in turn. With `between`, the turn is
    /// shared with all kernels whose `between` is the same word.
    pub const fn new(rank: Rank, between: Option<HwLock>, value: T) -> Self {
        let (next, serving) = (AtomicU32::new(0), AtomicU32::new(0));
        Exclusion { next, serving, between, rank, value: UnsafeCell::new(value) }
    }

    fn run_alone(&self, work: &mut dyn FnMut(&mut T)) {
        let between = self.between.as_ref().map(HwLock::acquire_unmasked);
        let bit = self.between.as_ref().map_or(0, |lock| 1 << lock.number());
        HELD.with(|held| *held |= bit);
        // SAFETY: this core's ticket is being served, so no other core of this kernel is here, and
        // the guard excludes other kernels; the ranks keep this core from getting here twice.
        work(unsafe { &mut *self.value.get() });
        HELD.with(|held| *held &= !bit);
        drop(between);
    }
}

// The hardware spinlocks that exclusions hold on this core, one bit each.
per_core! { static HELD: u64 = 0; }

/// Returns the hardware spinlocks that this core has, one bit each, for the steps of services.
pub fn held() -> u64 {
    HELD.with(|held| *held)
}

impl<T> base::port::Exclusive<T> for Exclusion<T> {
    fn exclusively(&self, work: &mut dyn FnMut(&mut T)) {
        assert!(hold::is_held(), "a step must not be preempted");
        order::assert_may_wait();
        order::note_acquire(self.rank);
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        attend::until(|| self.serving.load(Ordering::Acquire) == ticket);
        self.run_alone(work);
        self.serving.store(ticket.wrapping_add(1), Ordering::Release);
        order::note_release(self.rank);
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
        let bank = Window::over(Box::leak(Box::new([const { AtomicU64::new(0) }; 3])));
        let shared: &'static [AtomicU64] = Box::leak(Box::new([AtomicU64::new(0)]));
        let kernel = |id: usize| {
            let between = HwLock::new(bank.part(0, 8), bank.part(8 + 8 * id, 8));
            Arc::new(Exclusion::new(RANK, Some(between), ()))
        };
        let kernels = [kernel(0), kernel(1)];
        let run = |exclusion: Arc<Exclusion<()>>| {
            thread::spawn(move || {
                for _ in 0..1000 {
                    hold::begin();
                    exclusion.exclusively(&mut |()| {
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
