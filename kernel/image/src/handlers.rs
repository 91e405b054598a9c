//! Handler threads: they run the blockable requests of other kernels.
//!
//! The policy is `kernel_msg::pool`, one per core; here are its threads and its queue. A request is
//! taken off its ring into memory of its own as soon as somebody polls, so a ring never fills up
//! behind a slow handler. **Full**: requests under way are bounded by their callers' reply slots;
//! without memory, or without a handler that could ever take it, a request is answered `NoMemory`
//! (and a notice, which nobody waits for, is dropped and counted).

use crate::kernel::Kernel;
use crate::peers::Peer;
use crate::procs;
use abi::msg::{LAYOUT, MAX_PAYLOAD, MAX_REPLIES};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::id::CoreId;
use base::port::Trace;
use kernel_msg::pool::{Arrival, MIN_HANDLERS, Next, Pool, Shortage};
use kernel_msg::{Refusal, Request};
use kernel_sched::{PRIORITY_SERVE, WaitQueue};

/// Most handler threads of a core.
const MAX_HANDLERS: u16 = 24;
/// Most requests taken and not begun: what all peers can have under way.
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
    /// Buffers for requests that there is no memory for.
    overflow: Vec<Lock<[u8; MAX_PAYLOAD]>>,
}

/// A handler that is about to block; it goes on when this is dropped.
pub struct Blocked<'a>(&'a Core);

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.state.lock().pool.unblocked();
    }
}

impl Handlers {
    /// Queues without threads.
    pub fn new(cores: usize) -> Self {
        let core = |_| Core {
            state: Lock::new(
                crate::ranks::POOL,
                State { pool: Pool::new(MAX_HANDLERS), jobs: VecDeque::with_capacity(MAX_JOBS) },
            ),
            idle: WaitQueue::new(),
        };
        let overflow = |_| Lock::new(crate::ranks::SCRATCH, [0; MAX_PAYLOAD]);
        Handlers {
            cores: (0..cores).map(core).collect(),
            overflow: (0..cores).map(overflow).collect(),
        }
    }

    /// The threads a core starts with.
    pub fn start(&self, kernel: &'static Kernel) {
        for core in 0..kernel.domain().cores as usize {
            for _ in 0..MIN_HANDLERS {
                let started = kernel.scheduler.spawn(
                    "handler",
                    PRIORITY_SERVE,
                    Some(CoreId(core as u8)),
                    handler,
                    Next::Idle as usize,
                );
                if started.is_err() {
                    crate::log!("core {core}: no memory for its handler threads");
                }
            }
        }
    }

    fn here(&self) -> &Core {
        &self.cores[arch::cpu::core().index()]
    }

    /// Takes a peer's blockable requests, one ring's worth at most, and finds somebody to run them.
    pub fn arrived(&self, kernel: &Kernel, peer: &Peer) {
        for _ in 0..LAYOUT.blockable_slots {
            let mut payload = Vec::new();
            if payload.try_reserve_exact(MAX_PAYLOAD).is_err() {
                return self.refuse_arrived(kernel, peer);
            }
            payload.resize(MAX_PAYLOAD, 0);
            let Some(buffer) = payload.first_chunk_mut() else { return };
            let Some(request) = peer.receive(buffer) else { return };
            payload.truncate(request.bytes);
            self.hand_over(kernel, Job { request, payload });
        }
    }

    /// The out-of-memory handler: answers what it cannot even take.
    fn refuse_arrived(&self, kernel: &Kernel, peer: &Peer) {
        let mut buffer = self.overflow[arch::cpu::core().index()].lock();
        for _ in 0..LAYOUT.blockable_slots {
            let Some(request) = peer.receive(&mut buffer) else { return };
            kernel.peers.reply(&request, Err(Refusal::NoMemory));
        }
    }

    fn hand_over(&self, kernel: &Kernel, job: Job) {
        let core = self.here();
        let mut state = core.state.lock();
        let full = state.jobs.len() == MAX_JOBS;
        let arrival = if full { Arrival::Refuse } else { state.pool.arrived() };
        if arrival == Arrival::Refuse {
            drop(state);
            return kernel.peers.reply(&job.request, Err(Refusal::NoMemory));
        }
        state.jobs.push_back(job);
        drop(state);
        match arrival {
            Arrival::Hand => drop(core.idle.wake_one(&kernel.scheduler)),
            Arrival::QueueAndCreate => self.create(kernel),
            Arrival::Queue | Arrival::Refuse => {}
        }
    }

    fn create(&self, kernel: &Kernel) {
        let Some(kernel) = crate::kernel::get().filter(|k| core::ptr::eq(*k, kernel)) else {
            return;
        };
        let here = Some(arch::cpu::core());
        let made = kernel.scheduler.spawn("handler", PRIORITY_SERVE, here, handler, CREATED);
        kernel.trace.event("handler made", u64::from(made.is_ok()), 0);
        if made.is_err() {
            let shortage = self.here().state.lock().pool.failed();
            self.act_on(kernel, shortage);
        }
    }

    fn act_on(&self, kernel: &Kernel, shortage: Shortage) {
        match shortage {
            Shortage::None => {}
            Shortage::Create => self.create(kernel),
            Shortage::RefuseQueue(count) => {
                for _ in 0..count {
                    let Some(job) = self.here().state.lock().jobs.pop_front() else { return };
                    kernel.peers.reply(&job.request, Err(Refusal::NoMemory));
                }
            }
        }
    }

    /// This thread, a handler, is about to block or to do what may; it counts as blocked until the
    /// answer is dropped, also while it runs. Once: what it does meanwhile does not say so again.
    pub fn will_block(&self, kernel: &Kernel) -> Blocked<'_> {
        let core = self.here();
        let shortage = core.state.lock().pool.will_block();
        self.act_on(kernel, shortage);
        Blocked(core)
    }
}

/// Argument of a handler that the pool asked for, in difference to the first ones.
const CREATED: usize = 100;

/// A handler thread.
fn handler(argument: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let core = kernel.peers.handlers.here();
    let mut next = if argument == CREATED { core.state.lock().pool.created() } else { Next::Idle };
    while next != Next::Retire {
        let mut job = None;
        kernel.scheduler.wait(&core.idle, || {
            job = core.state.lock().jobs.pop_front();
            job.is_some()
        });
        if let Some(Job { request, payload }) = job {
            match procs::blockable(kernel, &request, payload) {
                Ok(reply) => {
                    kernel.peers.reply(&request, Ok(&reply));
                    procs::answered(kernel, &request);
                }
                Err(refusal) => kernel.peers.reply(&request, Err(refusal)),
            }
        }
        next = core.state.lock().pool.finished();
    }
}
