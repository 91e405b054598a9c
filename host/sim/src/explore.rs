//! One step of an operation on a state, for model checkers: the kernels' code, one access at a
//! time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::machine::{Access, Machine, Mode, Outcome, Shared, Window, run};
use crate::memory::Memory;

/// Sparse memory, which keeps states small.
pub type Sparse = Memory<BTreeMap<usize, u64>>;

/// Creates windows onto a machine, by agent and base address.
#[derive(Clone)]
pub struct Windows {
    machine: Shared<BTreeMap<usize, u64>>,
    agent: usize,
    agents: usize,
}

impl Windows {
    /// Returns the words from `base` on, as the stepping agent accesses them.
    pub fn at(&self, base: usize) -> Window<BTreeMap<usize, u64>> {
        let Windows { machine, agent, agents } = self.clone();
        Window { machine, agent, agents, base }
    }
}

/// The end of a step.
#[derive(Debug)]
pub enum Step<T> {
    /// The operation ended, after these loads (other accesses count as 0).
    Done(T, Vec<u64>),
    /// It continues in the next step.
    Paused(Vec<u64>),
}

/// The agent that steps, and its environment.
#[derive(Clone, Copy, Debug)]
pub struct Stepper {
    /// The agent.
    pub agent: usize,
    /// Number of agents.
    pub agents: usize,
    /// Selects omitted barriers by the access before them.
    pub missing: fn(Access) -> bool,
}

/// Omits no barrier.
pub fn none(_: Access) -> bool {
    false
}

/// Runs an agent's `operation` through the access after its next load or barrier. That access takes
/// choice `choice` of [`Memory::choices`]; stores in between stay in the agent's buffer. The
/// operation must work on copies, because each step starts it from the beginning.
pub fn step<T>(
    memory: &mut Sparse,
    stepper: Stepper,
    log: Vec<u64>,
    choice: usize,
    operation: impl FnOnce(&Windows) -> T,
) -> Step<T> {
    let taken = core::mem::replace(memory, Memory::new(BTreeMap::new(), 0, false));
    let Stepper { agent, agents, missing } = stepper;
    let machine = Machine::new(taken, Mode::Step(choice), Box::new(missing));
    let machine = Rc::new(RefCell::new(machine));
    let windows = Windows { machine: machine.clone(), agent, agents };
    let outcome = run(&machine, log, || operation(&windows));
    let mut machine = machine.borrow_mut();
    *memory = core::mem::replace(&mut machine.memory, Memory::new(BTreeMap::new(), 0, false));
    match outcome {
        Outcome::Done(value) => Step::Done(value, machine.take_log()),
        Outcome::Paused(log) => Step::Paused(log),
    }
}

/// Runs all of `operation` at once and makes its stores visible: no weak memory, for models of the
/// layers above it.
pub fn whole<T>(
    memory: &mut Sparse,
    (agent, agents): (usize, usize),
    operation: impl Fn(&Windows) -> T,
) -> T {
    let mut log = vec![];
    let stepper = Stepper { agent, agents, missing: none };
    loop {
        match step(memory, stepper, log, 0, &operation) {
            Step::Done(value, _) => {
                memory.barrier(agent);
                return value;
            }
            Step::Paused(longer) => log = longer,
        }
    }
}
