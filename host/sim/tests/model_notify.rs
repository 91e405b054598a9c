//! Model check of `notify` over a ring: a sender that rings only when no core attends, two cores of
//! one target that start and stop attending, weak memory. No core sleeps while a message waits, and
//! the cores do not keep each other from leaving.

use abi::msg::{MAX_PAYLOAD, kind};
use base::id::{CoreId, Epoch};
use kernel_msg::notify::{Attendance, Presence as Where, must_ring};
use kernel_msg::ring::{Consumer, Header, Producer, RingLayout};
use kernel_msg::{Class, LinkPair, Payload};
use sim::explore::{Sparse, Step, Stepper, Windows, none, step, whole};
use sim::machine::Access;
use sim::memory::Memory;
use sim::place::{LAYOUTS, LINK};
use stateright::{Checker, Model, Property};

/// Links (0, 1) and (1, 0), then the target's page.
const PAGE: usize = 2 * LINK;
/// The sender, and two cores; cores share the consumer under a lock.
const AGENTS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Send,
    Enter,
    Poll,
    Leave(Found),
}

/// How a core that leaves finds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Found {
    Free,
    /// Another core holds it; this one does not wait. A mistake.
    Taken,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Core {
    attendance: Attendance,
    /// It has polled to the end since it started attending, so it may stop.
    polled: bool,
    visits: u8,
    /// How often it has tried to leave since it started attending.
    leaves: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: Sparse,
    producer: Producer,
    consumer: Consumer,
    cores: Vec<Core>,
    doing: Vec<Option<(Op, Vec<u64>)>>,
    lock: Option<usize>,
    bell: bool,
    sent: u8,
    received: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Step(usize, Op),
    Drain(usize, usize),
}

struct Notify {
    cores: usize,
    messages: u8,
    /// Number of times that a core returns to kernel code without a doorbell.
    visits: u8,
    /// A core that leaves does not wait for the lock: if it is taken, a message may have arrived.
    tries: bool,
    missing: fn(Access) -> bool,
}

fn ends(windows: &Windows, side: usize) -> LinkPair<impl base::port::Words + use<>> {
    LinkPair { mine: windows.at(side * LINK), theirs: windows.at((1 - side) * LINK) }
}

/// The changes that an operation makes when it ends.
struct After {
    state: State,
    rang: bool,
}

impl Notify {
    fn op(&self, state: &State, agent: usize) -> Option<Op> {
        if let Some((op, _)) = &state.doing[agent] {
            return Some(*op);
        }
        if agent == 0 {
            return (state.sent < self.messages).then_some(Op::Send);
        }
        let core = &state.cores[agent - 1];
        if core.attendance.presence() == Where::Away {
            let rung = agent == 1 && state.bell;
            return (rung || core.visits > 0).then_some(Op::Enter);
        }
        let free = state.lock.is_none_or(|holder| holder == agent);
        match (core.polled, free) {
            (true, true) => Some(Op::Leave(Found::Free)),
            (true, false) => self.tries.then_some(Op::Leave(Found::Taken)),
            (false, _) => free.then_some(Op::Poll),
        }
    }

    fn run(&self, state: &State, agent: usize, op: Op, windows: &Windows) -> After {
        let mut state = state.clone();
        let mut rang = false;
        match op {
            Op::Send => {
                let wires = ends(windows, 0);
                let header = Header { kind: kind::NOTICE, proc: 1, slot: 0, level: 0, sequence: 0 };
                if state.producer.push(&wires, header, Payload::of(&[state.sent])).is_ok() {
                    state.sent += 1;
                    rang = must_ring(&windows.at(PAGE), self.cores);
                }
            }
            Op::Enter => {
                let core = &mut state.cores[agent - 1];
                core.attendance.enter(&windows.at(PAGE));
                (core.polled, core.leaves) = (false, 0);
            }
            Op::Poll => {
                let mut buffer = [0; MAX_PAYLOAD];
                let popped = state.consumer.pop(&ends(windows, 1), &mut buffer);
                let got = matches!(popped, Ok(Some(_)));
                state.received += u8::from(got);
                state.cores[agent - 1].polled = !got;
            }
            Op::Leave(found) => {
                let State { consumer, cores, .. } = &mut state;
                let wires = ends(windows, 1);
                let waiting = || found == Found::Taken || consumer.is_waiting(&wires);
                let core = &mut cores[agent - 1];
                core.attendance.leave(&windows.at(PAGE), waiting);
                core.polled = false;
                core.leaves = core.leaves.saturating_add(1);
            }
        }
        After { state, rang }
    }

    fn start(&self, state: &mut State, agent: usize, op: Op) {
        match op {
            Op::Enter if agent == 1 && state.bell => state.bell = false,
            Op::Enter => state.cores[agent - 1].visits -= 1,
            Op::Poll | Op::Leave(Found::Free) => state.lock = Some(agent),
            _ => {}
        }
    }
}

impl Model for Notify {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let place = RingLayout::new(&LAYOUTS[1], Class::Urgent);
        let mut producer = Producer::new(place, Epoch(1));
        let mut consumer = Consumer::new(place, Epoch(1));
        let mut memory = Memory::new(Default::default(), AGENTS, false);
        producer = whole(&mut memory, (0, AGENTS), |windows| {
            let mut producer = producer.clone();
            producer.start(&ends(windows, 0), Epoch(1));
            producer
        });
        consumer = whole(&mut memory, (1, AGENTS), |windows| {
            let mut consumer = consumer.clone();
            consumer.start(&ends(windows, 1), Epoch(1));
            consumer
        });
        let core = |id| {
            let attendance = Attendance::new(CoreId(id));
            Core { attendance, polled: false, visits: self.visits, leaves: 0 }
        };
        let cores = (0..self.cores as u8).map(core).collect();
        let (doing, lock, bell) = (vec![None; 1 + self.cores], None, false);
        vec![State { memory, producer, consumer, cores, doing, lock, bell, sent: 0, received: 0 }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for agent in 0..=self.cores {
            actions.extend(self.op(state, agent).map(|op| Action::Step(agent, op)));
            actions.extend(state.memory.drainable(agent).map(|i| Action::Drain(agent, i)));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = state.clone();
        match action {
            Action::Drain(agent, index) => state.memory.drain(agent, index),
            Action::Step(agent, op) => {
                let log = match state.doing[agent].take() {
                    Some((_, log)) => log,
                    None => {
                        self.start(&mut state, agent, op);
                        vec![]
                    }
                };
                let stepper = Stepper { agent, agents: AGENTS, missing: self.missing };
                let mut memory = state.memory.clone();
                let run = |windows: &Windows| self.run(&state, agent, op, windows);
                match step(&mut memory, stepper, log, 0, run) {
                    Step::Paused(log) => state.doing[agent] = Some((op, log)),
                    Step::Done(after, _) => {
                        state = after.state;
                        state.bell |= after.rang;
                        if state.lock == Some(agent) {
                            state.lock = None;
                        }
                        if op == Op::Poll {
                            // Releasing a lock orders consumer words among the cores of a domain.
                            memory.barrier(agent);
                        }
                    }
                }
                state.memory = memory;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // Each message keeps a core from leaving once at most, nothing else does.
            Property::always("every core gets away", |model: &Notify, state: &State| {
                state.cores.iter().all(|core| core.leaves <= model.messages + 1)
            }),
            Property::always("no message is slept through", |model: &Notify, state: &State| {
                let mut actions = vec![];
                model.actions(state, &mut actions);
                !actions.is_empty() || state.received == model.messages
            }),
            Property::sometimes("all is received without a bell", |model: &Notify, s: &State| {
                s.received == model.messages && s.cores[0].visits == 0 && !s.bell
            }),
        ]
    }
}

fn check(name: &str, model: Notify) {
    let begin = std::time::Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states, {:?}", checker.unique_state_count(), begin.elapsed());
    checker.assert_properties();
}

#[test]
fn one_core_sleeps_through_nothing() {
    check("one core", Notify { cores: 1, messages: 3, visits: 3, tries: false, missing: none });
}

#[test]
fn two_cores_sleep_through_nothing() {
    check("two cores", Notify { cores: 2, messages: 2, visits: 1, tries: false, missing: none });
}

#[test]
fn without_either_barrier_a_message_is_slept_through() {
    let sender = |access| matches!(access, Access::Store(at) if at < LINK && at % LINK == 0);
    let core = |access| matches!(access, Access::Store(at) if at >= PAGE);
    for (name, missing) in [("sender", sender as fn(Access) -> bool), ("core", core)] {
        let model = Notify { cores: 1, messages: 1, visits: 1, tries: false, missing };
        let checker = model.checker().threads(2).spawn_bfs().join();
        let found = checker.discovery("no message is slept through");
        assert!(found.is_some(), "the {name}'s barrier is not needed?");
    }
}

#[test]
fn cores_that_do_not_wait_for_the_lock_keep_each_other_from_leaving() {
    let model = Notify { cores: 2, messages: 0, visits: 1, tries: true, missing: none };
    // The number of attempts has no bound, nor has the number of states.
    let checker = model.checker().target_max_depth(40).threads(2).spawn_bfs().join();
    assert!(checker.discovery("every core gets away").is_some());
}
