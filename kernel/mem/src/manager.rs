//! Policy of the balloon of one kernel: when to take a block, when to give one, and which peer to
//! ask for one.
//!
//! ```text
//!              free < low, pool not empty
//!   +------+ -------------------------------> +--------+   deflated
//!   | calm |                                  | taking | ----------> calm
//!   +------+ --------------+                  +--------+
//!      ^      free < low,  |                    ^   | not deflated
//!      |      pool empty   v     peer gave one  |   v
//!      |                 +--------+ ------------+  waiting (until the timeout; pool ignored)
//!      |                 | asking |
//!      |                 +--------+ -- refused: ask next peer --> asking
//!      | free >= low          | all refused
//!      |                      v
//!      +----------------- +---------+
//!                         | waiting | -- timeout, or pool not empty --> as from calm
//!                         +---------+
//! ```
//! At other times it *gives*: to a peer that asks, or to an empty pool.
//!
//! Pure: events and times go in, actions come out. The driver answers each [`Action::Deflate`],
//! [`Action::Inflate`] and [`Action::Ask`] with the corresponding event, followed by a sample.
//!
//! **No starvation**: a kernel refuses only if giving would take it below its reserve, if it is
//! taking or requesting a block itself, or if none of its blocks can be emptied. Peers are asked
//! one by one, in order of the memory they report, and all of them in each round.
//! **No ping-pong**: a kernel takes below `low` and gives only if it keeps `reserve`, which is
//! higher; so between taking a block and giving one, it has freed at least `reserve - low` frames.
//! **Fairness**: peers that ask are served in turn. **Death**: a request to a dead peer counts as
//! refused, and a request from it is dropped; its blocks enter the pool once they are recovered.

use abi::boot::MAX_DOMAINS;
use base::id::DomainId;

use crate::frames::span::FRAMES;

/// Thresholds in frames, times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Below this many free frames the kernel wants a block.
    pub low: usize,
    /// Number of free frames that it keeps when it gives a block; higher than `low`.
    pub reserve: usize,
    /// Minimum time from taking a block, or failing to give one, to giving one unasked.
    pub hold_ns: u64,
    /// Backoff between two rounds of asking: initial value, which doubles up to the maximum.
    pub retry_ns: (u64, u64),
}

/// The current situation, as the driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Free frames of this kernel.
    pub free: usize,
    /// Free blocks.
    pub pool: usize,
    /// The frames that each other kernel reports it can spare; `None` if it cannot be asked.
    pub spare: [Option<u32>; MAX_DOMAINS],
}

/// An input of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Memory pressure, a timeout, or the end of an action.
    Sampled(Sample),
    /// Whether the block of [`Action::Deflate`] was taken.
    Deflated(bool),
    /// Whether the block of [`Action::Inflate`] was given.
    Inflated(bool),
    /// A peer requests a block; the number is this kernel's free frames.
    Asked(DomainId, usize),
    /// Whether a peer that was asked gave a block to the pool.
    Answered(DomainId, bool),
    /// A peer died or left.
    Lost(DomainId),
}

/// An output of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take a block from the pool.
    Deflate,
    /// Give a block to the pool.
    Inflate,
    /// Ask a peer to give one to the pool.
    Ask(DomainId),
    /// Tell a peer whether a block was given.
    Answer(DomainId, bool),
    /// Send a sample no later than this time.
    WakeAt(u64),
}

/// Limit on actions per step: an answer to each peer and two more.
pub const MAX_ACTIONS: usize = MAX_DOMAINS + 2;

/// The actions of one step, in order.
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
    /// Waiting until this time, even if the pool has a block: the last one could not be taken.
    Failed(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giving {
    Nothing,
    /// To the pool: unasked, or for a peer that has left meanwhile.
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
    /// Returns the next member after `peer`, cyclically.
    fn next_after(self, peer: DomainId) -> Option<DomainId> {
        let round = (1..=MAX_DOMAINS).map(|step| (peer.index() + step) % MAX_DOMAINS);
        round.map(|index| DomainId(index as u8)).find(|&peer| self.contains(peer))
    }
}

/// The state machine of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    me: DomainId,
    limits: Limits,
    sample: Option<Sample>,
    need: Need,
    giving: Giving,
    /// Peers that wait for an answer; `served` is the last one that got one.
    asking: Peers,
    served: DomainId,
    /// Peers that have refused in this round.
    refused: Peers,
    backoff: u64,
    /// Nothing is given unasked before this time.
    quiet_until: u64,
}

impl Manager {
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

    /// Returns the number of frames that this kernel reports to peers as spare.
    pub fn spare(&self, free: usize) -> u32 {
        u32::try_from(free.saturating_sub(self.limits.reserve)).unwrap_or(u32::MAX)
    }

    /// Handles one event.
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
        // Any event but a sample makes the last sample too old to decide whether this kernel needs
        // a block.
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

    /// Takes or gives on this kernel's own behalf.
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

    /// Asks the peer with the most spare memory among those not yet asked in this round.
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

    /// Keeps one block in the pool, so that a kernel in need finds one without asking.
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

    /// Answers peers: gives one block at a time, refuses immediately.
    fn serve(&mut self, sample: Sample, actions: &mut Actions) {
        let can = sample.free >= self.limits.reserve + FRAMES && !self.wants(sample);
        while let Some(peer) = self.asking.next_after(self.served) {
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
