//! The locking order: a core that holds a lock of some rank may acquire only higher ranks. Debug
//! builds check this on every acquisition, before it can deadlock; release builds do not.

use crate::attend::percore::{hook, per_core};

/// Position of a lock in the locking order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Lower levels are acquired first.
    pub level: u8,
    /// Name in reports.
    pub name: &'static str,
    /// It must not be held while waiting for another core or domain.
    pub leaf: bool,
}

impl Rank {
    /// Returns the rank of a lock that may be held across a wait.
    pub const fn new(level: u8, name: &'static str) -> Self {
        Rank { level, name, leaf: false }
    }
    /// Returns the rank of a lock that may not.
    pub const fn leaf(level: u8, name: &'static str) -> Self {
        Rank { level, name, leaf: true }
    }
}

/// A violation of the locking order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// `wanted` was acquired while a lock of the same or a higher level was held.
    Order {
        /// The highest rank held.
        held: Rank,
        wanted: Rank,
    },
    /// A leaf lock was held while waiting.
    Wait { held: Rank },
    /// A guard was dropped before one that was taken later.
    Release { last: Rank, dropped: Rank },
    /// A core holds more locks than the checker can track.
    Depth,
}

hook! { static REPORT: fn(Violation); }

/// Installs a handler for violations, which panic otherwise.
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

/// Maximum number of locks that a core holds at once.
const DEPTH: usize = 12;

/// The ranks that a core holds, in the order of acquisition.
struct Held {
    count: usize,
    /// Index in `ranks` at which the current order starts. What a core serves while it waits has an
    /// order of its own, after the locks that the core already holds. It takes its first lock with
    /// `try_lock`, so it cannot wait for one of those.
    base: usize,
    ranks: [Rank; DEPTH],
}

per_core! { static HELD: Held = Held { count: 0, base: 0, ranks: [Rank::new(0, ""); DEPTH] }; }

impl Held {
    /// Records an acquisition. A rank that violates the order is not recorded as held.
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

/// Checks and records an acquisition of `rank` on this core; called by every kind of lock.
#[inline]
pub fn note_acquire(rank: Rank) {
    if cfg!(debug_assertions)
        && let Some(violation) = HELD.with(|held| held.acquire(rank))
    {
        report(violation);
    }
}

/// Records an acquisition that did not wait, which is allowed in any order.
#[inline]
pub(crate) fn note_try(rank: Rank) {
    if cfg!(debug_assertions)
        && let Some(violation) = HELD.with(|held| held.push(rank))
    {
        report(violation);
    }
}

/// Runs `serve`, what a core does while it waits, in a locking order of its own.
pub(crate) fn with_new_order(serve: impl FnOnce()) {
    let order = begin_order();
    serve();
    end_order(order);
}

/// Starts a new locking order on this core, for code that interrupts the current one and takes none
/// of its locks. Returns the value for [`end_order`].
pub(crate) fn begin_order() -> usize {
    if !cfg!(debug_assertions) {
        return 0;
    }
    HELD.with(|held| core::mem::replace(&mut held.base, held.count))
}

/// Returns to the order before [`begin_order`].
pub(crate) fn end_order(order: usize) {
    if cfg!(debug_assertions) {
        HELD.with(|held| held.base = order);
    }
}

/// Records a release of `rank` on this core.
#[inline]
pub fn note_release(rank: Rank) {
    if cfg!(debug_assertions)
        && let Some(violation) = HELD.with(|held| held.release(rank))
    {
        report(violation);
    }
}

/// Records a release of `rank` on this core before locks that were taken later.
#[inline]
pub(crate) fn note_early_release(rank: Rank) {
    if cfg!(debug_assertions) {
        HELD.with(|held| held.release(rank));
    }
}

/// Checks, before a wait, that this core holds no leaf lock.
#[inline]
pub fn assert_may_wait() {
    if cfg!(debug_assertions)
        && let Some(violation) = HELD.with(|held| held.leaf())
    {
        report(violation);
    }
}

/// Returns the number of locks that this core holds in a debug build, else 0.
pub fn held() -> usize {
    if cfg!(debug_assertions) { HELD.with(|held| held.count) } else { 0 }
}
