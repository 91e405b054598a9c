//! Memory between domains: aligned 64-bit words with one writer each, and hardware spinlocks.
//!
//! None of it is coherent. A writer stores its words, then *publishes* one more that makes them
//! valid; a reader *consumes* that one, then loads the others. Every access goes through `words`,
//! the one linker section at which the lab synchronises.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use abi::boot::Blob;
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

/// A hardware spinlock between domains, for short critical sections that wait for nothing else. The
/// word holds 0 or the holder's domain index + 1, so that the soc can release the locks of a dead
/// domain.
///
/// The bank's only operation is *swap*: the domain that swaps 0 out has the lock, and only the
/// holder stores 0. A contender reads the word first and swaps only if it is free. If another
/// domain was faster, the contender swaps out the id of that new holder. It swaps this id back in,
/// until it gets its own id (everything is as before) or 0 (the lock was released meanwhile, and is
/// the contender's). If three domains race at one release, an id may be lost; the word then names
/// another contender until the next release. Mutual exclusion does not depend on the ids; only the
/// soc's choice of locks to release does, during that moment.
///
/// The cores of a domain share an id, so they first exclude each other with `local`.
#[derive(Debug)]
pub struct HwLock {
    word: Window,
    id: u64,
    local: AtomicU32,
}

/// Maximum swaps per attempt.
const MAX_ROUNDS: usize = 8;
/// Maximum rounds of `cpu::relax` between two attempts.
const MAX_BACKOFF: u32 = 64;
/// Attempts after which the holder is assumed to be stopped.
const STALLED: u32 = 256;

impl HwLock {
    /// The lock in the first word of `word`, for the cores of `domain`. Each kernel has one
    /// `HwLock` per lock.
    pub fn new(word: Window, domain: DomainId) -> HwLock {
        assert!(word.bytes >= 8, "a spinlock is a word");
        HwLock { word, id: u64::from(domain.0) + 1, local: AtomicU32::new(0) }
    }

    /// Takes the lock if it is free. Interrupts stay masked until the guard is dropped.
    pub fn try_acquire(&self) -> Option<HwGuard<'_>> {
        let irqs_on = cpu::irqs_off();
        let taken = self.try_take();
        if !taken {
            cpu::irqs_restore(irqs_on);
        }
        taken.then(|| HwGuard { lock: self, irqs_on })
    }

    /// Waits for the lock, with backoff. Interrupts stay masked until the guard is dropped.
    pub fn acquire(&self) -> HwGuard<'_> {
        self.wait_for(|| self.try_acquire())
    }

    /// Waits for the lock, leaving interrupts as they are. The caller is not preempted, and no
    /// interrupt handler takes this lock.
    pub(crate) fn acquire_unmasked(&self) -> HwGuard<'_> {
        // A guard with `irqs_on` false unmasks nothing on drop.
        self.wait_for(|| self.try_take().then(|| HwGuard { lock: self, irqs_on: false }))
    }

    fn wait_for<'a>(&'a self, mut look: impl FnMut() -> Option<HwGuard<'a>>) -> HwGuard<'a> {
        let (mut guard, mut backoff) = (None, 1);
        loop {
            let mut tries = 0;
            attend::until(|| {
                guard = look();
                tries += 1;
                if guard.is_none() {
                    (0..backoff).for_each(|_| cpu::relax());
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                }
                guard.is_some() || tries == STALLED
            });
            match guard.take() {
                Some(guard) => return guard,
                // The word may not name the holder, so the hook has to find out which domain is
                // stopped.
                None => attend::stalled(),
            }
        }
    }

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

    /// Returns the index + 1 of the holding domain, or 0.
    pub fn holder(&self) -> u64 {
        self.word.load(0)
    }

    fn take(&self) -> bool {
        if self.word.load(0) != 0 {
            return false;
        }
        let mut carried = self.id;
        for _ in 0..MAX_ROUNDS {
            // SAFETY: the window is mapped and holds a word of the spinlock bank.
            let found = unsafe { words::swap64(self.word.word(0), carried) };
            if found == 0 {
                // It was free, so it is ours now, under our id or one that we had swapped out.
                if carried != self.id {
                    self.word.store(0, self.id);
                }
                // Accesses to the guarded words come after taking the lock.
                words::barrier();
                return true;
            }
            if found == self.id {
                return false;
            }
            carried = found;
        }
        // Our id was lost; the caller serves its hook before the next attempt.
        false
    }
}

#[derive(Debug)]
pub struct HwGuard<'a> {
    lock: &'a HwLock,
    irqs_on: bool,
}

impl Drop for HwGuard<'_> {
    fn drop(&mut self) {
        // What was done under the lock is visible before it is free.
        self.lock.word.publish(0, 0);
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
        let window = window(2);
        let threads: Vec<_> = (0..4)
            .map(|domain| {
                thread::spawn(move || {
                    let lock = HwLock::new(window.part(0, 8), DomainId(domain));
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
    }

    #[test]
    fn a_contender_does_not_replace_the_holders_id() {
        let window = window(1);
        let (one, two) = (HwLock::new(window, DomainId(0)), HwLock::new(window, DomainId(1)));
        let guard = one.try_acquire().unwrap();
        assert!(two.try_acquire().is_none() && one.try_acquire().is_none());
        assert_eq!(one.holder(), 1);
        drop(guard);
        assert!(two.try_acquire().is_some());
    }
}
