//! Model check of a stream that stalls: a sender that learns of room by doorbell only, a receiver
//! that learns of messages by doorbell only, weak memory. Both sleep when there is nothing to do.
//! All that is to be sent arrives, in order; so whenever a message waits and there is room, the
//! sender is awake or will be rung.

use abi::msg::{RINGS, STALLED, kind};
use base::id::{CoreId, Epoch};
use base::port::Words;
use kernel_msg::notify::{Attendance, Presence, must_ring};
use kernel_msg::ring::{Consumer, Header, Producer, PushError, RingLayout};
use kernel_msg::{Class, LinkPair, Payload};
use sim::explore::{Sparse, Step, Stepper, Windows, none, step, whole};
use sim::machine::Access;
use sim::memory::Memory;
use sim::place::{LAYOUTS, LINK, PAGE};
use stateright::{Checker, Model, Property};

const SENDER: usize = 0;
const RECEIVER: usize = 1;
const AGENTS: usize = 2;
/// A ring of two slots.
const LAYOUT: &abi::msg::Layout = &LAYOUTS[0];
/// Payloads of a message of one slot, and of one that fills the ring.
const SMALL: usize = 0;
const LARGE: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    /// An interrupt: the core attends.
    Enter,
    /// The sender looks for room.
    Poll,
    Send,
    /// The receiver opens the session.
    Open,
    Receive,
    /// The receiver looks at the stalled word.
    Notify,
    Leave,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Core {
    attendance: Attendance,
    /// It has polled since it started attending, so it may stop.
    polled: bool,
    /// Interrupts to come that are no doorbell.
    visits: u8,
    bell: bool,
    /// How often it has tried to leave since it started attending.
    leaves: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: Sparse,
    producer: Producer,
    consumer: Consumer,
    cores: [Core; AGENTS],
    doing: [Option<(Op, Vec<u64>)>; AGENTS],
    sent: u8,
    /// The sender has found no room, and was not notified of any since.
    stalled: bool,
    /// The receiver has opened the session.
    opened: bool,
    /// The receiver has to look at the stalled word before it leaves.
    owes: bool,
    received: u8,
    broken: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Step(usize, Op),
    Drain(usize, usize),
}

struct Stream {
    /// Payload sizes.
    messages: &'static [usize],
    visits: u8,
    /// The receiver opens the session when the sender is at work.
    late: bool,
    /// The sender does not look for room before it sleeps. A mistake.
    blind: bool,
    missing: fn(Access) -> bool,
}

/// A link whose messages are only headers: `model_ring` covers their contents.
struct Headers<W>(W);

impl<W: Words> Headers<W> {
    fn is_payload(at: usize) -> bool {
        at >= RINGS && !matches!(at % abi::msg::SLOT, 0 | 8)
    }
}

impl<W: Words> Words for Headers<W> {
    fn load(&self, at: usize) -> u64 {
        if Self::is_payload(at) { 0 } else { self.0.load(at) }
    }
    fn store(&self, at: usize, value: u64) {
        if !Self::is_payload(at) {
            self.0.store(at, value);
        }
    }
    fn barrier(&self) {
        self.0.barrier();
    }
}

fn ends(windows: &Windows, side: usize) -> LinkPair<impl Words + use<>> {
    LinkPair {
        mine: Headers(windows.at(side * LINK)),
        theirs: Headers(windows.at((1 - side) * LINK)),
    }
}

fn page_of(windows: &Windows, side: usize) -> impl Words + use<> {
    windows.at(2 * LINK + side * PAGE)
}

impl Core {
    fn new(side: usize, visits: u8) -> Core {
        let attendance = Attendance::new(CoreId(0));
        // The receiver has not looked yet when it opens the session.
        Core { attendance, polled: side == SENDER, visits, bell: false, leaves: 0 }
    }

    fn is_away(&self) -> bool {
        self.attendance.presence() == Presence::Away
    }
}

impl Stream {
    fn ops(&self, state: &State, side: usize) -> Vec<Op> {
        if let Some((op, _)) = &state.doing[side] {
            return vec![*op];
        }
        let core = &state.cores[side];
        let mut ops = vec![];
        if core.is_away() && (core.bell || core.visits > 0) {
            ops.push(Op::Enter);
        }
        if side == SENDER {
            // Also while it is away: a program calls the kernel.
            if !state.stalled && usize::from(state.sent) < self.messages.len() {
                ops.push(Op::Send);
            }
            if !core.is_away() {
                ops.push(if core.polled { Op::Leave } else { Op::Poll });
            }
            return ops;
        }
        match (state.opened, core.is_away()) {
            (false, _) => ops.push(Op::Open),
            (true, false) if core.polled && !state.owes => ops.push(Op::Leave),
            (true, false) if core.polled => ops.push(Op::Notify),
            (true, false) => ops.push(Op::Receive),
            (true, true) if state.owes => ops.push(Op::Notify),
            (true, true) => {}
        }
        if state.owes && !core.polled && !ops.contains(&Op::Notify) {
            ops.push(Op::Notify);
        }
        ops
    }

    /// Runs an operation, and returns whether it rings the other side.
    fn run(&self, state: &mut State, side: usize, op: Op, windows: &Windows) -> bool {
        let wires = ends(windows, side);
        let core = &mut state.cores[side];
        let mut must_notify = false;
        match op {
            Op::Enter => {
                core.attendance.enter(&page_of(windows, side));
                (core.polled, core.leaves) = (false, 0);
            }
            Op::Poll => {
                core.polled = true;
                state.stalled &= !state.producer.take_room(&wires);
            }
            Op::Send => must_notify = self.send(state, &wires),
            Op::Open => {
                state.consumer.start(&wires, Epoch(1));
                (state.opened, state.owes) = (true, true);
            }
            Op::Receive => {
                let has_received = state.receive(&wires);
                state.cores[side].polled = !has_received;
            }
            Op::Notify => {
                must_notify = state.consumer.must_notify(&wires);
                state.owes = false;
            }
            Op::Leave => {
                let State { producer, consumer, .. } = state;
                let waiting = || match side {
                    SENDER => !self.blind && producer.is_room_made(&wires),
                    _ => consumer.is_waiting(&wires),
                };
                core.attendance.leave(&page_of(windows, side), waiting);
                core.polled = false;
                core.leaves = core.leaves.saturating_add(1);
            }
        }
        must_notify && must_ring(&page_of(windows, 1 - side), 1)
    }

    /// Sends the next message, or stalls.
    fn send(&self, state: &mut State, wires: &LinkPair<impl Words>) -> bool {
        let bytes = self.messages[usize::from(state.sent)];
        match state.producer.has_room_or_stalls(wires, bytes) {
            Ok(()) => {}
            Err(PushError::Full | PushError::NoSession) => {
                state.stalled = true;
                return false;
            }
            Err(other) => {
                state.broken = Some(format!("send: {other:?}"));
                return false;
            }
        }
        let proc = u16::from(state.sent);
        let header = Header { kind: kind::NOTICE, proc, slot: 0, level: 0, sequence: 0 };
        if let Err(error) = state.producer.push(wires, header, Payload::of(&vec![0; bytes])) {
            state.broken = Some(format!("push: {error:?}"));
        }
        state.sent += 1;
        true
    }
}

impl State {
    /// Returns whether there was a message.
    fn receive(&mut self, wires: &LinkPair<impl Words>) -> bool {
        match self.consumer.pop(wires, &mut [0; abi::msg::MAX_PAYLOAD]) {
            Ok(None) => return false,
            Ok(Some((header, _))) if header.proc == u16::from(self.received) => {}
            wrong => self.broken = Some(format!("receive: {wrong:?}")),
        }
        self.received += 1;
        self.owes = true;
        true
    }
}

impl Model for Stream {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let place = RingLayout::new(LAYOUT, Class::Stream);
        let mut memory = Memory::new(Default::default(), AGENTS, false);
        let producer = whole(&mut memory, (SENDER, AGENTS), |windows| {
            let mut producer = Producer::new(place, Epoch(1));
            producer.start(&ends(windows, SENDER), Epoch(1));
            producer
        });
        let closed = Consumer::new(place, Epoch(1));
        let consumer = whole(&mut memory, (RECEIVER, AGENTS), |windows| {
            let mut consumer = closed.clone();
            if !self.late {
                consumer.start(&ends(windows, RECEIVER), Epoch(1));
            }
            consumer
        });
        vec![State {
            memory,
            producer,
            consumer,
            cores: [SENDER, RECEIVER].map(|side| Core::new(side, self.visits)),
            doing: [None, None],
            sent: 0,
            stalled: false,
            opened: !self.late,
            owes: false,
            received: 0,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for side in [SENDER, RECEIVER] {
            actions.extend(self.ops(state, side).into_iter().map(|op| Action::Step(side, op)));
            actions.extend(state.memory.drainable(side).map(|i| Action::Drain(side, i)));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = state.clone();
        let (side, op) = match action {
            Action::Drain(side, index) => {
                state.memory.drain(side, index);
                return Some(state);
            }
            Action::Step(side, op) => (side, op),
        };
        let log = state.doing[side].take().map(|doing| doing.1).unwrap_or_else(|| {
            let core = &mut state.cores[side];
            if op == Op::Enter && !core::mem::take(&mut core.bell) {
                core.visits -= 1;
            }
            vec![]
        });
        let stepper = Stepper { agent: side, agents: AGENTS, missing: self.missing };
        let mut memory = state.memory.clone();
        let run = |windows: &Windows| {
            let mut after = state.clone();
            let rings = self.run(&mut after, side, op, windows);
            (after, rings)
        };
        match step(&mut memory, stepper, log, 0, run) {
            Step::Paused(log) => state.doing[side] = Some((op, log)),
            Step::Done((after, rings), _) => {
                state = after;
                state.cores[1 - side].bell |= rings;
            }
        }
        state.memory = memory;
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("messages arrive in order", |_, state: &State| state.broken.is_none()),
            Property::always("nothing is slept through", |model: &Stream, state: &State| {
                let mut actions = vec![];
                model.actions(state, &mut actions);
                !actions.is_empty() || usize::from(state.received) == model.messages.len()
            }),
            // Each message or stall keeps a core from leaving once at most.
            Property::always("every core gets away", |model: &Stream, state: &State| {
                let most = model.messages.len() + 2;
                state.cores.iter().all(|core| usize::from(core.leaves) <= most)
            }),
            Property::sometimes(
                "a stall, and then all arrives",
                |model: &Stream, state: &State| {
                    let has_stalled = state.memory.cells.contains_key(&STALLED);
                    has_stalled && usize::from(state.received) == model.messages.len()
                },
            ),
        ]
    }
}

const RIGHT: Stream =
    Stream { messages: &[SMALL; 3], visits: 1, late: false, blind: false, missing: none };

fn check(name: &str, model: Stream) {
    let begin = std::time::Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states, {:?}", checker.unique_state_count(), begin.elapsed());
    checker.assert_properties();
}

#[test]
fn no_message_and_no_room_is_slept_through() {
    check("small", RIGHT);
    check("mixed", Stream { messages: &[SMALL, SMALL, LARGE], ..RIGHT });
    check(
        "no other interrupts",
        Stream { messages: &[SMALL, LARGE, SMALL, SMALL], visits: 0, ..RIGHT },
    );
}

#[test]
fn a_session_that_opens_late_is_room() {
    check("late", Stream { messages: &[SMALL, LARGE], late: true, ..RIGHT });
}

#[test]
fn each_planted_mistake_is_found() {
    let sender = |access| access == Access::Store(STALLED);
    // No other operation begins with a barrier.
    let receiver = |access| access == Access::Barrier;
    let mistakes = [
        ("the sender's barrier", Stream { missing: sender, ..RIGHT }),
        ("the receiver's barrier", Stream { missing: receiver, ..RIGHT }),
        ("the sender's look before sleep", Stream { blind: true, ..RIGHT }),
    ];
    for (name, model) in mistakes {
        let checker = model.checker().threads(2).spawn_bfs().join();
        let found = checker.discovery("nothing is slept through");
        assert!(found.is_some(), "without {name} nothing is found");
    }
}
