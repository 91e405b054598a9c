//! The modelled chip: kernels, each with one program; links that keep order; deaths that others
//! learn late. What must hold is checked against a record of what programs did.

use std::collections::VecDeque;

use base::id::{DomainId, Epoch};
use base::prng::Prng;

use super::Mutant;
use super::checks::{NO_FAULT, SAME_IF_DELIVERED};
use super::direct;
use crate::bounds::Bounds;
use crate::channels::{Channels, Contract, Effects, Limits};
use crate::message::Message;
use crate::name::{ChannelName, ContractId, EndId, Life, Side};

/// A payload: channel, side of the sender, number, and the end that is carried with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    pub channel: u8,
    pub side: u8,
    pub number: u8,
    pub carries: Option<(u8, u8)>,
}

/// A message in a link, and the lives of sender and receiver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mail {
    pub from: Life,
    pub to: Life,
    pub message: Message<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    pub epoch: u16,
    pub is_alive: bool,
    pub channels: Channels<Token>,
    /// Descriptors of its program.
    pub held: Vec<EndId>,
    /// Those that its program sleeps for.
    pub asleep: Vec<EndId>,
    /// The other kernels' epochs, as known here; 0: none.
    pub known: Vec<u16>,
}

impl Kernel {
    pub fn life(&self, index: usize) -> Life {
        Life { kernel: DomainId(index as u8), epoch: Epoch(self.epoch) }
    }
}

/// What has become of an end, as seen by programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Seen {
    pub sent: u8,
    pub read: u8,
    pub is_closed: bool,
    /// Its holder has learned that its peer is closed.
    pub is_told: bool,
    /// Messages that it may still send.
    pub left: u8,
}

/// What has become of a channel, as programs and an observer of all kernels see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tracked {
    pub name: ChannelName,
    pub level: u8,
    pub ends: [Seen; 2],
    /// Kernels, in their lives, that have had an end of it or passed it on.
    pub touched: [u16; 3],
    pub is_damaged: bool,
    /// An end of it was closed for lack of room.
    pub is_crowded: bool,
}

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    pub sends: u8,
    pub moves: u8,
    pub closes: u8,
    /// Deaths of programs, of kernels, and restarts.
    pub exits: u8,
    pub deaths: u8,
    pub restarts: u8,
}

/// Which kernel has the ends of a channel at first.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub level: u8,
    pub at: [usize; 2],
    /// Messages that each end may send.
    pub sends: [u8; 2],
}

#[derive(Clone, Debug)]
pub struct World {
    pub kernels: usize,
    pub channels: Vec<Setup>,
    pub budget: Budget,
    /// Messages in a ring; 0 for a ring that is never full.
    pub ring: usize,
    pub limits: Limits,
    pub mutant: Option<Mutant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub kernels: Vec<Kernel>,
    pub links: Vec<VecDeque<Mail>>,
    pub tracked: Vec<Tracked>,
    /// Payloads that were received or freed, sorted.
    pub ended: Vec<Token>,
    pub left: Budget,
    pub wrong: Option<&'static str>,
}

/// The contract of all channels.
pub const CONTRACT: ContractId = ContractId([7, 8]);

/// A contract that allows everything: the models bound what is sent.
pub struct Free;

impl Contract for Free {
    fn next(&self, state: u16, _: Side, _: u16) -> Option<u16> {
        Some(state)
    }
}

#[derive(Default)]
pub struct Log {
    pub woken: Vec<EndId>,
    pub freed: Vec<Token>,
    pub arrived: Vec<(u64, EndId)>,
}

impl Effects<Token> for Log {
    fn wake(&mut self, end: EndId) {
        self.woken.push(end);
    }

    fn free(&mut self, payload: Token) {
        self.freed.push(payload);
    }

    fn arrived(&mut self, ticket: u64, end: EndId) {
        self.arrived.push((ticket, end));
    }
}

impl World {
    pub fn new(kernels: usize, channels: &[Setup], budget: Budget) -> World {
        let count = channels.len() as u16;
        let ends = 2 * count + count * (kernels as u16 - 1);
        let limits = Limits { ends, queue: 3, arrivals: count };
        World { kernels, channels: channels.to_vec(), budget, ring: 0, limits, mutant: None }
    }

    fn kernel(&self, index: usize, epoch: u16) -> Kernel {
        let me = Life { kernel: DomainId(index as u8), epoch: Epoch(epoch) };
        let mut channels = Channels::new(me, self.limits);
        self.plant(&mut channels);
        let known = vec![0; self.kernels];
        Kernel { epoch, is_alive: true, channels, held: vec![], asleep: vec![], known }
    }

    /// Plants the mistake.
    pub fn plant(&self, channels: &mut Channels<Token>) {
        channels.mutant = self.mutant;
        channels.peers.any_epoch = self.mutant == Some(Mutant::AnyEpoch);
        channels.table.keeps_pairs = self.mutant == Some(Mutant::KeepPair);
    }

    /// All kernels, with the first ends in their places and nothing on its way.
    pub fn start(&self) -> State {
        let kernels: Vec<Kernel> = (0..self.kernels).map(|it| self.kernel(it, 1)).collect();
        let links = vec![VecDeque::new(); self.kernels * self.kernels];
        let left = self.budget;
        let (tracked, ended) = (vec![], vec![]);
        let mut state = State { kernels, links, tracked, ended, left, wrong: None };
        for (a, b) in self.pairs() {
            self.meet(&mut state, a, b);
        }
        self.drain(&mut state);
        for setup in &self.channels {
            self.create(&mut state, *setup);
        }
        self.drain(&mut state);
        self.check(&mut state);
        state
    }

    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let count = self.kernels;
        (0..count * count).map(move |it| (it / count, it % count)).filter(|(a, b)| a != b)
    }

    /// Kernel `a` begins a session with the present life of `b`.
    pub fn meet(&self, state: &mut State, a: usize, b: usize) {
        let life = state.kernels[b].life(b);
        state.kernels[a].known[b] = life.epoch.0;
        let mut log = Log::default();
        state.kernels[a].channels.kernel_started(life, &mut log);
        self.take(state, a, log);
    }

    pub fn create(&self, state: &mut State, setup: Setup) {
        let home = setup.at[0];
        let sends = setup.sends.map(u16::from).map(|it| it.clamp(1, self.limits.queue));
        let bounds = Bounds { messages: [sends[1], sends[0]], bytes: 8, level: setup.level };
        let secret = Prng::new(state.tracked.len() as u64).next();
        let kernel = &mut state.kernels[home];
        let Ok(ends) = kernel.channels.create(CONTRACT, 0, bounds, secret) else { return };
        let index = kernel.channels.table.held(ends[0]).expect("new");
        let name = kernel.channels.table.get(index).expect("new").name().channel;
        let seen = setup.sends.map(|left| Seen { left, ..Seen::default() });
        let (level, touched) = (setup.level, [0; 3]);
        state.tracked.push(Tracked {
            name,
            level,
            ends: seen,
            touched,
            is_damaged: false,
            is_crowded: false,
        });
        state.kernels[home].held.extend(ends);
        if setup.at[1] != home {
            self.hand(state, home, ends[1], setup.at[1]);
        }
    }

    pub fn hand(&self, state: &mut State, from: usize, end: EndId, to: usize) {
        let mut log = Log::default();
        let kernel = &mut state.kernels[from];
        let done = kernel.channels.hand_over(end, DomainId(to as u8), 7, &mut log);
        if done.is_ok() {
            kernel.held.retain(|it| *it != end);
        }
        self.take(state, from, log);
    }

    /// Delivers everything.
    pub fn drain(&self, state: &mut State) {
        loop {
            self.fill(state);
            let Some((a, b)) = self.pairs().find(|(a, b)| self.may_deliver(state, *a, *b)) else {
                return;
            };
            self.deliver(state, a, b);
        }
    }

    pub fn link<'a>(&self, state: &'a mut State, a: usize, b: usize) -> &'a mut VecDeque<Mail> {
        &mut state.links[a * self.kernels + b]
    }

    /// Moves one message into the ring from `a` to `b`.
    pub fn fetch(&self, state: &mut State, a: usize, b: usize) -> bool {
        let mut log = Log::default();
        let kernel = &mut state.kernels[a];
        let from = kernel.life(a);
        let message = kernel.channels.next(DomainId(b as u8), &mut log);
        let epoch = Epoch(kernel.known[b]);
        self.take(state, a, log);
        let Some(message) = message else { return false };
        let to = Life { kernel: DomainId(b as u8), epoch };
        let is_there = state.kernels[b].is_alive && state.kernels[b].epoch == epoch.0;
        if is_there {
            self.link(state, a, b).push_back(Mail { from, to, message });
        }
        true
    }

    /// Fills the rings, if they are never full.
    pub fn pump(&self, state: &mut State) {
        if self.ring == 0 {
            self.fill(state);
        }
    }

    fn fill(&self, state: &mut State) {
        for (a, b) in self.pairs() {
            while state.kernels[a].is_alive && self.fetch(state, a, b) {}
        }
    }

    /// Returns whether the first message in this link can be handled or dropped now.
    pub fn may_deliver(&self, state: &State, a: usize, b: usize) -> bool {
        let Some(mail) = state.links[a * self.kernels + b].front() else { return false };
        let (sent, known) = (mail.from.epoch.0, state.kernels[b].known[a]);
        state.kernels[b].is_alive && (sent == known || sent < state.kernels[a].epoch)
    }

    pub fn deliver(&self, state: &mut State, a: usize, b: usize) {
        let Some(mail) = self.link(state, a, b).pop_front() else { return };
        let kernel = &mut state.kernels[b];
        let is_current = mail.from.epoch.0 == kernel.known[a] && mail.to.epoch.0 == kernel.epoch;
        if !is_current {
            return;
        }
        let delivered = direct::delivered(&kernel.channels, mail.from, &mail.message);
        let mut log = Log::default();
        if kernel.channels.handle(mail.from, mail.message, &mut log).is_err() {
            state.wrong = Some(NO_FAULT);
        }
        if delivered.is_some_and(|it| !it.is_received(&kernel.channels, &log)) {
            state.wrong = Some(SAME_IF_DELIVERED);
        }
        self.take(state, b, log);
    }
}
