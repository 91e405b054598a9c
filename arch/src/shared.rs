//! Memory between domains: aligned 64-bit words with one writer each, and the hardware spinlocks.
//!
//! Nothing here is coherent by itself. A writer stores its words, then *publishes* one more that
//! makes them valid; a reader *consumes* that one, then loads the others. Every access goes through
//! `words`, the one linker section at which the lab synchronises.

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

// SAFETY: a window is only accessed by whole words with the volatile accesses of `words`, which
// are made for memory that others write at the same time.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// # Safety
    /// `[base, base + bytes)` is 8-aligned, mapped read-write for as long as the window or a part
    /// of it is used, and nobody has a Rust reference into it.
    pub const unsafe fn new(base: *mut u64, bytes: usize) -> Window {
        Window { base, bytes: bytes & !7 }
    }

    /// A range of the chip's uncached window as the kernel's page table shows it; `None` when it
    /// is not 8-aligned or not inside. The blob is the one that passed its check at boot.
    pub fn uncached(blob: &Blob, at: PhysAddr, bytes: u64) -> Option<Window> {
        let start = at.0.checked_sub(blob.window.base)?;
        let inside = bytes <= blob.window.size && start <= blob.window.size - bytes;
        // SAFETY: every kernel maps the whole uncached window read-write, for ever, and only ever
        // reaches it through `Window`.
        (inside && at.is_aligned(8))
            .then(|| unsafe { Window::new(at.to_virt().0 as *mut u64, bytes as usize) })
    }

    /// Over words of this process, for tests.
    pub fn over(memory: &'static [AtomicU64]) -> Window {
        // SAFETY: atomics may be written through a shared reference, and these live for ever.
        unsafe { Window::new(memory.as_ptr() as *mut u64, size_of_val(memory)) }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A part of it. Panics when it is not 8-aligned or not inside.
    pub fn part(&self, at: usize, bytes: usize) -> Window {
        assert!(
            at.is_multiple_of(8) && at <= self.bytes && bytes <= self.bytes - at,
            "part of a window"
        );
        // SAFETY: inside of this window, which was made under the same obligation.
        unsafe { Window::new(self.base.byte_add(at), bytes) }
    }

    #[inline]
    fn word(&self, at: usize) -> *mut u64 {
        assert!(at.is_multiple_of(8) && at < self.bytes, "word of a window");
        // SAFETY: inside of the window, by the line above.
        unsafe { self.base.byte_add(at) }
    }

    /// Stores the word that makes those stored before it valid.
    pub fn publish(&self, at: usize, value: u64) {
        // What it makes valid is seen before it is.
        self.barrier();
        #[cfg(feature = "seeded")]
        if crate::seeded::is(crate::seeded::Seed::SwapPublish) {
            // SAFETY: aligned and mapped; that it is no lock of the bank is the planted bug.
            unsafe { words::swap64(self.word(at), value) };
            return;
        }
        self.store(at, value);
    }

    /// Loads the word that tells whether others are valid.
    pub fn consume(&self, at: usize) -> u64 {
        let value = self.load(at);
        // What it makes valid is loaded after it.
        self.barrier();
        value
    }

    /// Stores `from` at `at`.
    pub fn copy_in(&self, at: usize, from: &[u64]) {
        from.iter().enumerate().for_each(|(i, &word)| self.store(at + 8 * i, word));
    }

    /// Loads `to` from `at`.
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

/// A hardware spinlock: between domains, for a handful of words, never across a wait for anything
/// else. The word holds 0 or the holder's domain index + 1, so that the soc can free the locks of a
/// dead domain.
///
/// The bank's one operation is *swap*; who swaps 0 out has the lock, and only its holder stores 0.
/// A contender looks first and swaps only a free word. One that was too late and swapped a live
/// holder's id out swaps it back, until its own id comes out (then all is as before) or 0 does
/// (then the lock was freed meanwhile, and is the contender's). Where three meet at one release,
/// ids can get lost: then the word names another contender until the next release. Exclusion does
/// not depend on the ids; that the soc frees the right locks does, but for that moment.
///
/// Cores of one domain have one id, so they exclude each other first, with `local`.
#[derive(Debug)]
pub struct HwLock {
    word: Window,
    id: u64,
    local: AtomicU32,
}

/// Most swaps of one try.
const MAX_ROUNDS: usize = 8;
/// Most rounds of `cpu::relax` between two tries.
const MAX_BACKOFF: u32 = 64;
/// Tries after which whoever has it is thought to stand still.
const STALLED: u32 = 256;

impl HwLock {
    /// The lock at the first word of `word`, for the cores of `domain`. One a lock and kernel.
    pub fn new(word: Window, domain: DomainId) -> HwLock {
        assert!(word.bytes >= 8, "a spinlock is a word");
        HwLock { word, id: u64::from(domain.0) + 1, local: AtomicU32::new(0) }
    }

    /// Takes it if it is free. Interrupts stay masked until the guard is dropped.
    pub fn try_acquire(&self) -> Option<HwGuard<'_>> {
        let irqs_on = cpu::irqs_off();
        let taken = self.try_take();
        if !taken {
            cpu::irqs_restore(irqs_on);
        }
        taken.then(|| HwGuard { lock: self, irqs_on })
    }

    /// Waits for it, backing off.
    pub fn acquire(&self) -> HwGuard<'_> {
        self.wait_for(|| self.try_acquire())
    }

    /// Waits for it; interrupts are left as they are. For who keeps its core, and is never entered
    /// by an interrupt.
    pub(crate) fn acquire_unmasked(&self) -> HwGuard<'_> {
        // A guard with `irqs_on` false unmasks nothing when it is dropped.
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
                // Who has it the word need not say.
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

    /// Index + 1 of the domain that holds it, or 0.
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
                // Free: it is ours, under our id or under one that we still carried.
                if carried != self.id {
                    self.word.store(0, self.id);
                }
                // What is guarded is accessed after it was taken.
                words::barrier();
                return true;
            }
            if found == self.id {
                return false;
            }
            carried = found;
        }
        // Ours got lost; the caller attends before it tries again.
        false
    }
}

/// Holds a hardware spinlock.
#[derive(Debug)]
pub struct HwGuard<'a> {
    lock: &'a HwLock,
    irqs_on: bool,
}

impl Drop for HwGuard<'_> {
    fn drop(&mut self) {
        // What was done under the lock is seen before it is free.
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
    fn a_window_is_words_within_bounds() {
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
    fn a_contender_leaves_the_holder_named() {
        let window = window(1);
        let (one, two) = (HwLock::new(window, DomainId(0)), HwLock::new(window, DomainId(1)));
        let guard = one.try_acquire().unwrap();
        assert!(two.try_acquire().is_none() && one.try_acquire().is_none());
        assert_eq!(one.holder(), 1);
        drop(guard);
        assert!(two.try_acquire().is_some());
    }
}
