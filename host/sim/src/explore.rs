//! One step of an operation on a state, for model checkers: the kernels' code, access by access.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::machine::{Access, Machine, Mode, Outcome, Shared, Window, run};
use crate::memory::Memory;

/// Sparse memory, so that states are small.
pub type Sparse = Memory<BTreeMap<usize, u64>>;

/// Windows onto a machine, by agent and base address.
#[derive(Clone)]
pub struct Windows {
    machine: Shared<BTreeMap<usize, u64>>,
    agent: usize,
    agents: usize,
}

impl Windows {
    /// The words from `base` on, as the stepping agent reaches them.
    pub fn at(&self, base: usize) -> Window<BTreeMap<usize, u64>> {
        let Windows { machine, agent, agents } = self.clone();
        Window { machine, agent, agents, base }
    }
}

/// A step's end.
#[derive(Debug)]
pub enum Step<T> {
    /// The operation ended, having made these loads (other accesses count as 0).
    Done(T, Vec<u64>),
    /// It goes on with the next step.
    Paused(Vec<u64>),
}

/// Who steps, in what kind of world.
#[derive(Clone, Copy, Debug)]
pub struct Stepper {
    /// The agent.
    pub agent: usize,
    /// How many there are.
    pub agents: usize,
    /// Barriers left out, named by the access before them.
    pub missing: fn(Access) -> bool,
}

/// No barrier is left out.
pub fn none(_: Access) -> bool {
    false
}

/// Runs `operation` of an agent up to the access behind its next load or barrier, which takes
/// choice
/// `choice` of [`Memory::choices`]; stores in between stay in the agent's buffer. The operation
/// must work on copies: it starts over each time.
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

/// Runs all of `operation` at once and makes its stores visible: no weak memory, for models of
/// what lies above it.
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
