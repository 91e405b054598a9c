//! The callers that a driver has parked, and what each of them waits for.
//!
//! Contract: a caller is woken only when its own wait is over, because a needless wake ends the
//! rest of another kernel. Of several callers that wait for the same thing, as many are woken as
//! can be served. A woken caller stays recorded until it repeats its request, is cancelled or dies
//! with its kernel; until then nobody else is woken in its place, and afterwards somebody is, if
//! the thing is still there. A caller repeats its request after a second even if its wake was lost.

use base::id::{DomainId, Epoch};
use share::{Effects, Token};

/// Maximum number of recorded callers. If there are more, the next wake wakes all callers.
pub const PLACES: usize = 64;

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
    /// It is for this many of those callers, the first to come first.
    Oldest(usize),
}

#[derive(Clone, Copy, Debug)]
struct Waiter<K> {
    token: Token,
    wait: Wait<K>,
    woken: bool,
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
            Some(place) => *place = Some(Waiter { token, wait, woken: false }),
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

    /// Returns the number of other callers that were woken for `wait` and have not come yet.
    pub fn coming(&self, wait: Wait<K>, other_than: Token) -> usize {
        let comes = |it: &&Waiter<K>| it.woken && it.wait == wait && it.token != other_than;
        self.list.iter().flatten().filter(comes).count()
    }

    /// Wakes the callers whose waits are over according to `ready`.
    pub fn wake(&mut self, ready: impl Fn(Token, Wait<K>) -> Ready, effects: &mut dyn Effects) {
        let mut woke = false;
        for at in 0..PLACES {
            let Some(waiter) = self.list[at] else { break };
            if waiter.woken {
                continue;
            }
            let (most, near) = match ready(waiter.token, waiter.wait) {
                Ready::No => continue,
                Ready::All => {
                    self.wake_at(at, effects);
                    woke = true;
                    continue;
                }
                Ready::Nearest(most) => (most, true),
                Ready::Oldest(most) => (most, false),
            };
            let coming = self.coming(waiter.wait, Token::default());
            for _ in coming..most {
                let may = |it: &Waiter<K>| {
                    it.wait == waiter.wait && !it.woken && ready(it.token, it.wait) != Ready::No
                };
                let Some(chosen) = self.choose(may, near, effects) else { break };
                self.wake_at(chosen, effects);
                woke = true;
            }
        }
        if woke && core::mem::take(&mut self.crowded) {
            effects.wake_all();
        }
    }

    /// Returns the place of the next caller to wake, of those that may be woken.
    fn choose(
        &self,
        may: impl Fn(&Waiter<K>) -> bool,
        near: bool,
        effects: &dyn Effects,
    ) -> Option<usize> {
        let is_near = |it: &Waiter<K>| may(it) && effects.is_near(it.token);
        let place = |wanted: &dyn Fn(&Waiter<K>) -> bool| {
            self.list.iter().position(|it| it.as_ref().is_some_and(wanted))
        };
        let nearest = if near { place(&is_near) } else { None };
        nearest.or_else(|| place(&may))
    }

    fn wake_at(&mut self, at: usize, effects: &mut dyn Effects) {
        if let Some(waiter) = &mut self.list[at] {
            waiter.woken = true;
            effects.wake(waiter.token);
        }
    }
}

/// Returns whether `token` belongs to an epoch of a kernel.
pub fn is_of(token: Token, kernel: DomainId, epoch: Epoch) -> bool {
    token.kernel() == kernel && token.epoch() == epoch
}
