//! A value that one core at a time can access, among the cores of this kernel or of all kernels;
//! for the steps of services.
//!
//! The caller must not be preempted ([`crate::hold`]), but interrupts stay unmasked, so that a step
//! may be long; interrupt and fault handlers must not start one. Cores of one kernel take turns in
//! FIFO order, kernels by a hardware spinlock. Both waits go through [`attend`].
//!
//! A kernel may **keep** the spinlock after a turn, while no other kernel wants it: then its next
//! turn need not take it. That it is alone is a hint; what excludes other kernels is the lock.
//! The code that changes the hint calls [`Exclusion::give_back`] afterwards:
//!
//! ```text
//!   a turn:      end the turn; fence; hint?          the hint:  change it; fence; give back
//!                  no longer alone --> give back                in a turn --> nothing
//! ```
//! At least one of the two sees the other, so no lock stays with a kernel that should give it back.

use crate::attend;
use crate::attend::percore::per_core;
use crate::cpu;
use crate::hold;
use crate::order::{self, Rank};
use crate::shared::HwLock;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

pub struct Exclusion<T> {
    next: AtomicU32,
    serving: AtomicU32,
    /// Excludes other kernels.
    between: Option<HwLock>,
    /// This kernel has `between` from an earlier turn. Changed in turns only.
    is_kept: AtomicBool,
    rank: Rank,
    value: UnsafeCell<T>,
}

/// Tells when a kernel keeps the lock between kernels.
pub trait Hint {
    /// Returns whether no other kernel wants it.
    fn is_alone(&self) -> bool;

    /// Called before the lock is released.
    fn ends(&self);
}

/// Keeps nothing.
struct Never;

impl Hint for Never {
    fn is_alone(&self) -> bool {
        false
    }

    fn ends(&self) {}
}

// SAFETY: tickets give the value to one core at a time.
unsafe impl<T: Send> Sync for Exclusion<T> {}

impl<T> Exclusion<T> {
    /// Creates a value that the cores of this kernel access in turn. With `between`, the turn is
    /// shared with all kernels whose `between` is the same word.
    pub const fn new(rank: Rank, between: Option<HwLock>, value: T) -> Self {
        let (next, serving) = (AtomicU32::new(0), AtomicU32::new(0));
        let is_kept = AtomicBool::new(false);
        Exclusion { next, serving, between, is_kept, rank, value: UnsafeCell::new(value) }
    }

    fn run_alone(&self, hint: &impl Hint, work: &mut dyn FnMut(&mut T)) {
        if !self.is_kept.load(Ordering::Relaxed) {
            self.between.iter().for_each(HwLock::take_unmasked);
        }
        let bit = self.between.as_ref().map_or(0, |lock| 1 << lock.number());
        HELD.with(|held| *held |= bit);
        // SAFETY: this core's ticket is being served, so no other core of this kernel is here, and
        // the guard excludes other kernels; the ranks keep this core from getting here twice.
        work(unsafe { &mut *self.value.get() });
        HELD.with(|held| *held &= !bit);
        let keeps = self.between.is_some() && hint.is_alone();
        self.is_kept.store(keeps, Ordering::Relaxed);
        if !keeps {
            hint.ends();
            self.between.iter().for_each(HwLock::release);
        }
    }

    /// Does the same as `exclusively`, and keeps the lock between kernels if this kernel is alone.
    pub fn exclusively_alone(&self, hint: &impl Hint, work: &mut dyn FnMut(&mut T)) {
        assert!(hold::is_held(), "a step must not be preempted");
        order::assert_may_wait();
        order::note_acquire(self.rank);
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        attend::until(|| self.serving.load(Ordering::Acquire) == ticket);
        self.run_alone(hint, work);
        let keeps = self.is_kept.load(Ordering::Relaxed);
        self.serving.store(ticket.wrapping_add(1), Ordering::Release);
        order::note_release(self.rank);
        if keeps {
            fence(Ordering::SeqCst);
            if !hint.is_alone() {
                self.give_back(hint);
            }
        }
    }

    /// Releases the lock between kernels if it is kept and no turn is in progress. May be called in
    /// any context.
    pub fn give_back(&self, hint: &impl Hint) {
        fence(Ordering::SeqCst);
        let irqs_on = cpu::irqs_off();
        let ticket = self.serving.load(Ordering::Acquire);
        let next = ticket.wrapping_add(1);
        let (took, failed) = (Ordering::Acquire, Ordering::Relaxed);
        if self.next.compare_exchange(ticket, next, took, failed).is_ok() {
            if self.is_kept.swap(false, Ordering::Relaxed) {
                hint.ends();
                self.between.iter().for_each(HwLock::release);
            }
            self.serving.store(next, Ordering::Release);
        }
        cpu::irqs_restore(irqs_on);
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
        self.exclusively_alone(&Never, work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Window;
    use base::port::{Exclusive, Words};
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

    /// Counts how often its mark ends.
    struct Told {
        alone: AtomicBool,
        ends: AtomicU32,
    }

    impl Hint for Told {
        fn is_alone(&self) -> bool {
            self.alone.load(Ordering::Acquire)
        }

        fn ends(&self) {
            self.ends.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Told {
        fn set(&self, alone: bool) {
            self.alone.store(alone, Ordering::SeqCst);
        }
    }

    fn turn(exclusion: &Exclusion<()>, hint: &Told, work: &mut dyn FnMut(&mut ())) {
        hold::begin();
        exclusion.exclusively_alone(hint, work);
        let _ = hold::end();
    }

    #[test]
    fn a_kernel_that_is_alone_takes_the_lock_once_and_gives_it_back() {
        let bank = Window::over(Box::leak(Box::new([const { AtomicU64::new(0) }; 2])));
        let lock = HwLock::new(bank.part(0, 8), bank.part(8, 8));
        let exclusion = Exclusion::new(RANK, Some(lock), ());
        let hint = Told { alone: AtomicBool::new(true), ends: AtomicU32::new(0) };
        let words = || [bank.load(0), bank.load(8)];
        (0..3).for_each(|_| turn(&exclusion, &hint, &mut |()| {}));
        assert_eq!((words(), hint.ends.load(Ordering::Relaxed)), ([1, 1], 0), "kept");
        // No turn is in progress, so what changes the hint gives back.
        hint.set(false);
        exclusion.give_back(&hint);
        assert_eq!((words(), hint.ends.load(Ordering::Relaxed)), ([0, 2], 1));
        exclusion.give_back(&hint);
        turn(&exclusion, &hint, &mut |()| {});
        assert_eq!((words(), hint.ends.load(Ordering::Relaxed)), ([0, 4], 2), "not kept");
        // The hint changes in a turn, and nothing can be given back then: the end of the turn does.
        hint.set(true);
        turn(&exclusion, &hint, &mut |()| {});
        turn(&exclusion, &hint, &mut |()| {
            hint.set(false);
            exclusion.give_back(&hint);
            assert_eq!(words(), [1, 5]);
        });
        assert_eq!((words(), hint.ends.load(Ordering::Relaxed)), ([0, 6], 3));
    }

    /// Two cores of a kernel that keeps the lock whenever another one does not run, which comes and
    /// goes. No turn is lost, and the other kernel always gets its own.
    #[test]
    fn another_kernel_gets_its_turn_whenever_it_runs() {
        let bank = Window::over(Box::leak(Box::new([const { AtomicU64::new(0) }; 3])));
        let shared: &'static [AtomicU64] = Box::leak(Box::new([AtomicU64::new(0)]));
        let kernel = |id: usize| {
            let between = HwLock::new(bank.part(0, 8), bank.part(8 + 8 * id, 8));
            Arc::new(Exclusion::new(RANK, Some(between), ()))
        };
        let (strong, weak) = (kernel(0), kernel(1));
        let hint = Arc::new(Told { alone: AtomicBool::new(true), ends: AtomicU32::new(0) });
        let over = Arc::new(AtomicBool::new(false));
        let add = || {
            let seen = shared[0].load(Ordering::Relaxed);
            thread::yield_now();
            shared[0].store(seen + 1, Ordering::Relaxed);
        };
        let core = || {
            let (strong, hint, over) = (strong.clone(), hint.clone(), over.clone());
            thread::spawn(move || {
                let mut turns = 0;
                while !over.load(Ordering::Relaxed) {
                    turn(&strong, &hint, &mut |()| add());
                    turns += 1;
                }
                turns
            })
        };
        let cores = [core(), core()];
        for _ in 0..100 {
            // The other kernel begins to run, and rests again.
            hint.set(false);
            strong.give_back(&*hint);
            (0..3).for_each(|_| turn(&weak, &HINT_OF_WEAK, &mut |()| add()));
            hint.set(true);
            thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
        let turns: u64 = cores.map(|core| core.join().expect("no panic")).iter().sum();
        assert_eq!(shared[0].load(Ordering::Relaxed), turns + 300);
        assert!(hint.ends.load(Ordering::Relaxed) > 0);
    }

    static HINT_OF_WEAK: Told = Told { alone: AtomicBool::new(false), ends: AtomicU32::new(0) };
}
