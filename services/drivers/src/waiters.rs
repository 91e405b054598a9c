//! The callers that a driver has parked, and what each of them waits for.
//!
//! Contract: a caller is woken only when its own wait is over, because a needless wake ends the
//! rest of another kernel. Of several callers that wait for the same thing, as many are woken as
//! can be served. A woken caller stays recorded until it repeats its request, is cancelled or dies
//! with its kernel; until then no other caller is woken in its place, and afterwards one is, if the
//! thing is still there. A caller repeats its request after a second even if its wake was lost.
//! One that has not come after [`OVERDUE`] is not waited for.
//!
//! Of more than [`PLACES`] callers, the others are not recorded, and the next wake of a recorded
//! caller wakes all. That is correct only because callers repeat their requests by themselves: if
//! no recorded caller is woken, an unrecorded one whose wait is over comes after its second.

use base::id::{DomainId, Epoch};
use core::num::NonZeroU64;
use share::{Effects, Token};

/// Maximum number of recorded callers. If there are more, the next wake wakes all callers.
pub const PLACES: usize = 64;
/// Time after which a woken caller is not expected any more, in ns.
pub const OVERDUE: u64 = 2_000_000_000;

/// What a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait<K> {
    /// The device is open, or cannot be opened.
    Open,
    /// Something of the driver's own.
    For(K),
}

/// Whether a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    No,
    /// It is, for every caller that has it.
    All,
    /// It is for this many of those callers, threads of the executing kernel first.
    Nearest(usize),
    /// The same. But if the executing kernel serves the device, no others are woken: a thread of
    /// that kernel will come.
    Serving(usize),
    /// It is for this many of those callers, the first to come first.
    Oldest(usize),
}

/// Which of the callers that have a wait may be woken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Threads of the executing kernel.
    Near,
    /// All, threads of the executing kernel first.
    NearFirst,
    All,
}

#[derive(Clone, Copy, Debug)]
struct Waiter<K> {
    token: Token,
    wait: Wait<K>,
    /// When it was woken, in ns; never 0.
    woken: Option<NonZeroU64>,
}

impl<K> Waiter<K> {
    /// Returns whether it was woken and will come.
    fn comes(&self, now: u64) -> bool {
        self.woken.is_some_and(|at| now < at.get().saturating_add(OVERDUE))
    }
}

/// The parked callers of a driver, in order of arrival.
#[derive(Debug)]
pub struct Waiters<K> {
    /// Without gaps.
    list: [Option<Waiter<K>>; PLACES],
    /// A caller was parked that the list has no place for.
    crowded: bool,
}

impl<K: Copy + PartialEq> Waiters<K> {
    pub const fn new() -> Self {
        Waiters { list: [None; PLACES], crowded: false }
    }

    /// Records that `token` waits. A caller that is recorded keeps its place in the order.
    pub fn park(&mut self, token: Token, wait: Wait<K>) {
        let own = |it: &Option<Waiter<K>>| it.is_none_or(|waiter| waiter.token == token);
        match self.list.iter_mut().find(|it| own(it)) {
            Some(place) => *place = Some(Waiter { token, wait, woken: None }),
            None => self.crowded = true,
        }
    }

    /// Removes the callers for which `gone` is true.
    pub fn forget(&mut self, gone: impl Fn(Token) -> bool) {
        let mut kept = 0;
        for at in 0..PLACES {
            let waiter = self.list[at].take().filter(|waiter| !gone(waiter.token));
            if waiter.is_some() {
                self.list[kept] = waiter;
                kept += 1;
            }
        }
    }

    /// Returns the number of callers other than `than` that were woken for `wait` and will come.
    pub fn coming(&self, now: u64, wait: Wait<K>, than: Token) -> usize {
        let comes = |it: &&Waiter<K>| it.comes(now) && it.wait == wait && it.token != than;
        self.list.iter().flatten().filter(comes).count()
    }

    /// Wakes the callers whose waits are over according to `ready`.
    pub fn wake(
        &mut self,
        now: u64,
        ready: impl Fn(Token, Wait<K>) -> Ready,
        effects: &mut dyn Effects,
    ) {
        let mut woke = false;
        for at in 0..PLACES {
            let Some(waiter) = self.list[at] else { break };
            let (most, reach) = match ready(waiter.token, waiter.wait) {
                _ if waiter.comes(now) => continue,
                Ready::No => continue,
                Ready::All => {
                    woke |= self.wake_at(now, at, effects);
                    continue;
                }
                Ready::Serving(most) if effects.serves() => (most, Reach::Near),
                Ready::Nearest(most) | Ready::Serving(most) => (most, Reach::NearFirst),
                Ready::Oldest(most) => (most, Reach::All),
            };
            for _ in self.coming(now, waiter.wait, Token::default())..most {
                let may = |it: &Waiter<K>| {
                    let is_its = it.wait == waiter.wait && !it.comes(now);
                    is_its && ready(it.token, it.wait) != Ready::No
                };
                let Some(chosen) = self.choose(may, reach, effects) else { break };
                woke |= self.wake_at(now, chosen, effects);
            }
        }
        if woke && core::mem::take(&mut self.crowded) {
            effects.wake_all();
        }
    }

    /// Returns the place of the next caller to wake, of those that may be woken; an overdue one is
    /// the last choice.
    fn choose(
        &self,
        may: impl Fn(&Waiter<K>) -> bool,
        reach: Reach,
        effects: &dyn Effects,
    ) -> Option<usize> {
        let fits = |it: &Waiter<K>| reach == Reach::All || effects.is_near(it.token);
        let may = |it: &Waiter<K>| may(it) && (reach != Reach::Near || fits(it));
        let waiting = || self.list.iter().flatten().enumerate().filter(|(_, it)| may(it));
        waiting()
            .find(|(_, it)| it.woken.is_none() && fits(it))
            .or_else(|| waiting().find(|(_, it)| it.woken.is_none()))
            .or_else(|| waiting().next())
            .map(|(at, _)| at)
    }

    fn wake_at(&mut self, now: u64, at: usize, effects: &mut dyn Effects) -> bool {
        let Some(waiter) = &mut self.list[at] else { return false };
        waiter.woken = Some(NonZeroU64::new(now).unwrap_or(NonZeroU64::MIN));
        effects.wake(waiter.token);
        true
    }
}

/// Returns whether `token` belongs to an epoch of a kernel.
pub fn is_of(token: Token, kernel: DomainId, epoch: Epoch) -> bool {
    token.kernel() == kernel && token.epoch() == epoch
}
