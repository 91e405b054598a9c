//! The meta-level manager of one kernel: when to take a block, when to give one, whom to ask.
//!
//! ```text
//!              free < low, pool not empty
//!   +------+ -------------------------------> +--------+   deflated
//!   | calm |                                  | taking | ----------> calm
//!   +------+ --------------+                  +--------+
//!      ^      free < low,  |                    ^   | not deflated
//!      |      pool empty   v           given    |   v
//!      |                 +--------+ ------------+  waiting, for a while in any case
//!      |                 | asking |
//!      |                 +--------+ -- refused, next peer --> asking
//!      | free >= low          | refused by all
//!      |                      v
//!      +----------------- +---------+
//!                         | waiting | -- time is over, or the pool is not empty --> as calm
//!                         +---------+
//! ```
//! Beside that, and never at the same time, it *gives*: to a peer that asks, or to an empty pool.
//!
//! Pure: events and the time come in, actions go out; the driver answers each [`Action::Deflate`],
//! [`Action::Inflate`] and [`Action::Ask`] with its event, and samples after each.
//!
//! **No starving**: who asks is refused only by a kernel that would fall below its reserve. Peers
//! are asked one by one, those that say they have most first, and all of them in each round.
//! **No ping-pong**: a kernel takes below `low` and gives only what leaves it `reserve`, which is
//! higher; so between taking a block and giving one, `reserve - low` frames at least were freed.
//! **Fairness**: peers that ask are served in turn. **Death**: what a dead peer was asked is
//! refused, what it asked is forgotten; its blocks are in the pool once they are recovered.

use abi::boot::MAX_DOMAINS;
use base::id::DomainId;

use crate::frames::span::FRAMES;

/// When to do what; in frames and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Below this many free frames the kernel wants a block.
    pub low: usize,
    /// It keeps this many when it gives one; higher than `low`.
    pub reserve: usize,
    /// Between taking or failing to give, and giving to the pool unasked.
    pub hold_ns: u64,
    /// Between two rounds of asking: the first time, doubling up to the last.
    pub retry_ns: (u64, u64),
}

/// What the driver sees now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Frames free here.
    pub free: usize,
    /// Blocks that are nobody's.
    pub pool: usize,
    /// What each other kernel says that it can spare; `None`: it cannot be asked.
    pub spare: [Option<u32>; MAX_DOMAINS],
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The probe tripped, time went by, or something was done.
    Sampled(Sample),
    /// The block that was to be taken: was it?
    Deflated(bool),
    /// The block that was to be given: was it?
    Inflated(bool),
    /// A peer wants a block, and so many frames are free here.
    Asked(DomainId, usize),
    /// A peer that was asked gave one to the pool, or did not.
    Answered(DomainId, bool),
    /// A peer died or left.
    Lost(DomainId),
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take a block from the pool.
    Deflate,
    /// Give one to the pool.
    Inflate,
    /// Ask a peer to give one to the pool.
    Ask(DomainId),
    /// Tell a peer whether one was given.
    Answer(DomainId, bool),
    /// Sample again at this time at the latest.
    WakeAt(u64),
}

/// Most actions of one step: an answer to each peer, and two of its own.
pub const MAX_ACTIONS: usize = MAX_DOMAINS + 2;

/// Actions, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actions {
    items: [Option<Action>; MAX_ACTIONS],
    count: usize,
}

impl Actions {
    const fn new() -> Actions {
        Actions { items: [None; MAX_ACTIONS], count: 0 }
    }

    fn push(&mut self, action: Action) {
        self.items[self.count] = Some(action);
        self.count += 1;
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = Action> + '_ {
        self.items.iter().flatten().copied()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Calm,
    Taking,
    Asking(DomainId),
    Waiting(u64),
    /// The same after a block that could not be taken, though it was there.
    Failed(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giving {
    Nothing,
    /// To the pool, unasked, or for a peer that left meanwhile.
    ToPool,
    For(DomainId),
}

/// A set of peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Peers(u8);

const _: () = assert!(MAX_DOMAINS <= 8);

impl Peers {
    fn insert(&mut self, peer: DomainId) {
        self.0 |= 1 << (peer.index() % MAX_DOMAINS);
    }
    fn remove(&mut self, peer: DomainId) {
        self.0 &= !(1 << (peer.index() % MAX_DOMAINS));
    }
    fn contains(self, peer: DomainId) -> bool {
        self.0 >> (peer.index() % MAX_DOMAINS) & 1 == 1
    }
    /// The first one behind `peer`, going round.
    fn behind(self, peer: DomainId) -> Option<DomainId> {
        let round = (1..=MAX_DOMAINS).map(|step| (peer.index() + step) % MAX_DOMAINS);
        round.map(|index| DomainId(index as u8)).find(|&peer| self.contains(peer))
    }
}

/// The manager of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    me: DomainId,
    limits: Limits,
    sample: Option<Sample>,
    need: Need,
    giving: Giving,
    /// Peers that wait for an answer, and whom it answered last.
    asking: Peers,
    served: DomainId,
    /// Peers that refused in this round.
    refused: Peers,
    backoff: u64,
    /// Nothing is given unasked before.
    quiet_until: u64,
}

impl Manager {
    /// Calm.
    pub const fn new(me: DomainId, limits: Limits) -> Manager {
        Manager {
            me,
            limits,
            sample: None,
            need: Need::Calm,
            giving: Giving::Nothing,
            asking: Peers(0),
            served: me,
            refused: Peers(0),
            backoff: limits.retry_ns.0,
            quiet_until: 0,
        }
    }

    /// Frames that this kernel could do without: what its peers are told.
    pub fn spare(&self, free: usize) -> u32 {
        u32::try_from(free.saturating_sub(self.limits.reserve)).unwrap_or(u32::MAX)
    }

    /// One event.
    pub fn step(&mut self, now: u64, event: Event) -> Actions {
        let mut actions = Actions::new();
        match event {
            Event::Sampled(sample) => self.sample = Some(sample),
            Event::Deflated(true) => {
                self.settle(Need::Calm);
                self.quiet_until = now + self.limits.hold_ns;
            }
            Event::Deflated(false) => self.wait(now, Need::Failed, &mut actions),
            Event::Inflated(gave) => self.gave(now, gave, &mut actions),
            Event::Asked(peer, free) => self.asked(peer, free),
            Event::Answered(peer, gave) => self.answered(now, peer, gave, &mut actions),
            Event::Lost(peer) => self.lost(now, peer, &mut actions),
        }
        // Everything but a sample makes the last one stale for the own need.
        if let (Event::Sampled(_), Some(sample)) = (event, self.sample) {
            self.decide(now, sample, &mut actions);
        }
        if let Some(sample) = self.sample {
            self.serve(sample, &mut actions);
        }
        actions
    }

    fn asked(&mut self, peer: DomainId, free: usize) {
        if peer != self.me {
            self.asking.insert(peer);
        }
        if let Some(sample) = &mut self.sample {
            sample.free = free;
        }
    }

    fn settle(&mut self, need: Need) {
        self.need = need;
        if need == Need::Calm {
            self.refused = Peers(0);
            self.backoff = self.limits.retry_ns.0;
        }
    }

    fn wants(&self, sample: Sample) -> bool {
        sample.free < self.limits.low
    }

    fn is_busy(&self) -> bool {
        let needs = matches!(self.need, Need::Taking | Need::Asking(_));
        needs || self.giving != Giving::Nothing
    }

    /// What this kernel does for itself.
    fn decide(&mut self, now: u64, sample: Sample, actions: &mut Actions) {
        if self.is_busy() {
            return;
        }
        if !self.wants(sample) {
            self.settle(Need::Calm);
            return self.give_unasked(now, sample, actions);
        }
        match self.need {
            Need::Failed(until) if now < until => actions.push(Action::WakeAt(until)),
            _ if sample.pool > 0 => self.take(actions),
            Need::Waiting(until) if now < until => actions.push(Action::WakeAt(until)),
            _ => self.ask_next(now, actions),
        }
    }

    fn take(&mut self, actions: &mut Actions) {
        self.need = Need::Taking;
        actions.push(Action::Deflate);
    }

    /// Asks the peer that can spare most among those not yet asked in this round.
    fn ask_next(&mut self, now: u64, actions: &mut Actions) {
        let spare = self.sample.map_or([None; MAX_DOMAINS], |sample| sample.spare);
        let peers = (0..MAX_DOMAINS as u8).map(DomainId);
        let open = peers.filter(|&peer| peer != self.me && !self.refused.contains(peer));
        let known = open.filter_map(|peer| Some((spare[peer.index()]?, peer)));
        match known.max_by_key(|&(frames, _)| frames) {
            Some((_, peer)) => {
                self.need = Need::Asking(peer);
                actions.push(Action::Ask(peer));
            }
            None => self.wait(now, Need::Waiting, actions),
        }
    }

    fn wait(&mut self, now: u64, how: fn(u64) -> Need, actions: &mut Actions) {
        let until = now + self.backoff;
        self.refused = Peers(0);
        self.backoff = (self.backoff * 2).min(self.limits.retry_ns.1);
        self.need = how(until);
        actions.push(Action::WakeAt(until));
    }

    fn answered(&mut self, now: u64, peer: DomainId, gave: bool, actions: &mut Actions) {
        if self.need != Need::Asking(peer) {
            return;
        }
        if gave {
            self.take(actions);
        } else {
            self.refused.insert(peer);
            self.ask_next(now, actions);
        }
    }

    fn lost(&mut self, now: u64, peer: DomainId, actions: &mut Actions) {
        self.asking.remove(peer);
        if self.giving == Giving::For(peer) {
            self.giving = Giving::ToPool;
        }
        if let Some(spare) = self.sample.as_mut().and_then(|s| s.spare.get_mut(peer.index())) {
            *spare = None;
        }
        self.answered(now, peer, false, actions);
    }

    fn gave(&mut self, now: u64, gave: bool, actions: &mut Actions) {
        if let Giving::For(peer) = self.giving {
            self.asking.remove(peer);
            actions.push(Action::Answer(peer, gave));
        }
        self.giving = Giving::Nothing;
        if gave {
            if let Some(sample) = &mut self.sample {
                sample.free = sample.free.saturating_sub(FRAMES);
                sample.pool += 1;
            }
        } else {
            self.quiet_until = now + self.limits.hold_ns;
        }
    }

    /// Keeps a block in the pool, so that who needs one need not ask.
    fn give_unasked(&mut self, now: u64, sample: Sample, actions: &mut Actions) {
        let plenty = sample.free >= self.limits.reserve + 2 * FRAMES;
        let others = sample.spare.iter().any(Option::is_some);
        if sample.pool > 0 || !plenty || !others {
            return;
        }
        if now < self.quiet_until {
            return actions.push(Action::WakeAt(self.quiet_until));
        }
        self.giving = Giving::ToPool;
        actions.push(Action::Inflate);
    }

    /// Answers who asks: one gift at a time, refusals at once.
    fn serve(&mut self, sample: Sample, actions: &mut Actions) {
        let can = sample.free >= self.limits.reserve + FRAMES && !self.wants(sample);
        while let Some(peer) = self.asking.behind(self.served) {
            if self.giving != Giving::Nothing {
                return;
            }
            self.served = peer;
            if can && !self.is_busy() {
                self.giving = Giving::For(peer);
                return actions.push(Action::Inflate);
            }
            self.asking.remove(peer);
            actions.push(Action::Answer(peer, false));
        }
    }
}

#[cfg(test)]
mod tests;
