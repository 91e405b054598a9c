//! The ends of channels of one kernel: programs use them in any order, and another kernel sends any
//! words. Rules:
//! - nothing panics;
//! - a payload ends once: it is received, sent to the other kernel, or freed;
//! - a contract that is accepted has messages of the side whose turn it is only;
//! - a program sends only what the contract allows, and what a program of this kernel sent arrives
//!   in order;
//! - when all descriptors are closed and the other kernel is dead, nothing is left, unless that
//!   kernel has sent something.

use crate::bytes::Bytes;
use crate::{Target, mutate};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use kernel_channel::wire::{self, WORDS};
use kernel_channel::{
    Bounds, CARRIED, Carried, Channels, Contract, ContractId, Effects, EndId, Life, Limits,
    Message, Outgoing, SendError, Side,
};
use kernel_contract::{Automaton, ENDPOINTS, Hash, Parcel, Shape, Side as Of, Tables, Turn};
use std::collections::BTreeSet;

pub const TARGET: Target = Target {
    name: "channels",
    about: "ends of channels, used by programs and by another kernel",
    daily: 1500,
    nightly: 300_000,
    run,
    seed,
    outcomes: || {
        vec![
            (SENT, "sent"),
            (REFUSED, "refused"),
            (RECEIVED, "received"),
            (CARRIED_ON, "an end received"),
            (LEFT, "sent to the other kernel"),
            (TAKEN, "taken from the other kernel"),
            (FAULT, "a fault of the other kernel"),
            (ARRIVED, "an end handed over"),
            (PARSED, "a changed contract accepted"),
        ]
    },
};

const SENT: u32 = 0;
const REFUSED: u32 = 1;
const RECEIVED: u32 = 2;
const CARRIED_ON: u32 = 3;
const LEFT: u32 = 4;
const TAKEN: u32 = 5;
const FAULT: u32 = 6;
const ARRIVED: u32 = 7;
const PARSED: u32 = 8;

/// Bytes of an input that is used.
const LONGEST: usize = 1024;
const PEER: DomainId = DomainId(1);
const LIMITS: Limits = Limits { ends: 16, queue: 4, arrivals: 4 };

type Known = Automaton<Vec<u8>>;

/// The client asks twice, the second time with ends if `level` is not 0; the server answers.
fn contract(level: u8) -> Vec<u8> {
    let carried = kernel_contract::Carried { contract: Hash([0; 16]), side: Of::Client };
    let count = if level == 0 { 0 } else { ENDPOINTS };
    let shape =
        |from, inline, count| Shape { from, inline, block: 0, endpoints: vec![carried; count] };
    let turn = |side| Turn { side: Some(side), may_close: false };
    let tables = Tables {
        level,
        states: vec![turn(Of::Client), turn(Of::Client), turn(Of::Server)],
        messages: vec![
            shape(Of::Client, 8, 0),
            shape(Of::Client, 40, count),
            shape(Of::Server, 4, 0),
        ],
        transitions: vec![(0, 0, 1), (1, 1, 2), (2, 2, 0)],
        ..Tables::default()
    };
    tables.encode()
}

/// A contract as the table asks it.
struct Checked<'a>(&'a Known);

impl Contract for Checked<'_> {
    fn next(&self, state: u16, side: Side, tag: u16) -> Option<u16> {
        let state = self.0.state(u8::try_from(state).ok()?)?;
        let message = self.0.message(tag)?;
        let carried: Vec<_> =
            (0..message.endpoints).filter_map(|at| self.0.carried(&message, at)).collect();
        let parcel = Parcel { inline: message.inline, block: None, endpoints: &carried };
        let from = if side == Side::First { Of::Client } else { Of::Server };
        self.0.permits(state, from, tag, &parcel).ok().map(|state| state.number().into())
    }
}

/// Payloads that have not ended, and what follows from calls.
#[derive(Default)]
struct World {
    made: u64,
    alive: BTreeSet<u64>,
    /// Descriptors.
    held: Vec<EndId>,
    outcomes: u64,
}

impl World {
    fn payload(&mut self) -> u64 {
        self.made += 1;
        self.alive.insert(self.made);
        self.made
    }

    fn end(&mut self, payload: u64) {
        assert!(self.alive.remove(&payload), "a payload ends twice");
    }

    fn had(&mut self, outcome: u32) {
        self.outcomes |= 1 << outcome;
    }

    /// Picks a descriptor, or a word that is none.
    fn pick(&self, input: &mut Bytes<'_>) -> EndId {
        match self.held.len() {
            0 => EndId::of_word(input.u64()),
            _ if input.once_in(16) => EndId::of_word(input.u64()),
            count => self.held[input.below(count)],
        }
    }
}

impl Effects<u64> for World {
    fn wake(&mut self, _: EndId) {}

    fn arrived(&mut self, _: u64, end: EndId) {
        self.had(ARRIVED);
        self.held.push(end);
    }

    fn free(&mut self, payload: u64) {
        self.end(payload);
    }
}

struct Kernel {
    table: Channels<u64>,
    contracts: [Known; 2],
    world: World,
    /// The life of the other kernel.
    epoch: u16,
    /// It has sent something.
    is_attacked: bool,
    /// Messages that were for it.
    seen: Vec<Vec<u64>>,
}

impl Kernel {
    fn peer(&self) -> Life {
        Life { kernel: PEER, epoch: Epoch(self.epoch) }
    }

    fn create(&mut self, input: &mut Bytes<'_>) {
        let level = input.byte() % 2;
        let known = &self.contracts[usize::from(level)];
        let unread = |from| known.bound(from).messages as u16;
        let messages = [unread(Of::Server), unread(Of::Client)];
        let bounds = Bounds { messages, bytes: 40, level };
        let start = known.start().number().into();
        let made = self.table.create(ContractId([level.into(), 0]), start, bounds, input.u64());
        self.world.held.extend(made.into_iter().flatten());
    }

    fn send(&mut self, input: &mut Bytes<'_>) {
        let end = self.world.pick(input);
        let tag = u16::from(input.byte() % 4);
        let mut carried = [None; CARRIED];
        for place in &mut carried {
            *place = input.once_in(4).then(|| self.world.pick(input));
        }
        let level = self.table.about(end).map_or(0, |about| about.contract.0[0]) as usize % 2;
        let payload = self.world.payload();
        let message = Outgoing { tag, bytes: 4, payload, carried };
        let contract = Checked(&self.contracts[level]);
        match self.table.send(end, message, &contract, &mut self.world) {
            Ok(()) => {
                self.world.had(SENT);
                self.world.held.retain(|held| !carried.contains(&Some(*held)));
            }
            Err(refused) => {
                assert!(refused.error != SendError::Bound, "the contract's bound is wrong");
                self.world.had(REFUSED);
                self.world.end(refused.payload);
            }
        }
    }

    fn receive(&mut self, input: &mut Bytes<'_>) {
        let end = self.world.pick(input);
        let front = self.table.front(end).map(|(payload, _)| *payload);
        let Ok(received) = self.table.receive(end, &mut self.world) else {
            assert!(front.is_none(), "what is there is not received");
            return;
        };
        assert_eq!(front, Some(received.payload));
        self.world.had(RECEIVED);
        self.world.end(received.payload);
        for carried in received.carried {
            if let Carried::End(end) = carried {
                self.world.had(CARRIED_ON);
                self.world.held.push(end);
            }
        }
    }

    fn close(&mut self, input: &mut Bytes<'_>) {
        let end = self.world.pick(input);
        if self.table.close(end, &mut self.world).is_ok()
            && let Some(at) = self.world.held.iter().position(|held| *held == end)
        {
            self.world.held.swap_remove(at);
        }
    }

    fn dup(&mut self, input: &mut Bytes<'_>) {
        let end = self.world.pick(input);
        if self.table.dup(end).is_ok() {
            self.world.held.push(end);
        }
    }

    fn hand_over(&mut self, input: &mut Bytes<'_>) {
        let end = self.world.pick(input);
        if self.table.hand_over(end, PEER, input.u64(), &mut self.world).is_ok() {
            self.world.held.retain(|held| *held != end);
        }
    }

    /// Sends what there is for the other kernel.
    fn pump(&mut self) {
        while let Some(message) = self.table.next(PEER, &mut self.world) {
            let mut words = [0; WORDS];
            let used = wire::encode(&message, &mut words);
            self.seen.push(words[..used].to_vec());
            if let Message::Data { data, .. } = message {
                self.world.had(LEFT);
                self.world.end(data.payload);
            }
        }
    }

    /// The other kernel sends words: those of a message that it has seen, with some changed.
    fn hear(&mut self, input: &mut Bytes<'_>) {
        self.is_attacked = true;
        let mut words = match self.seen.len() {
            0 => vec![input.number(3)],
            count => self.seen[input.below(count)].clone(),
        };
        for _ in 0..input.below(4) {
            let at = input.below(words.len().max(1));
            let value = match input.byte() % 3 {
                0 => input.number(16),
                1 => words[at].wrapping_add(1),
                _ => words[at] ^ 1,
            };
            words[at] = value;
        }
        let (mut world, from) = (std::mem::take(&mut self.world), self.peer());
        let message = wire::decode(&words).and_then(|it| it.with(|_| Some(world.payload())));
        if let Some(message) = message {
            let handled = self.table.handle(from, message, &mut world);
            world.had(if handled.is_ok() { TAKEN } else { FAULT });
        }
        self.world = world;
    }

    fn restart(&mut self) {
        let life = self.peer();
        self.table.kernel_died(life, &mut self.world);
        self.epoch += 1;
        let life = self.peer();
        self.table.kernel_started(life, &mut self.world);
    }

    /// All descriptors are closed, and the other kernel dies.
    fn end(mut self) -> u64 {
        for end in std::mem::take(&mut self.world.held) {
            let _ = self.table.close(end, &mut self.world);
        }
        self.pump();
        self.table.kernel_died(self.peer(), &mut self.world);
        // Words can name kernels that are not there, whose death would be waited for.
        if !self.is_attacked {
            assert_eq!(self.table.used(), 0, "slots are left");
            assert!(self.world.alive.is_empty(), "payloads are left");
        }
        self.world.outcomes
    }
}

/// Changes the bytes of a contract. Returns whether they are one.
fn parse(input: &mut Bytes<'_>) -> bool {
    let mut bytes = contract(input.byte() % 2);
    for _ in 0..1 + input.below(3) {
        let at = input.below(bytes.len());
        bytes[at] = input.byte();
    }
    let Ok(parsed) = Automaton::parse(bytes) else { return false };
    for state in (0..parsed.states() as u8).filter_map(|number| parsed.state(number)) {
        for tag in 0..parsed.messages() as u16 {
            let from = parsed.message(tag).map(|message| message.from);
            assert!(parsed.next(state, tag).is_none() || parsed.side(state) == from);
        }
    }
    true
}

fn run(bytes: &[u8]) -> u64 {
    let mut input = Bytes::new(bytes, LONGEST);
    let me = Life { kernel: DomainId(0), epoch: Epoch(1) };
    let mut kernel = Kernel {
        table: Channels::new(me, LIMITS),
        contracts: [0, 1].map(|level| Automaton::parse(contract(level)).unwrap()),
        world: World::default(),
        epoch: 1,
        is_attacked: false,
        seen: Vec::new(),
    };
    let peer = kernel.peer();
    kernel.table.kernel_started(peer, &mut kernel.world);
    while !input.is_empty() {
        match input.byte() % 16 {
            0..=1 => kernel.create(&mut input),
            2..=6 => kernel.send(&mut input),
            7..=9 => kernel.receive(&mut input),
            10 => kernel.close(&mut input),
            11 => kernel.dup(&mut input),
            12 => kernel.hand_over(&mut input),
            13 => kernel.pump(),
            14 => kernel.hear(&mut input),
            _ if input.once_in(8) => kernel.restart(),
            _ if parse(&mut input) => kernel.world.had(PARSED),
            _ => {}
        }
    }
    kernel.end()
}

fn seed(seed: u64) -> Vec<u8> {
    mutate::noise(&mut Prng::new(seed), 0, LONGEST as u64)
}
