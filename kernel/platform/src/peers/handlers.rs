//! Handler threads, which execute the blockable requests of peers.
//!
//! Each core has a pool of handlers and a queue of requests; the policy is `kernel_msg::pool`. A
//! poll moves requests from the ring to memory of their own, so a slow handler never lets a ring
//! fill up. **Full**: requests in progress are bounded by their callers' reply slots. Without
//! memory, or without a handler that can ever take it, a request is answered `NoMemory`, and a
//! notice is dropped and counted.

use super::{Peer, Peers, Procedures};
use abi::msg::{LAYOUT, MAX_PAYLOAD, MAX_REPLIES};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::id::CoreId;
use base::port::Trace;
use kernel_msg::pool::{Arrival, MIN_HANDLERS, Next, Pool, Shortage};
use kernel_msg::{Refusal, Request};
use kernel_node::Node;
use kernel_sched::WaitQueue;

/// Most handler threads of a core.
const MAX_HANDLERS: u16 = 24;
/// Most requests in a queue: what all peers can have in progress.
const MAX_JOBS: usize = MAX_REPLIES * 2 * abi::boot::MAX_DOMAINS;

/// A request and its payload.
struct Job {
    request: Request,
    payload: Vec<u8>,
}

struct State {
    pool: Pool,
    jobs: VecDeque<Job>,
}

/// The handlers of one core.
struct Core {
    state: Lock<State>,
    idle: WaitQueue,
}

/// The handlers of all cores.
pub struct Handlers {
    cores: Vec<Core>,
    /// For each core, a buffer for requests that are refused for lack of memory.
    overflow: Vec<Lock<[u8; MAX_PAYLOAD]>>,
}

/// Guard of a handler that counts as blocked; see [`Peers::will_block`].
pub struct Blocked<'a>(&'a Core);

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.state.lock().pool.unblocked();
    }
}

impl Handlers {
    /// Creates the queues; [`Handlers::start`] creates the first threads.
    pub fn new(cores: usize) -> Self {
        let core = |_| Core {
            state: Lock::new(
                kernel_node::ranks::POOL,
                State { pool: Pool::new(MAX_HANDLERS), jobs: VecDeque::with_capacity(MAX_JOBS) },
            ),
            idle: WaitQueue::new(),
        };
        let overflow = |_| Lock::new(kernel_node::ranks::SCRATCH, [0; MAX_PAYLOAD]);
        Handlers {
            cores: (0..cores).map(core).collect(),
            overflow: (0..cores).map(overflow).collect(),
        }
    }

    /// Spawns the threads that each core starts with.
    pub fn start(&self, procedures: &'static dyn Procedures) {
        for core in 0..self.cores.len() {
            for _ in 0..MIN_HANDLERS {
                if procedures.spawn_handler(CoreId(core as u8), FIRST).is_err() {
                    kernel_node::log!("core {core}: no memory for its handler threads");
                }
            }
        }
    }

    fn here(&self) -> &Core {
        &self.cores[arch::cpu::core().index()]
    }

    /// Takes a peer's blockable requests, at most one ring's worth, and gives them to handlers.
    pub fn arrived(&self, node: &Node, peers: &Peers, peer: &Peer) {
        debug_assert!(arch::hold::heap() == 0, "a request outlives the step of a service");
        for _ in 0..LAYOUT.blockable_slots {
            let mut payload = Vec::new();
            if payload.try_reserve_exact(MAX_PAYLOAD).is_err() {
                return self.refuse_arrived(peers, peer);
            }
            payload.resize(MAX_PAYLOAD, 0);
            let Some(buffer) = payload.first_chunk_mut() else { return };
            let Some(request) = peer.receive(buffer) else { return };
            payload.truncate(request.bytes);
            self.hand_over(node, peers, Job { request, payload });
        }
    }

    /// Refuses a peer's blockable requests, at most one ring's worth: there is no memory for them.
    fn refuse_arrived(&self, peers: &Peers, peer: &Peer) {
        let mut buffer = self.overflow[arch::cpu::core().index()].lock();
        for _ in 0..LAYOUT.blockable_slots {
            let Some(request) = peer.receive(&mut buffer) else { return };
            peers.reply(&request, Err(Refusal::NoMemory));
        }
    }

    fn hand_over(&self, node: &Node, peers: &Peers, job: Job) {
        let core = self.here();
        let mut state = core.state.lock();
        let full = state.jobs.len() == MAX_JOBS;
        let arrival = if full { Arrival::Refuse } else { state.pool.arrived() };
        if arrival == Arrival::Refuse {
            drop(state);
            return peers.reply(&job.request, Err(Refusal::NoMemory));
        }
        state.jobs.push_back(job);
        drop(state);
        match arrival {
            Arrival::Hand => drop(core.idle.wake_one(&node.scheduler)),
            Arrival::QueueAndCreate => self.create(node, peers),
            Arrival::Queue | Arrival::Refuse => {}
        }
    }

    fn create(&self, node: &Node, peers: &Peers) {
        let Some(procedures) = peers.procedures() else { return };
        let made = procedures.spawn_handler(arch::cpu::core(), CREATED);
        node.trace.event("handler made", u64::from(made.is_ok()), 0);
        if made.is_err() {
            let shortage = self.here().state.lock().pool.failed();
            self.act_on(node, peers, shortage);
        }
    }

    fn act_on(&self, node: &Node, peers: &Peers, shortage: Shortage) {
        match shortage {
            Shortage::None => {}
            Shortage::Create => self.create(node, peers),
            Shortage::RefuseQueue(count) => {
                for _ in 0..count {
                    let Some(job) = self.here().state.lock().jobs.pop_front() else { return };
                    peers.reply(&job.request, Err(Refusal::NoMemory));
                }
            }
        }
    }

    /// See [`Peers::will_block`].
    pub fn will_block(&self, peers: &Peers, node: &Node) -> Blocked<'_> {
        let core = self.here();
        let shortage = core.state.lock().pool.will_block();
        self.act_on(node, peers, shortage);
        Blocked(core)
    }

    /// See [`Peers::work`].
    pub fn work(
        &self,
        node: &Node,
        peers: &Peers,
        procedures: &'static dyn Procedures,
        argument: usize,
    ) {
        let core = self.here();
        let mut next = match argument {
            CREATED => core.state.lock().pool.created(),
            _ => Next::Idle,
        };
        while next != Next::Retire {
            let mut job = None;
            node.scheduler.wait(&core.idle, || {
                job = core.state.lock().jobs.pop_front();
                job.is_some()
            });
            if let Some(Job { request, payload }) = job {
                match procedures.blockable(&request, payload) {
                    Ok(reply) => {
                        peers.reply(&request, Ok(&reply));
                        procedures.answered(&request);
                    }
                    Err(refusal) => peers.reply(&request, Err(refusal)),
                }
            }
            next = core.state.lock().pool.finished();
        }
    }
}

/// Argument of a handler that its core starts with.
const FIRST: usize = 0;
/// Argument of a handler that the pool has requested.
const CREATED: usize = 1;
