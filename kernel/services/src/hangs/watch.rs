//! Recognises a step that never ends, from what a core's interrupts see of it: a state machine
//! without I/O.
//!
//! Contract: a step is over if it is seen in [`LOOKS`] interrupts, each [`LOOK_NS`] or more after
//! the one before. A core that its host does not run, or that a debugger holds, takes no
//! interrupts, so the time in which it executes nothing counts little. The domain's word of a lock
//! that the step has tells one step from the next: it counts them.

use abi::lock::LockWord;

/// Minimum time between two looks that count.
pub const LOOK_NS: u64 = 100_000_000;
/// Looks after which a step is over: ten seconds, after any verdict of the soc.
const LOOKS: u32 = 100;

/// What has been seen of a core's steps.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// A lock that the step has, and its word.
    step: (usize, LockWord),
    looks: u32,
    /// Time of the last look that counted.
    last: u64,
}

impl Watch {
    pub const fn new() -> Watch {
        Watch { step: (0, LockWord(0)), looks: 0, last: 0 }
    }

    /// The step that has the locks `held`, one bit each, is interrupted at time `now`, in ns.
    /// `word` returns this domain's word of a lock, which counts its steps. Returns whether the
    /// step is over.
    pub fn look(&mut self, now: u64, held: u64, word: impl Fn(usize) -> LockWord) -> bool {
        let (lock, seen) = self.step;
        if held >> lock & 1 == 0 || word(lock) != seen {
            let lock = held.trailing_zeros() as usize;
            *self = Watch { step: (lock, word(lock)), looks: 0, last: now };
        } else if now.saturating_sub(self.last) >= LOOK_NS {
            (self.looks, self.last) = (self.looks + 1, now);
        }
        self.looks >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interrupts at these times, in steps that have these locks with this word. Returns the time
    /// at which a step is over.
    fn watch(seen: impl IntoIterator<Item = (u64, u64, u64)>) -> Option<u64> {
        let mut watch = Watch::new();
        seen.into_iter()
            .find(|&(now, held, word)| watch.look(now, held, |_| LockWord(word)))
            .map(|(now, ..)| now)
    }

    #[test]
    fn a_step_that_never_ends_is_over_after_ten_seconds() {
        let often = |ns: u64| watch((1..).map(|look| (look * ns, 0b100, 7)));
        assert_eq!(often(LOOK_NS), Some(101 * LOOK_NS));
        assert_eq!(often(LOOK_NS / 50), Some(LOOK_NS / 50 + 100 * LOOK_NS), "more often");
        assert_eq!(often(20 * LOOK_NS), Some(20 * 101 * LOOK_NS), "a core that seldom runs");
    }

    #[test]
    fn steps_that_follow_each_other_are_not() {
        let steps = (0..10_000).map(|look| (look * LOOK_NS, 1, look / 90));
        assert_eq!(watch(steps), None);
        let others = (0..10_000).map(|look| (look * LOOK_NS, 1 << (look / 90 % 2), 7));
        assert_eq!(watch(others), None);
    }

    #[test]
    fn a_step_is_known_by_the_lock_that_it_keeps() {
        let mut watch = Watch::new();
        let mut at = 0;
        let over = (0..200).any(|look| {
            at = look;
            // It takes and releases lock 1 meanwhile, whose word changes.
            let word = |lock| LockWord(if lock == 1 { look } else { 7 });
            watch.look(look * LOOK_NS, 0b100 | (look & 1) << 1, word)
        });
        assert!(over && at <= 102, "{at}");
    }
}
