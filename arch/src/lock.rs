//! Locks between the cores of one domain, and values that are set once.
//!
//! [`Lock`] is a fair ticket lock: interrupts are masked while it is held, a contended one is
//! waited for through `attend::until`, and the guard restores the interrupt state. Guards are
//! dropped in the reverse order of locking. Releasing the outermost lock of a core (the one taken
//! with interrupts unmasked) runs the hook of `attend::install_released`.
//!
//! Ranks order locks: a core that holds one acquires only higher ones. Debug builds check it on
//! every acquisition, before the order can deadlock; release builds carry the rank and nothing
//! else.

mod core_local;

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::attend::percore::{hook, per_core};
use crate::{attend, cpu};

pub use core_local::CoreLocal;

/// Place of a lock in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Lower ones are acquired first.
    pub level: u8,
    /// For reports.
    pub name: &'static str,
    /// May not be held while waiting for another core or domain.
    pub leaf: bool,
}

impl Rank {
    /// A lock that may be held across a wait.
    pub const fn new(level: u8, name: &'static str) -> Self {
        Rank { level, name, leaf: false }
    }
    /// A lock that may not.
    pub const fn leaf(level: u8, name: &'static str) -> Self {
        Rank { level, name, leaf: true }
    }
}

/// How the order was violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// `wanted` was acquired while a lock of the same or a higher rank was held.
    Order {
        /// Highest held.
        held: Rank,
        /// Acquired.
        wanted: Rank,
    },
    /// A leaf lock was held at a wait.
    Wait {
        /// The leaf.
        held: Rank,
    },
    /// A guard was dropped before one that was taken after it.
    Release {
        /// The last one taken.
        last: Rank,
        /// The one dropped.
        dropped: Rank,
    },
    /// More locks are held at once than the checker has room for.
    Depth,
}

hook! { static REPORT: fn(Violation); }

/// Installs what happens at a violation; a panic otherwise.
pub fn install_report(report: fn(Violation)) {
    REPORT.set(report);
}

#[cold]
fn report(violation: Violation) {
    match REPORT.get() {
        Some(report) => report(violation),
        None => panic!("lock order: {violation:?}"),
    }
}

/// Most locks a core holds at once.
const DEPTH: usize = 12;

/// The ranks that a core holds, in the order it took them.
struct Held {
    count: usize,
    /// What a waiting core serves meanwhile has an order of its own, from here on: it takes the
    /// locks it begins with by `try_lock`, so it can wait for nothing that this core holds.
    base: usize,
    ranks: [Rank; DEPTH],
}

per_core! { static HELD: Held = Held { count: 0, base: 0, ranks: [Rank::new(0, ""); DEPTH] }; }

impl Held {
    /// A rank that violates the order is not counted as held.
    fn acquire(&mut self, wanted: Rank) -> Option<Violation> {
        let highest =
            self.ranks[self.base..self.count].iter().max_by_key(|held| held.level).copied();
        if let Some(held) = highest.filter(|held| held.level >= wanted.level) {
            return Some(Violation::Order { held, wanted });
        }
        self.push(wanted)
    }

    fn push(&mut self, wanted: Rank) -> Option<Violation> {
        let Some(free) = self.ranks.get_mut(self.count) else { return Some(Violation::Depth) };
        *free = wanted;
        self.count += 1;
        None
    }

    fn release(&mut self, dropped: Rank) -> Option<Violation> {
        let held = &mut self.ranks[..self.count];
        let at = held.iter().rposition(|&held| held == dropped)?;
        let last = held[held.len() - 1];
        held.copy_within(at + 1.., at);
        self.count -= 1;
        (last != dropped).then_some(Violation::Release { last, dropped })
    }

    fn leaf(&self) -> Option<Violation> {
        let leaf = self.ranks[self.base..self.count].iter().find(|held| held.leaf);
        leaf.map(|&held| Violation::Wait { held })
    }
}

/// For every kind of lock with a rank: `rank` is being acquired on this core.
#[inline]
pub fn note_acquire(rank: Rank) {
    if cfg!(debug_assertions)
        && let Some(violation) = HELD.with(|held| held.acquire(rank))
    {
        report(violation);
    }
}

/// `rank` was acquired without waiting, which no order forbids.
#[inline]
fn note_try(rank: Rank) {
    if cfg!(debug_assertions)
        && let Some(violation) = HELD.with(|held| held.push(rank))
    {
        report(violation);
    }
}

/// Runs what a waiting core serves meanwhile, under an order of its own.
pub(crate) fn apart(serve: impl FnOnce()) {
    let order = new_order();
    serve();
    old_order(order);
}

/// From here on this core takes locks in an order of its own, whatever it holds: for what comes
/// upon it and takes none of those. Returns what [`old_order`] wants.
pub(crate) fn new_order() -> usize {
    if !cfg!(debug_assertions) {
        return 0;
    }
    HELD.with(|held| core::mem::replace(&mut held.base, held.count))
}

/// The order before [`new_order`] again.
pub(crate) fn old_order(order: usize) {
    if cfg!(debug_assertions) {
        HELD.with(|held| held.base = order);
    }
}

/// `rank` was released on this core.
#[inline]
pub fn note_release(rank: Rank) {
    if cfg!(debug_assertions)
        && let Some(violation) = HELD.with(|held| held.release(rank))
    {
        report(violation);
    }
}

/// A wait begins: no leaf lock may be held.
#[inline]
pub fn assert_may_wait() {
    if cfg!(debug_assertions)
        && let Some(violation) = HELD.with(|held| held.leaf())
    {
        report(violation);
    }
}

/// Locks that this core holds; counted in debug builds only, else 0.
pub fn held() -> usize {
    if cfg!(debug_assertions) { HELD.with(|held| held.count) } else { 0 }
}

/// A value that one core at a time reaches.
pub struct Lock<T: ?Sized> {
    next: AtomicU32,
    serving: AtomicU32,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: the ticket protocol gives one guard at a time, so `&Lock<T>` hands out `&mut T` to one
// core at a time; that asks for `T: Send` only.
unsafe impl<T: ?Sized + Send> Sync for Lock<T> {}
// SAFETY: a lock owns its value.
unsafe impl<T: ?Sized + Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// Unlocked.
    pub const fn new(rank: Rank, value: T) -> Self {
        Lock {
            next: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            rank,
            value: UnsafeCell::new(value),
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Lock<T> {
    /// Its place in the order.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Waits for its turn; interrupts stay masked until the guard is dropped.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let irqs_on = cpu::irqs_off();
        note_acquire(self.rank);
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        // Acquire: what the last holder did happens before what this one does.
        if self.serving.load(Ordering::Acquire) != ticket {
            attend::until_locked(|| self.serving.load(Ordering::Acquire) == ticket);
        }
        Guard { lock: self, irqs_on, not_send: PhantomData }
    }

    /// The guard, or `None` when another core holds it or waits for it.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let irqs_on = cpu::irqs_off();
        let ticket = self.serving.load(Ordering::Acquire);
        let taken = self.next.compare_exchange(
            ticket,
            ticket.wrapping_add(1),
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if taken.is_err() {
            cpu::irqs_restore(irqs_on);
            return None;
        }
        note_try(self.rank);
        Some(Guard { lock: self, irqs_on, not_send: PhantomData })
    }

    /// Releases the lock without its guard; interrupts stay masked.
    ///
    /// # Safety
    /// This core holds the lock, and the guard it was taken with lives on in the frame of a thread
    /// that was switched away from, which will drop it only after this lock was taken for it again.
    pub unsafe fn force_unlock(&self) {
        note_release(self.rank);
        self.pass_on();
    }

    /// Serves the next ticket; by the holder only.
    #[inline]
    fn pass_on(&self) {
        // Nobody else stores `serving`. Release: see `lock`.
        let next = self.serving.load(Ordering::Relaxed).wrapping_add(1);
        self.serving.store(next, Ordering::Release);
    }

    /// The value, without locking.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Held or waited for? For reports only: it may have changed on return.
    pub fn is_locked(&self) -> bool {
        self.next.load(Ordering::Relaxed) != self.serving.load(Ordering::Relaxed)
    }
}

impl<T: ?Sized> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({}, {})", self.rank.name, if self.is_locked() { "held" } else { "free" })
    }
}

/// The right to a locked value; stays on the core that took it.
pub struct Guard<'a, T: ?Sized> {
    lock: &'a Lock<T>,
    irqs_on: bool,
    not_send: PhantomData<*mut ()>,
}

impl<T: ?Sized> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard's ticket is being served, so nobody else reaches the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes this the only borrow.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        note_release(self.lock.rank);
        self.lock.pass_on();
        if self.irqs_on {
            attend::released();
            cpu::irqs_restore(true);
        }
    }
}

/// A value that is set once, for the statics of image.
pub struct Once<T> {
    /// 0 unset, 1 being set, 2 set.
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written by the one core that moves `state` from 0 to 1, before it stores 2
// with Release; afterwards it is only shared, which asks for `T: Sync` (and `Send` to come over).
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// Unset.
    pub const fn new() -> Self {
        Once { state: AtomicU8::new(0), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Sets it; gives the value back when it was set before.
    pub fn set(&self, value: T) -> Result<&T, T> {
        if self.state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(value);
        }
        // SAFETY: this core moved `state` to 1; nobody else writes, and nobody reads before 2.
        unsafe { (*self.value.get()).write(value) };
        self.state.store(2, Ordering::Release);
        // SAFETY: written above, and never again.
        Ok(unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// The value, once it is set.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: 2 is stored (Release) after the value was written, and it is never written again.
        (self.state.load(Ordering::Acquire) == 2)
            .then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Once::new()
    }
}

#[cfg(test)]
mod tests;
