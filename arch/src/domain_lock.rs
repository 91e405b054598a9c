//! A lock between domains, of plain words: no atomic access of several domains is needed, so it
//! works on chips without hardware spinlocks.
//!
//! Each domain has a word ([`LockWord`]), which only it writes and all read. Its count is odd while
//! the domain *blocks* the lock. A domain blocks, then looks at the words of all others:
//!
//! ```text
//!   count odd --> barrier --> no other blocks: it has the lock --> barrier --> count even
//!                        \--> another one does: count even, wants, then
//!
//!   (1) until no domain before this one blocks
//!   (2) count odd --> barrier --> one before this one blocks: count even, to (1)
//!   (3) until each domain after this one has not blocked once --> not wants: it has the lock
//! ```
//! Of two domains, the one whose word was stored last sees the other's, so not both get the lock. A
//! domain that waits gives way to those with lower numbers only, so one of them gets it. (This is
//! the one-bit algorithm of Burns and Lamport, with a short way for the usual case.) A domain that
//! has had the lock [`OVERTAKES`] times while others wait gives way to them: it lets each have the
//! lock, unless that does not take it for [`LOOKS`] looks. So no domain keeps others from the lock
//! by taking it again and again.
//!
//! A domain may stop or die at any access. The soc ends the attempt of a dead one when it fences
//! it, and marks it as broken if it may have had the lock ([`LockWord::fenced`]). So a domain that
//! gets the lock also learns whether a former holder died with it, and in which life of the
//! guarded state. `host/soc/tests/model_locks.rs` explores all schedules.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use abi::boot::{Blob, MAX_DOMAINS};
use abi::hang::Item;
use abi::lock::{Known, LOCKS, LockWord};
use abi::soc::DomainPage;
use base::addr::PhysAddr;
use base::id::DomainId;
use base::port::Words;

use crate::attend;
use crate::cpu;
use crate::shared::Window;
use crate::words;

/// One lock, in one kernel. The cores of a domain share its word, so the caller excludes the others
/// ([`crate::exclusion`]), and is not preempted. No interrupt handler takes the lock.
#[derive(Debug)]
pub struct DomainLock {
    number: u8,
    /// This domain's word in memory, and its value.
    own: Window,
    value: AtomicU64,
    /// The words of the other domains: of those before this one, then of those after it, then
    /// empty windows.
    others: [Window; MAX_DOMAINS - 1],
    before: usize,
    /// What the words of the others have told, as two words. It only grows.
    life: AtomicU32,
    broken: AtomicU32,
    /// How often this domain has taken the lock while others waited for it.
    overtakes: AtomicU32,
}

/// Returns whether the domain of this word has the lock, or keeps others from it.
fn blocks(word: &Window) -> bool {
    LockWord(word.acquire(0)).blocks()
}

/// Maximum rounds of `cpu::relax` between two looks: a domain that waits must look more often than
/// another one gives way.
const MAX_BACKOFF: u32 = 16;
/// How often a domain gets the lock before it gives way to those that wait. Each change of the
/// domain moves the pages that the lock guards.
const OVERTAKES: u32 = 8;
/// Looks at a domain that waits, for it to take the lock.
const LOOKS: u32 = 64;
/// Looks after which the holder is assumed to be stopped.
const STALLED: u32 = 256;

impl DomainLock {
    /// Lock `number`, for the cores of `domain`. Each kernel has one `DomainLock` per lock at a
    /// time. `None`: there is no such lock.
    pub fn of(blob: &Blob, domain: DomainId, number: usize) -> Option<DomainLock> {
        if number >= LOCKS {
            return None;
        }
        let word = |domain: usize| {
            let page = size_of::<DomainPage>() * domain;
            let at = page + offset_of!(DomainPage, locks) + 8 * number;
            Window::uncached(blob, PhysAddr(blob.window.domains + at as u64), 8)
        };
        let own = word(domain.index())?;
        let mut others = [own.part(0, 0); MAX_DOMAINS - 1];
        let at = (0..blob.domains().len()).filter(|&at| at != domain.index());
        for (slot, at) in others.iter_mut().zip(at) {
            *slot = word(at)?;
        }
        Some(DomainLock::new(number as u8, own, others, domain.index()))
    }

    fn new(
        number: u8,
        own: Window,
        others: [Window; MAX_DOMAINS - 1],
        before: usize,
    ) -> DomainLock {
        // The soc has ended what an earlier life of this kernel had begun.
        let value = AtomicU64::new(own.load(0));
        let zero = || AtomicU32::new(0);
        let (life, broken, overtakes) = (zero(), zero(), zero());
        DomainLock { number, own, value, others, before, life, broken, overtakes }
    }

    /// Returns the lock's number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Waits for the lock.
    #[inline]
    pub fn acquire(&self) -> DomainGuard<'_> {
        if !self.attempt() {
            self.wait();
        }
        DomainGuard { lock: self }
    }

    /// Returns what this domain, which has the lock, knows from all words.
    #[inline]
    pub fn known(&self) -> Known {
        let (life, broken) = (&self.life, &self.broken);
        let others =
            Known { life: life.load(Ordering::Relaxed), broken: broken.load(Ordering::Relaxed) };
        others.with(self.value())
    }

    /// Returns what the words tell now; the caller need not have the lock.
    pub fn look(&self) -> Known {
        let words = self.others().map(|word| LockWord(word.acquire(0)));
        words.fold(Known::default().with(self.value()), Known::with)
    }

    /// Records that this domain, which has the lock, knows of this life: before it writes what the
    /// lock guards.
    #[inline]
    pub fn know(&self, life: u32) {
        let value = self.value();
        if life != value.life() {
            self.put(value.in_life(life));
            words::barrier();
        }
    }

    #[inline]
    fn value(&self) -> LockWord {
        LockWord(self.value.load(Ordering::Relaxed))
    }

    #[inline]
    fn put(&self, word: LockWord) {
        self.value.store(word.0, Ordering::Relaxed);
        self.own.store(0, word.0);
    }

    #[inline]
    fn others(&self) -> impl Iterator<Item = &Window> {
        self.others.iter().take_while(|word| word.bytes() != 0)
    }

    /// Takes the lock if no other domain has it, and this one need not give way.
    #[inline(always)]
    fn attempt(&self) -> bool {
        let value = self.value();
        debug_assert!(value.is_idle(), "a domain takes a lock once");
        self.put(value.attempt());
        // The word is visible before the others are read.
        words::barrier();
        for word in self.others() {
            let word = LockWord(word.acquire(0));
            if !word.is_idle() && !self.may_overtake(word) {
                self.put(value.attempt().ended());
                return false;
            }
            if word.tells_more(self.life.load(Ordering::Relaxed)) {
                self.learn(word);
            }
        }
        true
    }

    /// Returns whether this domain may take the lock although the domain of this word is not idle.
    /// If that one waits, it is overtaken, now or after this domain has waited.
    #[cold]
    #[inline(never)]
    fn may_overtake(&self, word: LockWord) -> bool {
        let overtakes = self.overtakes.load(Ordering::Relaxed) + u32::from(word.wants());
        self.overtakes.store(overtakes, Ordering::Relaxed);
        !word.blocks() && overtakes <= OVERTAKES
    }

    #[cold]
    #[inline(never)]
    fn learn(&self, word: LockWord) {
        let known = self.known().with(word);
        self.life.store(known.life, Ordering::Relaxed);
        self.broken.store(known.broken, Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut patience = attend::Patience::default();
        if self.overtakes.load(Ordering::Relaxed) > OVERTAKES {
            self.overtakes.store(0, Ordering::Relaxed);
            self.give_way(&mut patience);
        }
        let (before, after) = self.others[..self.others().count()].split_at(self.before);
        loop {
            self.put(self.value().wanting());
            self.until(&mut patience, || !before.iter().any(blocks));
            self.put(self.value().attempt());
            words::barrier();
            if !before.iter().any(blocks) {
                break;
            }
            self.put(self.value().ended());
        }
        after.iter().for_each(|word| self.until(&mut patience, || !blocks(word)));
        self.others().for_each(|word| self.learn(LockWord(word.acquire(0))));
        self.put(self.value().entered());
        // Before the first store to what the lock guards.
        words::barrier();
    }

    /// Lets each domain have the lock that waits for it, if it takes it soon.
    fn give_way(&self, patience: &mut attend::Patience) {
        for word in self.others().filter(|word| LockWord(word.acquire(0)).wants()) {
            if (0..LOOKS).any(|_| blocks(word)) {
                self.until(patience, || !blocks(word));
            }
        }
    }

    /// Waits with backoff.
    fn until(&self, patience: &mut attend::Patience, ready: impl Fn() -> bool) {
        let mut backoff = 1;
        loop {
            let (mut looks, mut is_ready) = (0, false);
            attend::until(|| {
                is_ready = ready();
                looks += 1;
                if !is_ready {
                    (0..backoff).for_each(|_| cpu::relax());
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                }
                is_ready || looks == STALLED
            });
            if is_ready {
                return;
            }
            // The domain that has the lock may be stopped.
            patience.lasts(Item::Lock(self.number), None);
        }
    }

    #[inline]
    fn release(&self) {
        let value = self.value().ended();
        self.value.store(value.0, Ordering::Relaxed);
        // What was done under the lock is visible before it is free.
        self.own.publish(0, value.0);
    }
}

#[derive(Debug)]
pub struct DomainGuard<'a> {
    lock: &'a DomainLock,
}

impl Drop for DomainGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.release();
    }
}

#[cfg(test)]
impl DomainLock {
    /// A lock of domain `me`, over the first words of a window.
    pub(crate) fn over(window: &Window, domains: usize, me: usize) -> DomainLock {
        let word = |domain: usize| window.part(8 * domain, 8);
        let mut others = [word(me).part(0, 0); MAX_DOMAINS - 1];
        let at = (0..domains).filter(|&at| at != me);
        others.iter_mut().zip(at).for_each(|(slot, at)| *slot = word(at));
        DomainLock::new(0, word(me), others, me)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::vec::Vec;

    #[test]
    fn four_domains_exclude_each_other() {
        let window = Window::fresh(5);
        let threads: Vec<_> = (0..4)
            .map(|domain| {
                thread::spawn(move || {
                    let lock = DomainLock::over(&window, 4, domain);
                    for _ in 0..2000 {
                        let _guard = lock.acquire();
                        let seen = window.load(32);
                        window.store(32, seen + 1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(window.load(32), 8000);
        assert!((0..4).all(|domain| !LockWord(window.load(8 * domain)).blocks()));
    }

    #[test]
    fn an_attempt_at_a_taken_lock_changes_nothing() {
        let window = Window::fresh(2);
        let (one, two) = (DomainLock::over(&window, 2, 0), DomainLock::over(&window, 2, 1));
        let guard = one.acquire();
        assert!(!two.attempt());
        let words = || [0, 8].map(|at| LockWord(window.load(at)));
        assert!(words()[0].blocks() && words()[1].is_idle());
        drop(guard);
        assert!(words().iter().all(|word| word.is_idle()) && two.attempt());
    }

    #[test]
    fn a_domain_gives_way_to_one_that_waits_but_not_for_ever() {
        let window = Window::fresh(2);
        let one = DomainLock::over(&window, 2, 0);
        let wants = LockWord::default().wanting();
        window.store(8, wants.0);
        (0..OVERTAKES).for_each(|_| {
            assert!(one.attempt());
            one.release();
        });
        assert!(!one.attempt());
        one.wait();
        one.release();
        one.overtakes.store(OVERTAKES, Ordering::Relaxed);
        // The other one takes the lock when it sees that it is free.
        thread::scope(|scope| {
            let taken = scope.spawn(|| {
                while blocks(&window.part(0, 8)) {
                    thread::yield_now();
                }
                window.store(8, wants.attempt().entered().0);
                (0..100).for_each(|_| thread::yield_now());
                window.store(8, wants.attempt().ended().0);
            });
            while !blocks(&window.part(8, 8)) && !taken.is_finished() {
                thread::yield_now();
            }
            drop(one.acquire());
        });
        assert!(LockWord(window.load(8)).is_idle());
    }

    #[test]
    fn the_next_holder_learns_of_lives_and_of_a_death_with_the_lock() {
        let window = Window::fresh(2);
        let (one, two) = (DomainLock::over(&window, 2, 0), DomainLock::over(&window, 2, 1));
        let guard = one.acquire();
        one.know(3);
        drop(guard);
        let guard = two.acquire();
        assert_eq!(two.known(), Known { life: 3, broken: 0 });
        two.know(3);
        std::mem::forget(guard);
        window.store(8, LockWord(window.load(8)).fenced().0);
        let guard = one.acquire();
        assert_eq!(one.known(), Known { life: 3, broken: 3 });
        one.know(4);
        drop(guard);
        let again = DomainLock::over(&window, 2, 1);
        let guard = again.acquire();
        assert_eq!(again.known(), Known { life: 4, broken: 3 }, "its former life's death counts");
        drop(guard);
    }
}
