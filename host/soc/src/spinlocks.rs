//! Frees hardware spinlocks that a domain has left taken at its death. `arch::shared::HwLock` takes
//! and releases them.
//!
//! A domain's count for a lock is odd from before it takes the lock until after it has released it.
//! The count of a dead domain is reset to 0. So a lock is *orphaned* if its word is 1 while the
//! counts of all domains are even. They change at any time, and one access reads one word:
//!
//! ```text
//!   all counts are even --> the word is 1 --> all counts are the same as before --> free
//!        |                     |                   |
//!        | odd                 | 0                 | another
//!        v                     v                   v
//!     look again            settled            look again
//! ```
//! Counts only grow. If all are the same in both rounds, no living domain had the lock at any time
//! between them, so none has it when the word is read. The word stays 1 until it is freed here,
//! because only the domain that has the lock stores 0. A domain that waits for an orphaned lock
//! loads its word, and does not count, so the rounds agree soon. A domain that is stopped with an
//! odd count delays the decision until it is woken, which those that wait see to.

use abi::boot::MAX_DOMAINS;
use abi::soc::SPINLOCKS;

/// Accesses to the words of the locks, one at a time.
pub trait Bank {
    type Error;
    /// Loads the word of a lock.
    fn word(&self, lock: usize) -> Result<u64, Self::Error>;
    /// Loads a domain's count for a lock.
    fn attempts(&self, lock: usize, domain: usize) -> Result<u64, Self::Error>;
    /// Stores 0 to the word of a lock.
    fn free(&self, lock: usize) -> Result<(), Self::Error>;
}

/// What one access has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing yet.
    More,
    /// A domain uses the lock: look again later.
    Busy,
    /// The lock is not orphaned.
    Settled,
    /// It was, and is free now.
    Freed,
}

/// One look at a lock that may be orphaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Look {
    /// Number of accesses.
    done: usize,
    /// The counts of the first round.
    counts: [u64; MAX_DOMAINS],
}

impl Look {
    /// Performs the next access, among `domains` domains. After any result but [`Seen::More`] the
    /// look is over.
    pub fn step<B: Bank>(
        &mut self,
        bank: &B,
        lock: usize,
        domains: usize,
    ) -> Result<Seen, B::Error> {
        let done = self.done;
        self.done += 1;
        if done < domains {
            self.counts[done] = bank.attempts(lock, done)?;
            return Ok(if self.counts[done].is_multiple_of(2) { Seen::More } else { Seen::Busy });
        }
        if done == domains {
            return Ok(if bank.word(lock)? == 0 { Seen::Settled } else { Seen::More });
        }
        let domain = done - domains - 1;
        if domain < domains {
            let same = bank.attempts(lock, domain)? == self.counts[domain];
            return Ok(if same { Seen::More } else { Seen::Busy });
        }
        bank.free(lock)?;
        Ok(Seen::Freed)
    }

    /// Looks at a lock until the look is over.
    fn whole<B: Bank>(bank: &B, lock: usize, domains: usize) -> Result<Seen, B::Error> {
        let mut look = Look::default();
        loop {
            let seen = look.step(bank, lock, domains)?;
            if seen != Seen::More {
                return Ok(seen);
            }
        }
    }
}

/// The locks that may be orphaned, as a bit set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Doubts(u64);

const _: () = assert!(SPINLOCKS <= 64 && MAX_DOMAINS < usize::MAX / 4);

impl Doubts {
    /// A domain has died, and its counts were reset: any lock may be orphaned.
    pub fn all(&mut self) {
        self.0 = (1 << SPINLOCKS) - 1;
    }

    /// Returns whether there are any. If so, [`Doubts::resolve`] must be called again soon.
    pub fn exist(self) -> bool {
        self.0 != 0
    }

    /// Looks at each lock that may be orphaned, among `domains` domains. Returns how many were
    /// freed.
    pub fn resolve<B: Bank>(&mut self, bank: &B, domains: usize) -> Result<usize, B::Error> {
        let (before, mut freed) = (self.0, 0);
        for lock in (0..SPINLOCKS).filter(|lock| before >> lock & 1 != 0) {
            match Look::whole(bank, lock, domains)? {
                Seen::Freed => freed += 1,
                Seen::Settled => {}
                Seen::Busy | Seen::More => continue,
            }
            self.0 &= !(1 << lock);
        }
        Ok(freed)
    }
}
