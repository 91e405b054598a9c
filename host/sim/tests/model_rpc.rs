//! Model check of `caller` and `server`: two concurrent calls, answered in any order, over weak
//! memory, with restarts of either side at any access. Every call ends once, with its own reply
//! from the server it was sent to, or with PeerLost if that server is gone; no call hangs.

use abi::msg::{CONSUMER, MAX_PAYLOAD, PRODUCER, REPLIES, SLOT};
use base::id::{DomainId, Epoch};
use kernel_msg::{CallError, CallId, Caller, Class, Level, LinkPair, ReplyTo, Server};
use sim::explore::{Sparse, Step, Stepper, Windows, none, step};
use sim::machine::Access;
use sim::memory::{Cells, Memory};
use sim::place::{LAYOUTS, LINK};
use stateright::{Checker, Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Start(Epoch),
    Begin,
    Finish(usize),
    Receive,
    Reply(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::large_enum_variant)] // There are two of them, not a million.
enum End {
    Caller { caller: Caller, left: u8, open: Vec<(CallId, u8, Option<u64>)> },
    Server { server: Server, held: Vec<(ReplyTo, [u8; 2])>, last: [u8; 2] },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Side {
    epoch: Epoch,
    peer: Epoch,
    end: End,
    doing: Option<(Op, Vec<u64>)>,
    /// The peer's ring word when `Begin` or `Receive` had to wait.
    seen: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: Sparse,
    sides: [Side; 2],
    restarts: u8,
    lost: bool,
    broken: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Step(usize, Op, usize),
    Drain(usize, usize),
    Restart(usize),
}

struct Rpc {
    calls: u8,
    restarts: u8,
    early: bool,
    missing: fn(Access) -> bool,
}

/// The result of an operation.
enum Came {
    Fine,
    Wait,
    WaitFor(usize),
    Broken(String),
}

fn done_word(call: &CallId) -> usize {
    LINK + REPLIES + call.slot as usize * SLOT
}

impl Side {
    fn run(&mut self, op: Op, windows: &Windows, server: Epoch) -> (Came, bool) {
        let mut buffer = [0; MAX_PAYLOAD];
        let side = usize::from(matches!(self.end, End::Server { .. }));
        let wires =
            LinkPair { mine: windows.at(side * LINK), theirs: windows.at((1 - side) * LINK) };
        match (&mut self.end, op) {
            (End::Caller { caller, .. }, Op::Start(peer)) => {
                (self.peer, self.seen) = (peer, None);
                caller.peer_changed(&wires, Some(peer));
            }
            (End::Server { server, held, last }, Op::Start(peer)) => {
                (self.peer, self.seen, *last) = (peer, None, [0; 2]);
                server.peer_changed(&wires, Some(peer));
                // A handler of the dead caller may still answer.
                held.truncate(1);
            }
            (End::Caller { caller, left, open }, Op::Begin) => {
                let payload = [self.epoch.0 as u8, *left];
                match caller.begin(&wires, Class::Urgent, Level(0), 1, &payload, 0) {
                    Ok(call) => {
                        open.push((call, *left, None));
                        *left -= 1;
                    }
                    Err(CallError::Busy(_)) => return (Came::Wait, false),
                    Err(error) => return (Came::Broken(format!("begin: {error:?}")), false),
                }
            }
            (End::Caller { caller, open, .. }, Op::Finish(index)) => {
                let (call, number, _) = open[index];
                let wanted = [call.epoch.0 as u8, self.epoch.0 as u8, number];
                match caller.finish(&wires, call, &mut buffer) {
                    None => return (Came::WaitFor(index), false),
                    Some(Ok(bytes)) if buffer[..bytes] == wanted => {}
                    Some(Err(CallError::PeerLost)) if server != call.epoch => {
                        open.remove(index);
                        return (Came::Fine, true);
                    }
                    Some(other) => {
                        let got = &buffer[..3];
                        return (Came::Broken(format!("{other:?} {got:?}, not {wanted:?}")), false);
                    }
                }
                open.remove(index);
            }
            (End::Server { server, held, last }, Op::Receive) => {
                match server.receive(&wires, Class::Urgent, &mut buffer) {
                    Ok(None) => return (Came::Wait, false),
                    Ok(Some(request)) => {
                        let got = [buffer[0], buffer[1]];
                        let order = *last == [0; 2] || (got[0] == last[0] && got[1] < last[1]);
                        let Some(to) = request.reply.filter(|_| order && request.bytes == 2) else {
                            return (Came::Broken(format!("{request:?} {got:?}")), false);
                        };
                        *last = got;
                        held.push((to, got));
                    }
                    Err(fault) => return (Came::Broken(format!("receive: {fault:?}")), false),
                }
            }
            (End::Server { server, held, .. }, Op::Reply(index)) => {
                let (to, [epoch, number]) = held.remove(index);
                let payload = [self.epoch.0 as u8, epoch, number];
                // Dropped as stale if the caller has restarted.
                let _ = server.reply(&wires, to, Ok(&payload));
            }
            _ => return (Came::Broken("no such operation".into()), false),
        }
        (Came::Fine, false)
    }

    fn new(side: usize, epoch: Epoch, calls: u8) -> Side {
        let layout = &LAYOUTS[1];
        let end = match side {
            0 => End::Caller { caller: Caller::new(layout, epoch), left: calls, open: vec![] },
            _ => {
                let server = Server::new(layout, DomainId(0), epoch);
                End::Server { server, held: vec![], last: [0; 2] }
            }
        };
        Side { epoch, peer: Epoch(0), end, doing: None, seen: None }
    }
}

impl Rpc {
    fn is_done(&self, state: &State) -> bool {
        state.sides.iter().all(|side| match &side.end {
            End::Caller { left, open, .. } => *left == 0 && open.is_empty(),
            End::Server { held, .. } => held.is_empty(),
        })
    }

    fn ops(&self, state: &State, side: usize) -> Vec<Op> {
        let this = &state.sides[side];
        if let Some((op, _)) = &this.doing {
            return vec![*op];
        }
        let word = |at: usize| Some(Cells::get(&state.memory.cells, at));
        let peer = state.sides[1 - side].epoch;
        let mut ops = vec![];
        if this.peer != peer {
            ops.push(Op::Start(peer));
        }
        if this.peer == Epoch(0) {
            return ops;
        }
        match &this.end {
            End::Caller { left, open, .. } => {
                if *left > 0 && open.len() < 2 && this.seen != word(LINK + CONSUMER) {
                    ops.push(Op::Begin);
                }
                let ready = |i: &usize| open[*i].2 != word(done_word(&open[*i].0));
                ops.extend((0..open.len()).filter(ready).map(Op::Finish));
            }
            End::Server { held, .. } => {
                if this.seen != word(PRODUCER) {
                    ops.push(Op::Receive);
                }
                ops.extend((0..held.len()).map(Op::Reply));
            }
        }
        ops
    }

    fn step(&self, state: &mut State, side: usize, op: Op, choice: usize) {
        let log = state.sides[side].doing.take().map_or(vec![], |doing| doing.1);
        let server = state.sides[1].epoch;
        let this = state.sides[side].clone();
        let run = |windows: &Windows| {
            let mut this = this.clone();
            let came = this.run(op, windows, server);
            (this, came)
        };
        let stepper = Stepper { agent: side, agents: 2, missing: self.missing };
        match step(&mut state.memory, stepper, log, choice, run) {
            Step::Paused(log) => state.sides[side].doing = Some((op, log)),
            Step::Done((after, (came, lost)), log) => {
                state.sides[side] = after;
                state.lost |= lost;
                let this = &mut state.sides[side];
                let seen = log.first().copied();
                match (came, &mut this.end) {
                    (Came::Broken(reason), _) => state.broken = Some(reason),
                    (Came::Wait, _) => this.seen = seen,
                    (Came::WaitFor(index), End::Caller { open, .. }) => open[index].2 = seen,
                    // A lost call or a new session: waiting operations look again.
                    (_, End::Caller { open, .. }) => {
                        this.seen = None;
                        open.iter_mut().for_each(|call| call.2 = None);
                    }
                    (_, End::Server { .. }) => this.seen = None,
                }
            }
        }
    }
}

impl Model for Rpc {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let memory = Memory::new(Default::default(), 2, self.early);
        let sides = [Side::new(0, Epoch(1), self.calls), Side::new(1, Epoch(1), 0)];
        vec![State { memory, sides, restarts: 0, lost: false, broken: None }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for side in 0..2 {
            for op in self.ops(state, side) {
                let choices = if self.early { 2 } else { 1 };
                actions.extend((0..choices).map(|choice| Action::Step(side, op, choice)));
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
                state.sides[side] = Side::new(side, epoch, self.calls);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("each end is right", |_, state: &State| state.broken.is_none()),
            Property::always("no call hangs", |model: &Rpc, state: &State| {
                let mut actions = vec![];
                model.actions(state, &mut actions);
                actions.retain(|action| !matches!(action, Action::Restart(_)));
                !actions.is_empty() || model.is_done(state)
            }),
            Property::sometimes("all end", |model: &Rpc, state: &State| {
                model.is_done(state) && (model.restarts == 0 || state.lost)
            }),
        ]
    }
}

fn check(name: &str, model: Rpc) {
    let begin = std::time::Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states, {:?}", checker.unique_state_count(), begin.elapsed());
    checker.assert_properties();
}

#[test]
fn calls_end_once_and_right() {
    check("rpc", Rpc { calls: 3, restarts: 0, early: false, missing: none });
    check("rpc, early loads", Rpc { calls: 2, restarts: 0, early: true, missing: none });
}

#[test]
fn calls_end_once_and_right_when_a_side_restarts() {
    check("rpc, one restart", Rpc { calls: 2, restarts: 1, early: false, missing: none });
}

#[test]
fn a_reply_without_its_barriers_is_found_out() {
    fn is_done_word(at: usize) -> bool {
        at > LINK && (REPLIES..abi::msg::RINGS).contains(&(at % LINK)) && at.is_multiple_of(SLOT)
    }
    let reply = |access| match access {
        Access::Store(at) => at > LINK && at % LINK > REPLIES && !is_done_word(at),
        _ => false,
    };
    let collect = |access| matches!(access, Access::Load(at) if is_done_word(at));
    for (name, missing) in [("reply", reply as fn(Access) -> bool), ("collect", collect)] {
        let checker =
            Rpc { calls: 1, restarts: 0, early: true, missing }.checker().spawn_bfs().join();
        let found = checker.discovery("each end is right");
        assert!(found.is_some(), "{name} barrier left out, and nothing found");
    }
}
