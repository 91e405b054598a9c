//! Model check of nested blockable calls between two and three kernels, each with the smallest
//! links and the smallest pool, so everything is full most of the time. Every mix of calls ends, in
//! any order, and whether or not handlers can be created. (Memory is not weak here; `model_rpc`
//! covers that.)

use std::collections::VecDeque;

use abi::msg::{LEVELS, Layout, MAX_PAYLOAD};
use base::id::{DomainId, Epoch};
use kernel_msg::pool::{Arrival, Next, Pool, Shortage};
use kernel_msg::{CallError, CallId, Caller, Class, Level, LinkPair, Refusal, ReplyTo, Server};
use sim::explore::{Sparse, Windows, whole};
use sim::memory::Memory;
use sim::place::{LINK, link};
use stateright::{Checker, Model, Property};

/// One slot of each kind.
static LAYOUT: Layout = Layout {
    urgent_slots: 1,
    blockable_slots: 1,
    stream_slots: 1,
    urgent_replies: 1,
    level_replies: [1; LEVELS],
    reply_bytes: 8,
};
/// Two threads of a kernel can call at once, their handlers cannot.
static FUNNEL: Layout = Layout { level_replies: [2, 1, 1, 1], ..LAYOUT };
const EPOCH: Epoch = Epoch(1);

type Script = Vec<u8>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Actor {
    level: Level,
    /// The peer to call. The rest of the script is passed to its handler.
    script: Script,
    open: Option<(usize, CallId)>,
    request: Option<ReplyTo>,
    blocked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kernel {
    callers: Vec<Caller>,
    servers: Vec<Server>,
    actors: Vec<Actor>,
    queue: VecDeque<(ReplyTo, Level, Script)>,
    pool: Pool,
    making: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: Sparse,
    kernels: Vec<Kernel>,
    broken: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Poll(usize),
    Act(usize, usize),
    Make(usize, bool),
}

struct Nested {
    threads: Vec<(usize, Script)>,
    domains: usize,
    handlers: u16,
    may_fail: bool,
    /// Whether handlers report to the pool when they wait for a reply slot.
    honest: bool,
    layout: &'static Layout,
}

struct Env<'a> {
    windows: &'a Windows,
    id: usize,
    domains: usize,
    honest: bool,
}

impl Env<'_> {
    fn wires(&self, peer: usize) -> LinkPair<impl base::port::Words + use<>> {
        let mine = self.windows.at(link(self.domains, self.id, peer));
        LinkPair { mine, theirs: self.windows.at(link(self.domains, peer, self.id)) }
    }
}

impl Kernel {
    fn poll(&mut self, env: &Env<'_>) -> Result<(), String> {
        let mut buffer = [0; MAX_PAYLOAD];
        for peer in (0..env.domains).filter(|peer| *peer != env.id) {
            let wires = env.wires(peer);
            self.callers[peer].poll(&wires, &mut |_, _| {});
            let received = self.servers[peer].receive(&wires, Class::Blockable, &mut buffer);
            let Some(request) = received.map_err(|fault| format!("{fault:?}"))? else { continue };
            let to = request.reply.ok_or("a notice")?;
            let script = buffer[..request.bytes].to_vec();
            match self.pool.arrived() {
                Arrival::Hand => self.serve((to, request.level, script)),
                Arrival::Queue => self.queue.push_back((to, request.level, script)),
                Arrival::QueueAndCreate => {
                    self.queue.push_back((to, request.level, script));
                    self.making += 1;
                }
                Arrival::Refuse => self.reply(env, to, Err(Refusal::NoMemory))?,
            }
        }
        Ok(())
    }

    fn serve(&mut self, (to, level, script): (ReplyTo, Level, Script)) {
        let (level, request) = (level.deeper(), Some(to));
        self.actors.push(Actor { level, script, open: None, request, blocked: false });
    }

    fn reply(
        &mut self,
        env: &Env<'_>,
        to: ReplyTo,
        result: Result<&[u8], Refusal>,
    ) -> Result<(), String> {
        let peer = to.peer.index();
        let replied = self.servers[peer].reply(&env.wires(peer), to, result);
        replied.map_err(|error| format!("{error:?}"))
    }

    fn next(&mut self, next: Next) -> Result<(), String> {
        if next == Next::Serve {
            let work = self.queue.pop_front().ok_or("nothing to serve")?;
            self.serve(work);
        }
        Ok(())
    }

    fn shortage(&mut self, env: &Env<'_>, shortage: Shortage) -> Result<(), String> {
        match shortage {
            Shortage::None => {}
            Shortage::Create => self.making += 1,
            Shortage::RefuseQueue(count) => {
                for _ in 0..count {
                    let (to, ..) = self.queue.pop_front().ok_or("queue shorter")?;
                    self.reply(env, to, Err(Refusal::NoMemory))?;
                }
            }
        }
        Ok(())
    }

    fn act(&mut self, env: &Env<'_>, index: usize) -> Result<(), String> {
        let actor = self.actors[index].clone();
        if let Some((to, call)) = actor.open {
            let mut buffer = [0; MAX_PAYLOAD];
            match self.callers[to].finish(&env.wires(to), call, &mut buffer) {
                None => return Ok(()),
                Some(Ok(_) | Err(CallError::Refused(Refusal::NoMemory))) => {}
                Some(Err(error)) => return Err(format!("{error:?}")),
            }
            self.actors[index].open = None;
            self.unblock(index);
        } else if let Some(to) = actor.script.first().map(|to| *to as usize) {
            let (class, rest) = (Class::Blockable, &actor.script[1..]);
            match self.callers[to].begin(&env.wires(to), class, actor.level, 1, rest, 0) {
                Ok(call) => {
                    self.actors[index].open = Some((to, call));
                    self.actors[index].script.clear();
                    self.block(env, index)?;
                }
                Err(CallError::Busy(_)) if env.honest => self.block(env, index)?,
                Err(CallError::Busy(_)) => {}
                Err(CallError::TooDeep) => self.actors[index].script.clear(),
                Err(error) => return Err(format!("{error:?}")),
            }
        } else {
            self.actors.remove(index);
            if let Some(to) = actor.request {
                self.reply(env, to, Ok(&[1]))?;
                let next = self.pool.finished();
                self.next(next)?;
            }
        }
        Ok(())
    }

    fn block(&mut self, env: &Env<'_>, index: usize) -> Result<(), String> {
        let actor = &mut self.actors[index];
        if actor.request.is_none() || actor.blocked {
            return Ok(());
        }
        actor.blocked = true;
        let shortage = self.pool.will_block();
        self.shortage(env, shortage)
    }

    fn unblock(&mut self, index: usize) {
        if core::mem::take(&mut self.actors[index].blocked) {
            self.pool.unblocked();
        }
    }

    fn make(&mut self, env: &Env<'_>, made: bool) -> Result<(), String> {
        self.making -= 1;
        if made {
            let next = self.pool.created();
            return self.next(next);
        }
        let shortage = self.pool.failed();
        self.shortage(env, shortage)
    }
}

impl Nested {
    fn apply(&self, state: &mut State, id: usize, run: impl Fn(&mut Kernel, &Env<'_>) -> Came) {
        let kernel = &state.kernels[id];
        let (after, came) = whole(&mut state.memory, (id, self.domains), |windows| {
            let mut kernel = kernel.clone();
            let Nested { domains, honest, .. } = *self;
            let came = run(&mut kernel, &Env { windows, id, domains, honest });
            (kernel, came)
        });
        state.kernels[id] = after;
        // The identity of handlers does not matter.
        state.kernels[id]
            .actors
            .sort_by_key(|actor| (actor.level, actor.request, actor.open, actor.script.clone()));
        state.broken = came.err();
    }
}

type Came = Result<(), String>;

impl Model for Nested {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let domains = self.domains;
        let kernel = |id| {
            let callers = vec![Caller::new(self.layout, EPOCH); domains];
            let server = |peer| Server::new(self.layout, DomainId(peer as u8), EPOCH);
            let thread = |script: &Script| Actor {
                level: Level(0),
                script: script.clone(),
                open: None,
                request: None,
                blocked: false,
            };
            let own = self.threads.iter().filter(|thread| thread.0 == id);
            Kernel {
                callers,
                servers: (0..domains).map(server).collect(),
                actors: own.map(|(_, script)| thread(script)).collect(),
                queue: VecDeque::new(),
                pool: Pool::new(self.handlers),
                making: 0,
            }
        };
        let kernels = (0..domains).map(kernel).collect();
        let memory = Memory::new(Default::default(), domains, false);
        let mut state = State { memory, kernels, broken: None };
        for id in 0..domains {
            self.apply(&mut state, id, |kernel, env| {
                for peer in (0..domains).filter(|peer| *peer != id) {
                    kernel.callers[peer].peer_changed(&env.wires(peer), Some(EPOCH));
                    kernel.servers[peer].peer_changed(&env.wires(peer), Some(EPOCH));
                }
                Ok(())
            });
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (id, kernel) in state.kernels.iter().enumerate() {
            actions.push(Action::Poll(id));
            actions.extend((0..kernel.actors.len()).map(|actor| Action::Act(id, actor)));
            if kernel.making > 0 {
                actions.push(Action::Make(id, true));
                if self.may_fail {
                    actions.push(Action::Make(id, false));
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Poll(id) => self.apply(&mut state, id, Kernel::poll),
            Action::Act(id, i) => self.apply(&mut state, id, |kernel, env| kernel.act(env, i)),
            Action::Make(id, made) => {
                self.apply(&mut state, id, |kernel, env| kernel.make(env, made));
            }
        }
        // A transition without effect is not a step: a kernel that only retries is stuck.
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing breaks", |_, state: &State| state.broken.is_none()),
            Property::always("every mix of calls ends", |model: &Nested, state: &State| {
                let idle = |kernel: &Kernel| kernel.actors.is_empty() && kernel.queue.is_empty();
                state.kernels.iter().all(idle) || !model.next_steps(state).is_empty()
            }),
        ]
    }
}

fn check(name: &str, model: Nested) {
    assert!(LAYOUT.size() <= LINK);
    let begin = std::time::Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states, {:?}", checker.unique_state_count(), begin.elapsed());
    checker.assert_properties();
}

#[test]
fn two_kernels_that_call_back_and_forth_until_it_is_too_deep() {
    let threads = vec![(0, vec![1, 0, 1, 0, 1]), (1, vec![0, 1, 0, 1, 0])];
    check(
        "ping-pong",
        Nested { threads, domains: 2, handlers: 2, may_fail: true, honest: true, layout: &LAYOUT },
    );
}

#[test]
fn two_threads_each_and_one_slot_a_level() {
    let threads = vec![(0, vec![1, 0]), (0, vec![1, 0]), (1, vec![0, 1]), (1, vec![0, 1])];
    check(
        "crowd",
        Nested { threads, domains: 2, handlers: 3, may_fail: true, honest: true, layout: &LAYOUT },
    );
}

#[test]
fn three_kernels_in_a_circle_and_back() {
    let threads = vec![(0, vec![1, 0, 2]), (1, vec![2, 1, 0]), (2, vec![0, 2, 1])];
    check(
        "circle",
        Nested { threads, domains: 3, handlers: 2, may_fail: false, honest: true, layout: &LAYOUT },
    );
}

fn funnel(honest: bool) -> Nested {
    let threads = vec![(1, vec![0, 1, 0]), (1, vec![0, 1, 0])];
    Nested { threads, domains: 2, handlers: 2, may_fail: false, honest, layout: &FUNNEL }
}

/// Tests the pool's rule that waiting for a reply slot counts as blocking: without it, this
/// deadlocks.
#[test]
fn a_handler_that_hides_its_wait_for_a_slot_is_found_out() {
    check("funnel", funnel(true));
    let checker = funnel(false).checker().threads(2).spawn_bfs().join();
    assert!(checker.discovery("every mix of calls ends").is_some());
}
