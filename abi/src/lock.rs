//! The words of a lock between domains: one for each domain, which only that domain writes
//! (`arch::domain_lock`), and which outlives it.
//!
//! ```text
//!   63        34    33     32      31           0
//!   | count     | wants | broken | life         |
//! ```
//! - *count* is odd while the domain has the lock or keeps others from it; each attempt increments
//!   it twice.
//! - *wants*: the domain waits for the lock. If the count is odd, it does not have it yet.
//! - *life*: the latest life that the domain knows of the service whose state the lock guards.
//! - *broken*: the domain died with the lock, in that life. The soc writes this when it fences a
//!   domain, as [`LockWord::fenced`]. (For a lock that guards no service, life is 0, and this tells
//!   nothing.)
//!
//! All words are 0 when the board starts.

/// Number of locks between domains.
pub const LOCKS: usize = 32;

const LIFE: u64 = 0xffff_ffff;
const BROKEN: u64 = 1 << 32;
const WANTS: u64 = 1 << 33;
/// One attempt is twice this.
const COUNT: u64 = 1 << 34;

/// A domain's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockWord(pub u64);

impl LockWord {
    /// Returns whether the domain has the lock, or keeps others from it.
    #[inline]
    pub const fn blocks(self) -> bool {
        self.0 & COUNT != 0
    }

    #[inline]
    pub const fn life(self) -> u32 {
        self.0 as u32
    }

    /// Returns the life in which the domain died with the lock; 0 if it did not.
    #[inline]
    pub const fn broken(self) -> u32 {
        if self.0 & BROKEN != 0 { self.life() } else { 0 }
    }

    /// Returns whether it may tell more of the guarded state than that life `life` began: a later
    /// life, or a death.
    #[inline]
    pub const fn tells_more(self, life: u32) -> bool {
        self.0 & (LIFE | BROKEN) > life as u64
    }

    /// Returns whether the domain waits for the lock.
    #[inline]
    pub const fn wants(self) -> bool {
        self.0 & WANTS != 0
    }

    /// Returns whether the domain neither has the lock, nor keeps others from it, nor waits for it.
    #[inline]
    pub const fn is_idle(self) -> bool {
        self.0 & (COUNT | WANTS) == 0
    }

    /// Begins to wait, without keeping others from the lock.
    #[must_use]
    pub const fn wanting(self) -> LockWord {
        LockWord(self.0 | WANTS)
    }

    /// Begins an attempt: others are kept from the lock from now on.
    #[must_use]
    #[inline]
    pub const fn attempt(self) -> LockWord {
        LockWord(self.0.wrapping_add(COUNT))
    }

    /// The domain has waited, and has the lock.
    #[must_use]
    pub const fn entered(self) -> LockWord {
        LockWord(self.0 & !WANTS)
    }

    /// Ends an attempt.
    #[must_use]
    #[inline]
    pub const fn ended(self) -> LockWord {
        LockWord((self.0 & !WANTS).wrapping_add(COUNT))
    }

    /// Counts steps that have not changed the word.
    #[must_use]
    pub const fn counted(self, steps: u32) -> LockWord {
        LockWord(self.0.wrapping_add(COUNT.wrapping_mul(steps as u64)))
    }

    /// Knows of life `life`. What broke an earlier one has been dealt with.
    #[must_use]
    #[inline]
    pub const fn in_life(self, life: u32) -> LockWord {
        if life == self.life() {
            return self;
        }
        LockWord(self.0 & !(LIFE | BROKEN) | life as u64)
    }

    /// The word after the domain's death.
    #[must_use]
    pub const fn fenced(self) -> LockWord {
        match (self.blocks(), self.wants()) {
            (false, _) => LockWord(self.0 & !WANTS),
            (true, true) => self.ended(),
            (true, false) => LockWord(self.ended().0 | BROKEN),
        }
    }
}

/// What the words of all domains tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The latest life of the guarded state; 0 if there is none.
    pub life: u32,
    /// The latest life in which a domain died with the lock; 0 if none did.
    pub broken: u32,
}

impl Known {
    /// Combines with one more word.
    #[must_use]
    #[inline]
    pub const fn with(self, word: LockWord) -> Known {
        const fn max(a: u32, b: u32) -> u32 {
            if a > b { a } else { b }
        }
        Known { life: max(self.life, word.life()), broken: max(self.broken, word.broken()) }
    }
}

const _: () = {
    let idle = LockWord(0).in_life(7);
    let tried = idle.attempt();
    assert!(tried.blocks() && tried.life() == 7 && tried.broken() == 0);
    assert!(!tried.ended().blocks() && tried.ended().life() == 7);
    let dead = tried.fenced();
    assert!(idle.tells_more(6) && !idle.tells_more(7) && dead.tells_more(9));
    assert!(!dead.blocks() && dead.broken() == 7 && dead.attempt().broken() == 7);
    assert!(dead.attempt().in_life(8).broken() == 0);
    let wants = idle.wanting();
    assert!(!wants.blocks() && wants.fenced().is_idle() && !wants.is_idle());
    assert!(wants.attempt().blocks() && wants.attempt().fenced().0 == wants.attempt().ended().0);
    assert!(wants.attempt().entered().fenced().broken() == 7);
    let last = LockWord(!(WANTS | BROKEN)).ended();
    assert!(!last.blocks() && last.life() == u32::MAX && last.broken() == 0);
};
