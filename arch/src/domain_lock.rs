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
//! While no other domain runs, steps leave the lock as it is when they end, so that the next one
//! finds it taken ([`kept`]): most of what a lock costs is the look at others.
//!
//! A domain may stop or die at any access. The soc ends the attempt of a dead one when it fences
//! it, and marks it as broken if it may have had the lock ([`LockWord::fenced`]). So a domain that
//! gets the lock also learns whether a former holder died with it, and in which life of the
//! guarded state. `host/soc/tests/model_locks.rs` explores all schedules.

mod kept;

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
use kept::Kept;

/// One lock, in one kernel. The cores of a domain share its word, so the caller excludes the others
/// ([`crate::exclusion`]), and is not preempted. No interrupt handler takes the lock.
#[derive(Debug)]
pub struct DomainLock {
    number: u8,
    /// This domain's word in memory, and its value.
    own: Window,
    value: AtomicU64,
    /// What this domain keeps, and its words of all locks.
    kept: &'static Kept,
    all: Window,
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

/// What this domain keeps.
static KEPT: Kept = Kept::new();

/// Lets this domain keep its locks after its steps, until [`release_kept`]. To be called when no
/// other domain runs.
pub fn keep() {
    KEPT.begin();
}

/// Releases the locks that this domain keeps, and keeps none any more. `all`: its words.
pub fn release_kept(all: &Window) {
    KEPT.release_all(|lock| leave(all, lock));
}

/// Returns a number that identifies the step that has a lock, together with the lock's word: a step
/// that follows on one that has kept the lock does not change the word.
pub fn kept_steps(lock: u8) -> u32 {
    KEPT.steps(lock)
}

/// Releases a lock of this domain that no step has.
fn leave(all: &Window, lock: u8) {
    let at = 8 * usize::from(lock);
    all.release(at, LockWord(all.load(at)).ended().0);
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
        let words = |domain: usize| {
            let at = size_of::<DomainPage>() * domain + offset_of!(DomainPage, locks);
            Window::uncached(blob, PhysAddr(blob.window.domains + at as u64), 8 * LOCKS as u64)
        };
        let word = |domain| Some(words(domain)?.part(8 * number, 8));
        let all = words(domain.index())?;
        let mut others = [all.part(0, 0); MAX_DOMAINS - 1];
        let at = (0..blob.domains().len()).filter(|&at| at != domain.index());
        for (slot, at) in others.iter_mut().zip(at) {
            *slot = word(at)?;
        }
        Some(DomainLock::new(number as u8, (all, &KEPT), others, domain.index()))
    }

    fn new(
        number: u8,
        (all, kept): (Window, &'static Kept),
        others: [Window; MAX_DOMAINS - 1],
        before: usize,
    ) -> DomainLock {
        let own = all.part(8 * usize::from(number), 8);
        // The soc has ended what an earlier life of this kernel had begun.
        let value = AtomicU64::new(own.load(0));
        let zero = || AtomicU32::new(0);
        let (life, broken, overtakes) = (zero(), zero(), zero());
        DomainLock { number, own, value, kept, all, others, before, life, broken, overtakes }
    }

    /// Returns the lock's number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Waits for the lock.
    #[inline(always)]
    pub fn acquire(&self) -> DomainGuard<'_> {
        let has_kept = self.value().blocks() && self.has_kept();
        if !has_kept && !self.attempt() {
            self.wait();
        }
        DomainGuard { lock: self }
    }

    /// Returns whether this domain has the lock, which an earlier step has kept.
    #[inline]
    fn has_kept(&self) -> bool {
        let has_it = self.kept.take(self.number);
        if !has_it {
            self.forget_kept();
        }
        has_it
    }

    /// The lock that a step has kept was released since.
    #[cold]
    #[inline(never)]
    fn forget_kept(&self) {
        self.value.store(self.value().ended().0, Ordering::Relaxed);
    }

    /// Returns what this domain, which has the lock, knows from all words.
    #[inline]
    pub fn known(&self) -> Known {
        let (life, broken) = (&self.life, &self.broken);
        let others =
            Known { life: life.load(Ordering::Relaxed), broken: broken.load(Ordering::Relaxed) };
        others.with(self.value())
    }

    /// Returns a number that changes whenever this domain takes the lock, unless it has kept it.
    #[inline]
    pub fn holding(&self) -> u64 {
        self.value().0
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
        if self.kept.keeps() {
            // Another domain runs, which may want what this one keeps.
            self.kept.release_all(|lock| leave(&self.all, lock));
        }
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
        // Usually others run.
        if self.kept.keeps() && self.kept.keep(self.number) {
            return;
        }
        let value = self.value().ended();
        self.value.store(value.0, Ordering::Relaxed);
        // What was done under the lock is visible before it is free.
        self.own.release(0, value.0);
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
        let kept = Box::leak(Box::new(Kept::new()));
        DomainLock::new(0, (word(me), kept), others, me)
    }
}

#[cfg(test)]
mod tests;
