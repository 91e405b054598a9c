//! Memory between domains: aligned 64-bit words with one writer each, and hardware spinlocks.
//!
//! None of it is coherent. A writer stores its words, then *publishes* one more that makes them
//! valid; a reader *consumes* that one, then loads the others. Every access goes through `words`,
//! the one linker section at which the lab synchronises.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use abi::boot::Blob;
use abi::hang::Item;
use abi::soc::{DomainPage, SPINLOCKS, Spinlock};
use base::addr::PhysAddr;
use base::id::DomainId;
use base::port::Words;

use crate::{attend, cpu, words};

/// A range of shared words.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    base: *mut u64,
    bytes: usize,
}

// SAFETY: a window is accessed only by whole words with the volatile accesses of `words`, which
// allow for other writers.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// # Safety
    /// `[base, base + bytes)` is 8-aligned, mapped read-write as long as the window or a part of it
    /// is used, and not covered by a Rust reference.
    pub const unsafe fn new(base: *mut u64, bytes: usize) -> Window {
        Window { base, bytes: bytes & !7 }
    }

    /// Returns a range of the chip's uncached window, as the kernel's page table maps it, or `None`
    /// if it is not 8-aligned or not inside. The blob must have passed its check.
    pub fn uncached(blob: &Blob, at: PhysAddr, bytes: u64) -> Option<Window> {
        let start = at.0.checked_sub(blob.window.base)?;
        let inside = bytes <= blob.window.size && start <= blob.window.size - bytes;
        // SAFETY: every kernel maps the whole uncached window read-write, forever, and accesses it
        // only through `Window`.
        (inside && at.is_aligned(8))
            .then(|| unsafe { Window::new(at.to_virt().0 as *mut u64, bytes as usize) })
    }

    /// Makes a window over words of this process, for tests.
    pub fn over(memory: &'static [AtomicU64]) -> Window {
        // SAFETY: atomics may be written through a shared reference, and these live forever.
        unsafe { Window::new(memory.as_ptr() as *mut u64, size_of_val(memory)) }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns a part of the window. Panics if it is not 8-aligned or not inside.
    pub fn part(&self, at: usize, bytes: usize) -> Window {
        assert!(
            at.is_multiple_of(8) && at <= self.bytes && bytes <= self.bytes - at,
            "part of a window"
        );
        // SAFETY: inside this window, which was made under the same obligation.
        unsafe { Window::new(self.base.byte_add(at), bytes) }
    }

    #[inline]
    fn word(&self, at: usize) -> *mut u64 {
        assert!(at.is_multiple_of(8) && at < self.bytes, "word of a window");
        // SAFETY: inside the window, by the line above.
        unsafe { self.base.byte_add(at) }
    }

    /// Stores the word that makes earlier stores valid.
    #[inline]
    pub fn publish(&self, at: usize, value: u64) {
        // The stores that it makes valid are visible before it is.
        self.barrier();
        #[cfg(feature = "seeded")]
        if crate::seeded::is(crate::seeded::Seed::SwapPublish) {
            // SAFETY: aligned and mapped; the seeded bug is that it is not a lock of the bank.
            unsafe { words::swap64(self.word(at), value) };
            return;
        }
        self.store(at, value);
    }

    /// Loads the word that says whether others are valid.
    pub fn consume(&self, at: usize) -> u64 {
        let value = self.load(at);
        // The words that it makes valid are loaded after it.
        self.barrier();
        value
    }

    pub fn copy_in(&self, at: usize, from: &[u64]) {
        from.iter().enumerate().for_each(|(i, &word)| self.store(at + 8 * i, word));
    }

    pub fn copy_out(&self, at: usize, to: &mut [u64]) {
        to.iter_mut().enumerate().for_each(|(i, word)| *word = self.load(at + 8 * i));
    }
}

impl Words for Window {
    #[inline]
    fn load(&self, at: usize) -> u64 {
        // SAFETY: `word` checked the range; the window is mapped by the obligation of `new`.
        unsafe { words::load64(self.word(at)) }
    }
    #[inline]
    fn store(&self, at: usize, value: u64) {
        // SAFETY: as in `load`.
        unsafe { words::store64(self.word(at), value) }
    }
    #[inline]
    fn barrier(&self) {
        #[cfg(feature = "seeded")]
        if crate::seeded::is(crate::seeded::Seed::NoBarrier) {
            return;
        }
        words::barrier();
    }
}

/// A hardware spinlock between domains, for short critical sections that wait for nothing else.
///
/// The bank's only operation is *swap*. The lock's word is 0 if it is free, else 1. A domain swaps
/// 1 in. If it gets 0, it has the lock; otherwise it has changed nothing. Each domain counts its
/// attempts in a word of its own:
///
/// ```text
///   count is odd --> swap --> 1: count is even
///                        \--> 0: critical section --> word = 0 --> count is even
/// ```
/// A domain may stop or die at any of these accesses. When one has died, the soc frees each lock
/// whose word is 1 while the counts of all domains are even (`soc::spinlocks`): no living domain
/// has it then. A waiting domain loads the word until it is free, so its count does not change.
///
/// The cores of a domain share a count, so they first exclude each other with `local`.
#[derive(Debug)]
pub struct HwLock {
    number: u8,
    word: Window,
    /// This domain's count in memory, and its value.
    attempts: Window,
    count: AtomicU64,
    local: AtomicU32,
}

/// Maximum rounds of `cpu::relax` between two attempts.
const MAX_BACKOFF: u32 = 64;
/// Attempts after which the holder is assumed to be stopped.
const STALLED: u32 = 256;

impl HwLock {
    /// Lock `number` of the bank, for the cores of `domain`. Each kernel has one `HwLock` per lock
    /// at a time. `None`: the board has no such lock.
    pub fn of(blob: &Blob, domain: DomainId, number: usize) -> Option<HwLock> {
        if number >= SPINLOCKS {
            return None;
        }
        let page = size_of::<DomainPage>() * domain.index();
        let count = page + offset_of!(DomainPage, attempts) + 8 * number;
        let word = |at: u64| Window::uncached(blob, PhysAddr(at), 8);
        let lock = blob.window.spinlocks + (number * size_of::<Spinlock>()) as u64;
        let words = [word(lock)?, word(blob.window.domains + count as u64)?];
        Some(HwLock { number: number as u8, ..HwLock::new(words[0], words[1]) })
    }

    /// Returns its number in the bank.
    pub fn number(&self) -> u8 {
        self.number
    }

    pub(crate) fn new(word: Window, attempts: Window) -> HwLock {
        // Odd: an earlier `HwLock` of this kernel was given up with the lock, which tests may do.
        let count = AtomicU64::new(attempts.load(0).next_multiple_of(2));
        HwLock { number: 0, word, attempts, count, local: AtomicU32::new(0) }
    }

    /// Takes the lock if it is free. Interrupts stay masked until the guard is dropped.
    #[inline]
    pub fn try_acquire(&self) -> Option<HwGuard<'_>> {
        let irqs_on = cpu::irqs_off();
        let taken = self.try_take();
        if !taken {
            cpu::irqs_restore(irqs_on);
        }
        taken.then(|| HwGuard { lock: self, irqs_on })
    }

    /// Waits for the lock, with backoff. Interrupts stay masked until the guard is dropped.
    #[inline]
    pub fn acquire(&self) -> HwGuard<'_> {
        self.try_acquire().unwrap_or_else(|| self.wait_for(Self::try_acquire))
    }

    /// Waits for the lock, leaving interrupts as they are. The caller is not preempted, and no
    /// interrupt handler takes this lock.
    #[inline]
    pub(crate) fn acquire_unmasked(&self) -> HwGuard<'_> {
        self.try_unmasked().unwrap_or_else(|| self.wait_for(Self::try_unmasked))
    }

    #[inline]
    fn try_unmasked(&self) -> Option<HwGuard<'_>> {
        // A guard with `irqs_on` false unmasks nothing on drop.
        self.try_take().then(|| HwGuard { lock: self, irqs_on: false })
    }

    /// Attempts with backoff, whenever the lock looks free.
    #[cold]
    fn wait_for<'a>(&'a self, attempt: impl Fn(&'a Self) -> Option<HwGuard<'a>>) -> HwGuard<'a> {
        let (mut guard, mut backoff, mut patience) = (None, 1, attend::Patience::default());
        loop {
            let mut tries = 0;
            attend::until(|| {
                if self.word.load(0) == 0 {
                    guard = attempt(self);
                }
                tries += 1;
                if guard.is_none() {
                    (0..backoff).for_each(|_| cpu::relax());
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                }
                guard.is_some() || tries == STALLED
            });
            if let Some(guard) = guard.take() {
                return guard;
            }
            // The domain that has the lock may be stopped.
            patience.lasts(Item::Lock(self.number), None);
        }
    }

    #[inline]
    fn try_take(&self) -> bool {
        if self.local.swap(1, Ordering::Acquire) != 0 {
            return false;
        }
        let taken = self.take();
        if !taken {
            self.local.store(0, Ordering::Release);
        }
        taken
    }

    #[inline]
    fn take(&self) -> bool {
        self.count();
        // It acquires and releases: it is visible after the count, and accesses to what the lock
        // guards come after it.
        // SAFETY: the window is mapped and holds a word of the spinlock bank.
        let taken = unsafe { words::swap64(self.word.word(0), 1) } == 0;
        if !taken {
            self.count();
        }
        taken
    }

    /// Counts. The caller has `local`.
    #[inline]
    fn count(&self) {
        let next = self.count.load(Ordering::Relaxed).wrapping_add(1);
        self.count.store(next, Ordering::Relaxed);
        self.attempts.store(0, next);
    }
}

#[derive(Debug)]
pub struct HwGuard<'a> {
    lock: &'a HwLock,
    irqs_on: bool,
}

impl Drop for HwGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // What was done under the lock is visible before it is free, and that before the count.
        self.lock.word.publish(0, 0);
        words::barrier();
        self.lock.count();
        self.lock.local.store(0, Ordering::Release);
        cpu::irqs_restore(self.irqs_on);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::thread;
    use std::vec::Vec;

    fn window(words: usize) -> Window {
        let memory: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        Window::over(Box::leak(memory.into_boxed_slice()))
    }

    #[test]
    fn a_window_rejects_words_outside_its_bounds() {
        let window = window(8);
        window.copy_in(16, &[1, 2, 3]);
        let mut back = [0; 3];
        window.part(16, 24).copy_out(0, &mut back);
        assert_eq!(back, [1, 2, 3]);
        window.publish(0, 9);
        assert_eq!(window.consume(0), 9);
        assert_eq!(window.bytes(), 64);
        for bad in [3, 64, 72, usize::MAX - 7] {
            assert!(std::panic::catch_unwind(|| window.load(bad)).is_err());
        }
        assert!(std::panic::catch_unwind(|| window.part(8, 64)).is_err());
    }

    #[test]
    fn four_domains_exclude_each_other() {
        let window = window(6);
        let threads: Vec<_> = (0..4)
            .map(|domain| {
                thread::spawn(move || {
                    let lock = HwLock::new(window.part(0, 8), window.part(16 + 8 * domain, 8));
                    for _ in 0..2000 {
                        let _guard = lock.acquire();
                        let seen = window.load(8);
                        window.store(8, seen + 1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!((window.load(0), window.load(8)), (0, 8000));
        assert!((0..4).all(|domain| window.load(16 + 8 * domain).is_multiple_of(2)));
    }

    #[test]
    fn a_domain_counts_its_attempts() {
        let window = window(3);
        let lock = |domain: usize| HwLock::new(window.part(0, 8), window.part(8 * domain, 8));
        let (one, two) = (lock(1), lock(2));
        let guard = one.try_acquire().unwrap();
        assert!(two.try_acquire().is_none() && one.try_acquire().is_none());
        assert_eq!([0, 8, 16].map(|at| window.load(at)), [1, 1, 2], "one has it, two has tried");
        drop(guard);
        assert_eq!([0, 8, 16].map(|at| window.load(at)), [0, 2, 2]);
        assert!(two.try_acquire().is_some());
    }
}
