//! Which requests of a thread a wake counts for.
//!
//! Contract: a thread expects wakes of the requests that it is about to make, a range of numbers. A
//! wake of one of them, however early, is recorded; a wake of another one is not. A wake may come
//! before the thread sleeps, and the scheduler's permit may be used up by another wait.

use core::sync::atomic::{AtomicU64, Ordering};

/// The most requests that a thread waits for at once.
pub const MOST: usize = 64;

/// The word of one thread: the first number in the upper half, then twice their count, and 1 if one
/// was woken.
#[derive(Debug, Default)]
pub struct Woken(AtomicU64);

impl Woken {
    /// Expects wakes of `count` requests from number `first` on. Earlier wakes do not count.
    #[inline]
    pub fn expect(&self, first: u32, count: usize) {
        let count = count.min(MOST) as u64;
        self.0.store(u64::from(first) << 32 | count << 1, Ordering::Relaxed);
    }

    /// Records a wake.
    #[inline]
    pub fn note(&self, number: u32) {
        let note = |word: u64| {
            let (first, count) = ((word >> 32) as u32, (word as u32) >> 1);
            (number.wrapping_sub(first) < count).then_some(word | 1)
        };
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, note);
    }

    /// Returns whether one of the expected requests was woken.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expected_wakes_count() {
        let woken = Woken::default();
        woken.note(0);
        assert!(!woken.is_set(), "nothing is expected");
        for first in [0, 7, u32::MAX - 1, u32::MAX] {
            for count in [1, 3, MOST] {
                for number in [first.wrapping_sub(1), first.wrapping_add(count as u32)] {
                    woken.expect(first, count);
                    woken.note(number);
                    assert!(!woken.is_set(), "{first} {count} {number}");
                }
                for index in 0..count as u32 {
                    woken.expect(first, count);
                    woken.note(first.wrapping_add(index));
                    assert!(woken.is_set(), "{first} {count} {index}");
                }
            }
        }
    }
}
