//! A value that one core at a time reaches, of this kernel or of all kernels that have it: for the
//! steps of services.
//!
//! Contract: the caller keeps its core ([`crate::hold`]) but not its interrupts, so that a step may
//! be long; an interrupt or fault never enters one. Cores of one kernel take turns in the order
//! they came; kernels by a hardware spinlock. Both waits attend.

use crate::attend;
use crate::hold;
use crate::lock::{self, Rank};
use crate::shared::HwLock;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

/// The value.
pub struct Exclusion<T> {
    next: AtomicU32,
    serving: AtomicU32,
    /// Between kernels.
    between: Option<HwLock>,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: tickets give one core at a time the value.
unsafe impl<T: Send> Sync for Exclusion<T> {}

impl<T> Exclusion<T> {
    /// Of this kernel's cores; of all kernels that have `between` over the same word.
    pub const fn new(rank: Rank, between: Option<HwLock>, value: T) -> Self {
        let (next, serving) = (AtomicU32::new(0), AtomicU32::new(0));
        Exclusion { next, serving, between, rank, value: UnsafeCell::new(value) }
    }

    fn alone(&self, work: &mut dyn FnMut(&mut T)) {
        let _between = self.between.as_ref().map(HwLock::acquire_unmasked);
        // SAFETY: the ticket is served, so no other core of this kernel is here, and the guard
        // keeps other kernels out; this core does not come here twice, by the order of ranks.
        work(unsafe { &mut *self.value.get() });
    }
}

impl<T> base::port::Exclusive<T> for Exclusion<T> {
    fn exclusively(&self, work: &mut dyn FnMut(&mut T)) {
        assert!(hold::is_held(), "a step keeps its core");
        lock::assert_may_wait();
        lock::note_acquire(self.rank);
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        attend::until(|| self.serving.load(Ordering::Acquire) == ticket);
        self.alone(work);
        self.serving.store(ticket.wrapping_add(1), Ordering::Release);
        lock::note_release(self.rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Window;
    use base::id::DomainId;
    use base::port::Exclusive;
    use core::sync::atomic::AtomicU64;
    use std::sync::Arc;
    use std::thread;

    const RANK: Rank = Rank::new(1, "test");

    #[test]
    fn cores_and_kernels_take_turns() {
        let word: &'static [AtomicU64] = Box::leak(Box::new([AtomicU64::new(0)]));
        let shared: &'static [AtomicU64] = Box::leak(Box::new([AtomicU64::new(0)]));
        let kernel = |id| {
            let between = HwLock::new(Window::over(word), DomainId(id));
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
