//! Model check of `ring`: one producer, one consumer, weak memory with early loads, restarts of
//! either side at any access. In a session exactly the sent messages are received, in order; none
//! counts as corrupt; and after the last restart everything arrives.

use abi::msg::{CONSUMER, MAX_PAYLOAD, PRODUCER, kind};
use base::id::Epoch;
use kernel_msg::ring::{Consumer, Header, Producer, PushError, RingLayout};
use kernel_msg::{Class, LinkPair, Payload};
use sim::explore::{Sparse, Step, Stepper, Windows, none, step};
use sim::machine::Access;
use sim::memory::{Cells, Memory};
use sim::place::{LAYOUTS, LINK};
use stateright::{Checker, Model, Property};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum End {
    Producer(Producer),
    Consumer(Consumer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Start(Epoch),
    Move,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Side {
    epoch: Epoch,
    peer: Epoch,
    end: End,
    doing: Option<(Op, Vec<u64>)>,
    /// The peer's word when there was nothing to do.
    seen: Option<u64>,
    /// Messages sent or received in this session.
    count: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: Sparse,
    sides: [Side; 2],
    restarts: u8,
    broken: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Step(usize, Op, usize),
    Drain(usize, usize),
    Restart(usize),
}

struct Ring {
    messages: u8,
    restarts: u8,
    early: bool,
    missing: fn(Access) -> bool,
}

impl Side {
    fn new(side: usize, epoch: Epoch) -> Side {
        let place = RingLayout::new(&LAYOUTS[0], Class::Urgent);
        let end = match side {
            0 => End::Producer(Producer::new(place, epoch)),
            _ => End::Consumer(Consumer::new(place, epoch)),
        };
        Side { epoch, peer: Epoch(0), end, doing: None, seen: None, count: 0 }
    }
}

fn wires(windows: &Windows, side: usize) -> LinkPair<impl base::port::Words + use<>> {
    LinkPair { mine: windows.at(side * LINK), theirs: windows.at((1 - side) * LINK) }
}

/// The word that a side waits for.
fn peer_word(side: usize) -> usize {
    if side == 0 { LINK + CONSUMER } else { PRODUCER }
}

fn message(producer: Epoch, consumer: Epoch, count: u8) -> [u8; 3] {
    [producer.0 as u8, consumer.0 as u8, count]
}

impl Ring {
    fn is_done(&self, state: &State) -> bool {
        let [a, b] = &state.sides;
        a.peer == b.epoch
            && b.peer == a.epoch
            && a.count == self.messages
            && b.count == self.messages
    }

    fn ops(&self, state: &State, side: usize) -> Vec<Op> {
        let this = &state.sides[side];
        if let Some((op, _)) = &this.doing {
            return vec![*op];
        }
        let peer = state.sides[1 - side].epoch;
        let mut ops = vec![];
        if this.peer != peer {
            ops.push(Op::Start(peer));
        }
        let changed = this.seen != Some(Cells::get(&state.memory.cells, peer_word(side)));
        if this.peer.0 != 0 && this.count < self.messages && changed {
            ops.push(Op::Move);
        }
        ops
    }

    fn step(&self, state: &mut State, side: usize, op: Op, choice: usize) {
        let mut this = state.sides[side].clone();
        let log = this.doing.take().map_or(vec![], |doing| doing.1);
        let run = |windows: &Windows| {
            let wires = wires(windows, side);
            let mut this = this.clone();
            let fine = match op {
                Op::Start(peer) => {
                    (this.peer, this.count, this.seen) = (peer, 0, None);
                    match &mut this.end {
                        End::Producer(end) => end.start(&wires, peer),
                        End::Consumer(end) => end.start(&wires, peer),
                    }
                    Ok(true)
                }
                Op::Move => this.transfer(&wires),
            };
            (this, fine)
        };
        let stepper = Stepper { agent: side, agents: 2, missing: self.missing };
        match step(&mut state.memory, stepper, log, choice, run) {
            Step::Paused(log) => state.sides[side].doing = Some((op, log)),
            Step::Done((after, moved), log) => {
                state.sides[side] = after;
                match moved {
                    Ok(moved) => {
                        let seen = if moved { None } else { log.first().copied() };
                        state.sides[side].seen = seen;
                    }
                    Err(reason) => state.broken = Some(reason),
                }
            }
        }
    }
}

impl Side {
    /// Sends or receives one message. Returns false if it must wait.
    fn transfer(&mut self, wires: &LinkPair<impl base::port::Words>) -> Result<bool, String> {
        let moved = match &mut self.end {
            End::Producer(end) => {
                let payload = message(self.epoch, self.peer, self.count + 1);
                let header = Header { kind: kind::NOTICE, proc: 1, slot: 0, level: 0, sequence: 0 };
                match end.push(wires, header, Payload::of(&payload)) {
                    Ok(()) => true,
                    Err(PushError::Full | PushError::NoSession) => false,
                    Err(other) => return Err(format!("push: {other:?}")),
                }
            }
            End::Consumer(end) => {
                let mut buffer = [0; MAX_PAYLOAD];
                match end.pop(wires, &mut buffer) {
                    Ok(None) => false,
                    Ok(Some((_, bytes))) => {
                        let wanted = message(self.peer, self.epoch, self.count + 1);
                        if buffer[..bytes] != wanted {
                            return Err(format!("{:?}, not {wanted:?}", &buffer[..bytes]));
                        }
                        true
                    }
                    Err(fault) => return Err(format!("pop: {fault:?}")),
                }
            }
        };
        self.count += u8::from(moved);
        Ok(moved)
    }
}

impl Model for Ring {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let memory = Memory::new(Default::default(), 2, self.early);
        let sides = [Side::new(0, Epoch(1)), Side::new(1, Epoch(1))];
        vec![State { memory, sides, restarts: 0, broken: None }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for side in 0..2 {
            for op in self.ops(state, side) {
                actions.push(Action::Step(side, op, 0));
                if self.early {
                    actions.extend((1..3).map(|choice| Action::Step(side, op, choice)));
                }
            }
            actions.extend(state.memory.drainable(side).map(|i| Action::Drain(side, i)));
            if state.restarts < self.restarts {
                actions.push(Action::Restart(side));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = state.clone();
        match action {
            Action::Step(side, op, choice) => self.step(&mut state, side, op, choice),
            Action::Drain(side, index) => state.memory.drain(side, index),
            Action::Restart(side) => {
                state.restarts += 1;
                state.memory.kill(side);
                let epoch = Epoch(state.sides[side].epoch.0 + 1);
                state.sides[side] = Side::new(side, epoch);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what arrives is what was sent", |_, state: &State| {
                state.broken.is_none()
            }),
            Property::always("nothing gets stuck", |model: &Ring, state: &State| {
                let mut actions = vec![];
                model.actions(state, &mut actions);
                actions.retain(|action| !matches!(action, Action::Restart(_)));
                !actions.is_empty() || model.is_done(state)
            }),
            Property::sometimes("everything arrives", |model: &Ring, state: &State| {
                model.is_done(state) && state.restarts == model.restarts
            }),
        ]
    }
}

fn check(name: &str, model: Ring) {
    let begin = std::time::Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states, {:?}", checker.unique_state_count(), begin.elapsed());
    checker.assert_properties();
}

#[test]
fn a_ring_of_two_slots_survives_restarts_of_either_side() {
    let ring = |messages, restarts| Ring { messages, restarts, early: false, missing: none };
    check("no restart", ring(5, 0));
    check("one restart", ring(4, 1));
    check("three restarts", ring(3, 3));
}

#[test]
fn a_ring_survives_early_loads() {
    let ring = |messages, restarts| Ring { messages, restarts, early: true, missing: none };
    check("early loads", ring(4, 0));
    check("early loads, a restart", ring(3, 1));
}

/// The model check is effective: it finds what goes wrong without a barrier.
#[test]
fn a_ring_without_its_barriers_is_found_out() {
    let publish = |access| matches!(access, Access::Store(at) if at % LINK >= abi::msg::RINGS);
    let consume = |access| matches!(access, Access::Load(at) if at == PRODUCER);
    for (name, missing) in [("publish", publish as fn(Access) -> bool), ("consume", consume)] {
        let ring = Ring { messages: 3, restarts: 0, early: true, missing };
        let checker = ring.checker().threads(2).spawn_bfs().join();
        let found = checker.discovery("what arrives is what was sent");
        assert!(found.is_some(), "{name} barrier left out, and nothing found");
    }
}
