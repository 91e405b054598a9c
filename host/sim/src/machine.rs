//! Runs protocol code over [`Memory`], interrupted at any of its accesses.
//!
//! Code between two accesses is a pure function of its loads. So a paused operation is discarded
//! (by unwinding) and later run again from its start on a copy of its state, with the logged loads
//! fed back, until it reaches the new access. In this way the kernels' real code is explored one
//! access at a time, without threads.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use base::port::Words;
use base::prng::Prng;

use crate::memory::{Cells, Memory};

/// An access. It identifies the barrier that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A load at an address.
    Load(usize),
    /// A store at an address.
    Store(usize),
    /// A barrier.
    Barrier,
}

/// How accesses behave.
#[derive(Clone, Debug)]
pub enum Mode {
    /// The next new access is made (a load takes this choice), and so are stores after it, which
    /// other agents cannot see in the buffer. The operation pauses before the next load or barrier.
    Step(usize),
    /// Stores drain and loads age at random; the operation pauses at access `pause`.
    Random {
        /// Source of randomness.
        prng: Prng,
        /// Pause before this access.
        pause: usize,
    },
}

/// A predicate on the access before a barrier: whether that barrier is omitted.
pub type Missing = Box<dyn Fn(Access) -> bool>;

/// Memory plus the operation that runs on it.
pub struct Machine<C> {
    /// The memory.
    pub memory: Memory<C>,
    /// How accesses behave.
    pub mode: Mode,
    /// Selects omitted barriers.
    pub missing: Missing,
    log: Vec<u64>,
    at: usize,
    fresh: bool,
    last: Access,
}

/// Omits no barrier.
pub fn none_missing() -> Missing {
    Box::new(|_| false)
}

struct Paused;

impl<C: Cells> Machine<C> {
    /// Creates a machine without a running operation.
    pub fn new(memory: Memory<C>, mode: Mode, missing: Missing) -> Machine<C> {
        Machine { memory, mode, missing, log: vec![], at: 0, fresh: false, last: Access::Barrier }
    }

    /// Returns and clears the loads of the last operation.
    pub fn take_log(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.log)
    }

    /// Returns true if the access was made before: its value is then in the log.
    fn replayed(&mut self, access: Access) -> bool {
        let replayed = self.at < self.log.len();
        if !replayed {
            let pause = match self.mode {
                // Stores continue; a load or barrier after them belongs to the next step.
                Mode::Step(_) => self.fresh && !matches!(access, Access::Store(_)),
                Mode::Random { pause, .. } => self.at >= pause,
            };
            if pause {
                resume_unwind(Box::new(Paused));
            }
            self.fresh = true;
        }
        self.at += 1;
        self.last = access;
        replayed
    }

    /// Lets other agents' memory progress in between.
    fn elsewhere(&mut self, agents: usize) {
        let Mode::Random { prng, .. } = &mut self.mode else { return };
        while prng.chance(1, 4) {
            let agent = prng.below(agents as u64) as usize;
            let ready = self.memory.drainable(agent).count() as u64;
            if ready > 0 {
                let pick = prng.below(ready) as usize;
                let index = self.memory.drainable(agent).nth(pick).unwrap_or(0);
                self.memory.drain(agent, index);
            }
        }
    }

    fn load(&mut self, agent: usize, agents: usize, at: usize) -> u64 {
        if self.replayed(Access::Load(at)) {
            return self.log[self.at - 1];
        }
        self.elsewhere(agents);
        let choices = self.memory.choices(agent, at);
        let choice = match &mut self.mode {
            Mode::Step(choice) => *choice,
            // Half of the time, the newest value.
            Mode::Random { prng, .. } if choices > 1 => {
                prng.below(2 * choices as u64).saturating_sub(choices as u64) as usize
            }
            Mode::Random { .. } => 0,
        };
        let value = self.memory.load(agent, at, choice);
        self.log.push(value);
        value
    }

    fn store(&mut self, agent: usize, agents: usize, at: usize, value: u64) {
        if !self.replayed(Access::Store(at)) {
            self.elsewhere(agents);
            self.memory.store(agent, at, value);
            self.log.push(0);
        }
    }

    fn barrier(&mut self, agent: usize) {
        if (self.missing)(self.last) {
            return;
        }
        if !self.replayed(Access::Barrier) {
            self.memory.barrier(agent);
            self.log.push(0);
        }
    }
}

/// The machine, shared by all windows.
pub type Shared<C> = Rc<RefCell<Machine<C>>>;

/// A range of words, as one agent accesses it.
pub struct Window<C> {
    /// The machine.
    pub machine: Shared<C>,
    /// The accessing agent.
    pub agent: usize,
    /// Number of agents.
    pub agents: usize,
    /// Address of offset 0.
    pub base: usize,
}

impl<C> Clone for Window<C> {
    fn clone(&self) -> Self {
        Window { machine: self.machine.clone(), ..*self }
    }
}

impl<C> core::fmt::Debug for Window<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}@{:#x}", self.agent, self.base)
    }
}

impl<C: Cells> Words for Window<C> {
    fn load(&self, at: usize) -> u64 {
        self.machine.borrow_mut().load(self.agent, self.agents, self.base + at)
    }
    fn store(&self, at: usize, value: u64) {
        self.machine.borrow_mut().store(self.agent, self.agents, self.base + at, value);
    }
    fn barrier(&self) {
        self.machine.borrow_mut().barrier(self.agent);
    }
}

/// The result of running an operation.
#[derive(Debug)]
pub enum Outcome<T> {
    /// It ended.
    Done(T),
    /// It pauses before an access; run it again with this log.
    Paused(Vec<u64>),
}

/// Runs `operation` from its start, feeding it `log` first.
pub fn run<C: Cells, T>(
    machine: &Shared<C>,
    log: Vec<u64>,
    operation: impl FnOnce() -> T,
) -> Outcome<T> {
    {
        let mut machine = machine.borrow_mut();
        (machine.log, machine.at, machine.fresh, machine.last) = (log, 0, false, Access::Barrier);
    }
    let result = catch_unwind(AssertUnwindSafe(operation));
    match result {
        Ok(value) => Outcome::Done(value),
        Err(reason) if reason.is::<Paused>() => {
            Outcome::Paused(core::mem::take(&mut machine.borrow_mut().log))
        }
        Err(reason) => resume_unwind(reason),
    }
}
