//! Memory between domains: aligned 64-bit words with one writer each.
//!
//! None of it is coherent. A writer stores its words, then *publishes* one more that makes them
//! valid; a reader *consumes* that one, then loads the others. Every access goes through `words`,
//! the one linker section at which the lab synchronises.

use core::sync::atomic::AtomicU64;
#[cfg(feature = "seeded")]
use core::sync::atomic::Ordering;

use abi::boot::Blob;
use base::addr::PhysAddr;
use base::port::Words;

use crate::words;

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

    /// Returns the place of `count` words.
    fn words(&self, at: usize, count: usize) -> *mut u64 {
        let fits = at <= self.bytes && count <= (self.bytes - at) / 8;
        assert!(at.is_multiple_of(8) && fits, "words of a window");
        // SAFETY: inside the window, or at its end, by the line above.
        unsafe { self.base.byte_add(at) }
    }

    /// Stores the word that makes earlier stores valid.
    #[inline]
    pub fn publish(&self, at: usize, value: u64) {
        // The stores that it makes valid are visible before it is.
        self.barrier();
        #[cfg(feature = "seeded")]
        if crate::seeded::is(crate::seeded::Seed::SwapPublish) {
            // SAFETY: aligned and mapped; the seeded bug is that an atomic access is one for the
            // caches of this domain only.
            unsafe { AtomicU64::from_ptr(self.word(at)) }.swap(value, Ordering::SeqCst);
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

    /// Loads a word. Accesses after it in the program come after it.
    #[inline]
    pub fn acquire(&self, at: usize) -> u64 {
        // SAFETY: as in `load`.
        unsafe { words::acquire64(self.word(at)) }
    }

    /// Stores a word. Accesses before it in the program come before it.
    #[inline]
    pub fn release(&self, at: usize, value: u64) {
        // SAFETY: as in `store`.
        unsafe { words::release64(self.word(at), value) }
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
    fn load_all(&self, at: usize, to: &mut [u64]) {
        // SAFETY: the range is inside the window, as in `load`; no one else accesses `to`.
        unsafe { words::load_all(self.words(at, to.len()), to.as_mut_ptr(), to.len()) }
    }
    fn store_all(&self, at: usize, from: &[u64]) {
        // SAFETY: as in `load_all`.
        unsafe { words::store_all(from.as_ptr(), self.words(at, from.len()), from.len()) }
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

#[cfg(test)]
impl Window {
    /// Makes a window over so many words of its own, all 0.
    pub(crate) fn fresh(words: usize) -> Window {
        let memory: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        Window::over(Box::leak(memory.into_boxed_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_rejects_words_outside_its_bounds() {
        let window = Window::fresh(8);
        window.store_all(16, &[1, 2, 3]);
        let mut back = [0; 3];
        window.part(16, 24).load_all(0, &mut back);
        assert_eq!(back, [1, 2, 3]);
        window.publish(0, 9);
        assert_eq!(window.consume(0), 9);
        assert_eq!(window.bytes(), 64);
        for bad in [3, 64, 72, usize::MAX - 7] {
            assert!(std::panic::catch_unwind(|| window.load(bad)).is_err());
        }
        assert!(std::panic::catch_unwind(|| window.part(8, 64)).is_err());
        window.store_all(64, &[]);
        for (bad, count) in [(56, 2), (72, 0), (3, 1), (usize::MAX - 7, 1)] {
            assert!(std::panic::catch_unwind(|| window.store_all(bad, &vec![0; count])).is_err());
            assert!(
                std::panic::catch_unwind(|| window.load_all(bad, &mut vec![0; count])).is_err()
            );
        }
    }
}
