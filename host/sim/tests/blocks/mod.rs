//! The model of `model_blocks`: kernels, the chip that kills and boots them, and the properties.

use std::collections::BTreeMap;

use abi::memory::BlockPage;
use base::id::{DomainId, Epoch};
use base::port::Words;
use kernel_mem::blocks::{Blocks, ClaimError, Kind, Lives, Recovered, State as Block};
use kernel_mem::transfer::{Step, Transfer};
use sim::explore::{Sparse, Step as Stepped, Stepper, Windows, step, whole};
use sim::machine::Access;
use sim::memory::Memory;
use stateright::{Model, Property};

/// One floor word per domain; the block table is below.
pub const FLOORS: usize = 8 * size_of::<BlockPage>();

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// Released before it is unmapped.
    ReleaseFirst,
    /// Not cleaned.
    Dirty,
    /// All kernels count as dead.
    NoLives,
    /// No recovery.
    NoRecovery,
    /// The chip reports a death before the fence.
    LateFence,
}

/// The explored system.
pub struct Board {
    pub kernels: usize,
    pub blocks: usize,
    /// Number of transfers that a kernel may begin.
    pub rounds: u8,
    pub deaths: u8,
    /// Whether claims and recoveries hold the lock between domains.
    pub locked: bool,
    /// Whether blocks may also be claimed for the DSM.
    pub shared: bool,
    /// Whether loads may be early.
    pub early: bool,
    pub missing: fn(Access) -> bool,
    pub bug: Bug,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Claim(usize, Kind),
    Release(usize),
    Recover(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Done {
    Claimed(Result<(), ClaimError>),
    Released(bool),
    Recovered(Recovered),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    alive: bool,
    epoch: u16,
    rounds: u8,
    /// Blocks to check since a death, one bit each.
    look: u8,
    /// The blocks that it believes to own, and those for the DSM.
    owned: u8,
    keeps: u8,
    mapped: u8,
    dirty: u8,
    transfer: Option<(usize, Kind, Transfer)>,
    doing: Option<(Op, Vec<u64>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    memory: Sparse,
    kernels: Vec<Kernel>,
    lock: Option<usize>,
    deaths: u8,
    /// Blocks that survivors may share: retained once, and not released since.
    shared: u8,
    /// A claim or a recovery was undone because of a concurrent one.
    contended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Begin(usize, usize, Kind),
    Look(usize),
    Go(usize, usize),
    Fail(usize),
    Drain(usize, usize),
    Kill(usize),
    Boot(usize),
}

struct Chip<W>(W, Bug);

impl<W: Words> Lives for Chip<W> {
    fn floor(&self, domain: DomainId) -> u32 {
        match self.1 {
            Bug::NoLives => 1000,
            _ => self.0.load(FLOORS + 8 * domain.index()) as u32,
        }
    }
}

impl Board {
    fn table<W: Words>(&self, words: W, kernel: usize, epoch: u16) -> Blocks<W> {
        Blocks::new(words, DomainId(kernel as u8), Epoch(epoch), self.kernels, self.blocks)
    }

    fn run(&self, state: &State, kernel: usize, op: Op, windows: &Windows) -> Done {
        let table = self.table(windows.at(0), kernel, state.kernels[kernel].epoch);
        match op {
            Op::Claim(block, kind) => Done::Claimed(table.claim(block, kind)),
            Op::Release(block) => Done::Released(table.release(block).is_ok()),
            Op::Recover(block) => {
                Done::Recovered(table.recover(block, &Chip(windows.at(0), self.bug)))
            }
        }
    }

    /// Returns the next table operation of a kernel's transfer; `None` if the step is local.
    fn wants(&self, block: usize, kind: Kind, step: Step) -> Option<Op> {
        match step {
            Step::Claim => Some(Op::Claim(block, kind)),
            Step::Unmap if self.bug == Bug::ReleaseFirst => Some(Op::Release(block)),
            Step::Release if self.bug != Bug::ReleaseFirst => Some(Op::Release(block)),
            _ => None,
        }
    }

    /// Does a step that other kernels cannot see.
    fn act(&self, kernel: &mut Kernel, block: usize, kind: Kind, step: Step) {
        let bit = 1 << block;
        match step {
            Step::Map if kind == Kind::Local => {
                kernel.mapped |= bit;
                kernel.dirty |= bit;
            }
            Step::Clean if self.bug != Bug::Dirty => kernel.dirty &= !bit,
            Step::Unmap | Step::Release => kernel.mapped &= !bit,
            _ => {}
        }
    }

    fn ended(&self, state: &mut State, who: usize, op: Op, done: Done) {
        let kernel = &mut state.kernels[who];
        let mut worked = true;
        match (op, done) {
            (Op::Claim(block, kind), Done::Claimed(Ok(()))) => {
                kernel.owned |= 1 << block;
                if kind == Kind::Coherent {
                    kernel.keeps |= 1 << block;
                    state.shared |= 1 << block;
                }
            }
            (_, Done::Claimed(Err(why))) => {
                worked = false;
                state.contended |= why == ClaimError::Contended;
            }
            (Op::Release(block), Done::Released(true)) => {
                kernel.owned &= !(1 << block);
                kernel.keeps &= !(1 << block);
            }
            (_, Done::Released(_)) => worked = false,
            (Op::Recover(block), Done::Recovered(found)) => {
                if found == Recovered::Adopted {
                    kernel.owned |= 1 << block;
                    kernel.keeps |= 1 << block;
                }
                if found == Recovered::Contended {
                    state.contended = true;
                    kernel.look |= 1 << block;
                }
                return;
            }
            _ => {}
        }
        self.advance(&mut state.kernels[who], worked);
    }

    fn advance(&self, kernel: &mut Kernel, worked: bool) {
        let Some((block, kind, transfer)) = kernel.transfer.take() else { return };
        kernel.transfer = transfer.then(worked).ok().map(|next| (block, kind, next));
        // Local steps happen at once.
        let Some((block, kind, transfer)) = kernel.transfer else { return };
        if transfer.step() != Step::Map && self.wants(block, kind, transfer.step()).is_none() {
            self.act(kernel, block, kind, transfer.step());
            self.advance(kernel, true);
        }
    }

    fn kill(&self, state: &mut State, who: usize) {
        let kernel = &mut state.kernels[who];
        let floor = u64::from(kernel.epoch) + 1;
        let Kernel { epoch, rounds, .. } = *kernel;
        *kernel = Kernel { alive: false, ..Kernel::new(epoch, rounds) };
        if self.bug != Bug::LateFence {
            state.memory.kill(who);
        }
        if state.lock == Some(who) {
            state.lock = None;
        }
        state.memory.store(self.kernels, FLOORS + 8 * who, floor);
        state.memory.barrier(self.kernels);
        state.deaths -= 1;
        let all = ((1u16 << self.blocks) - 1) as u8;
        for kernel in state.kernels.iter_mut().filter(|kernel| kernel.alive) {
            kernel.look = all;
        }
    }

    fn go(&self, state: &mut State, who: usize, choice: usize) {
        let (op, log) = match state.kernels[who].doing.take() {
            Some(doing) => doing,
            None => {
                let (block, kind, transfer) = state.kernels[who].transfer.expect("it has one");
                let Some(op) = self.wants(block, kind, transfer.step()) else {
                    let kernel = &mut state.kernels[who];
                    self.act(kernel, block, kind, transfer.step());
                    return self.advance(kernel, true);
                };
                self.lock(state, who, op);
                if let Op::Release(block) = op {
                    state.shared &= !(1 << block);
                }
                (op, vec![])
            }
        };
        let agents = self.kernels + 1;
        let stepper = Stepper { agent: who, agents, missing: self.missing };
        let mut memory = state.memory.clone();
        let run = |windows: &Windows| self.run(state, who, op, windows);
        match step(&mut memory, stepper, log, choice, run) {
            Stepped::Paused(log) => state.kernels[who].doing = Some((op, log)),
            Stepped::Done(done, _) => {
                self.ended(state, who, op, done);
                if state.lock == Some(who) {
                    // Releasing the lock publishes what was done under it.
                    memory.barrier(who);
                    state.lock = None;
                }
            }
        }
        state.memory = memory;
    }

    fn lock(&self, state: &mut State, who: usize, op: Op) {
        if self.locked && !matches!(op, Op::Release(_)) {
            state.lock = Some(who);
            // As with a lock between domains, loads come after the lock was taken.
            state.memory.barrier(who);
        }
    }

    fn may_begin(&self, state: &State, op: Option<Op>) -> bool {
        let needs = self.locked && matches!(op, Some(Op::Claim(..) | Op::Recover(_)));
        !needs || state.lock.is_none()
    }

    fn begins(&self, kernel: &Kernel, who: usize, actions: &mut Vec<Action>) {
        if kernel.rounds == 0 {
            return;
        }
        for block in 0..self.blocks {
            actions.push(Action::Begin(who, block, Kind::Local));
            if self.shared && kernel.owned & (1 << block) == 0 {
                actions.push(Action::Begin(who, block, Kind::Coherent));
            }
        }
    }

    fn acts_of(&self, state: &State, who: usize, actions: &mut Vec<Action>) {
        let kernel = &state.kernels[who];
        if !kernel.alive {
            actions.push(Action::Boot(who));
            return;
        }
        if state.deaths > 0 {
            actions.push(Action::Kill(who));
        }
        if kernel.doing.is_some() {
            // The number of values that the next load may return depends on its address.
            let choices = if self.early { 3 } else { 1 };
            actions.extend((0..choices).map(|choice| Action::Go(who, choice)));
        } else if let Some((block, kind, transfer)) = kernel.transfer {
            if self.may_begin(state, self.wants(block, kind, transfer.step())) {
                actions.push(Action::Go(who, 0));
            }
            if transfer.step() == Step::Map {
                actions.push(Action::Fail(who));
            }
        } else {
            let looks = kernel.look != 0 && self.bug != Bug::NoRecovery;
            if looks && self.may_begin(state, Some(Op::Recover(0))) {
                actions.push(Action::Look(who));
            }
            self.begins(kernel, who, actions);
        }
    }

    /// Returns whether no live kernel is inside an operation and all know of all deaths.
    fn is_at_rest(&self, state: &State) -> bool {
        let looks = |kernel: &Kernel| kernel.look != 0 && self.bug != Bug::NoRecovery;
        let still = |k: &Kernel| k.doing.is_none() && k.transfer.is_none() && !looks(k);
        state.kernels.iter().all(still)
            && state.kernels.iter().any(|kernel| kernel.alive)
            && (0..self.kernels).all(|agent| state.memory.buffered(agent) == 0)
    }

    fn books_balance(&self, state: &State) -> bool {
        let cells = Cells(&state.memory.cells);
        (0..self.blocks).all(|block| {
            let bit = 1 << block;
            let owners = (0..self.kernels).filter(|&k| state.kernels[k].owned & bit != 0);
            let owners: Vec<usize> = owners.collect();
            let kept = state.shared & bit != 0;
            // Any kernel's view: at rest all see the same.
            let table = self.table(&cells, 0, state.kernels[0].epoch);
            match table.state(block, &Chip(&cells, Bug::None)) {
                Block::Free => owners.is_empty() && !kept,
                Block::Held(who, kind) => {
                    owners == [who.index()] && (kind == Kind::Coherent || !kept)
                }
                _ => false,
            }
        })
    }
}

struct Cells<'a>(&'a BTreeMap<usize, u64>);

impl Words for Cells<'_> {
    fn load(&self, at: usize) -> u64 {
        self.0.get(&at).copied().unwrap_or(0)
    }
    fn store(&self, _: usize, _: u64) {}
    fn barrier(&self) {}
}

impl Kernel {
    fn new(epoch: u16, rounds: u8) -> Kernel {
        let (look, owned, keeps, mapped, dirty) = (0, 0, 0, 0, 0);
        let (transfer, doing) = (None, None);
        let alive = true;
        Kernel { alive, epoch, rounds, look, owned, keeps, mapped, dirty, transfer, doing }
    }
}

impl Model for Board {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut memory: Sparse = Memory::new(BTreeMap::new(), self.kernels + 1, self.early);
        whole(&mut memory, (0, self.kernels + 1), |_| ());
        let kernels = vec![Kernel::new(1, self.rounds); self.kernels];
        let (lock, deaths, shared, contended) = (None, self.deaths, 0, false);
        vec![State { memory, kernels, lock, deaths, shared, contended }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for who in 0..self.kernels {
            self.acts_of(state, who, actions);
            actions.extend(state.memory.drainable(who).map(|index| Action::Drain(who, index)));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = state.clone();
        match action {
            Action::Begin(who, block, kind) => {
                let kernel = &mut state.kernels[who];
                let has = kernel.owned & (1 << block) != 0;
                let kept = kernel.keeps & (1 << block) != 0;
                let transfer = if has { Transfer::give() } else { Transfer::take() };
                let kind = if kept { Kind::Coherent } else { kind };
                kernel.rounds -= 1;
                kernel.transfer = Some((block, kind, transfer));
            }
            Action::Look(who) => {
                let block = state.kernels[who].look.trailing_zeros() as usize;
                // A kernel that learns of another death meanwhile checks again.
                state.kernels[who].look &= !(1 << block);
                let op = Op::Recover(block);
                self.lock(&mut state, who, op);
                state.kernels[who].doing = Some((op, vec![]));
                self.go(&mut state, who, 0);
            }
            Action::Go(who, choice) => self.go(&mut state, who, choice),
            Action::Fail(who) => self.advance(&mut state.kernels[who], false),
            Action::Drain(who, index) => state.memory.drain(who, index),
            Action::Kill(who) => self.kill(&mut state, who),
            Action::Boot(who) => {
                let kernel = &mut state.kernels[who];
                let all = ((1u16 << self.blocks) - 1) as u8;
                *kernel = Kernel { look: all, ..Kernel::new(kernel.epoch + 1, kernel.rounds) };
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONCE, |_, state: &State| {
                let mut seen = 0;
                state.kernels.iter().all(|kernel| {
                    let twice = seen & kernel.mapped != 0;
                    seen |= kernel.mapped;
                    !twice
                })
            }),
            Property::always(CLEAN, |_, state: &State| {
                state.kernels.iter().all(|kernel| kernel.dirty & !kernel.owned == 0)
            }),
            Property::always(BOOKS, |board: &Board, state: &State| {
                !board.is_at_rest(state) || board.books_balance(state)
            }),
            Property::always(PROGRESS, |board: &Board, state: &State| {
                !(board.locked && state.contended)
            }),
            Property::always("nothing gets stuck", |board: &Board, state: &State| {
                let mut actions = vec![];
                board.actions(state, &mut actions);
                !actions.is_empty() || board.is_at_rest(state)
            }),
            Property::sometimes("a block is used after its owner's death", |board, s: &State| {
                board.deaths == 0
                    || s.deaths < board.deaths
                        && s.kernels.iter().any(|k| k.mapped != 0 && k.look == 0)
            }),
        ]
    }
}

pub const ONCE: &str = "no block is cacheable in two kernels";
pub const CLEAN: &str = "no dirty line remains";
pub const BOOKS: &str = "at rest each block is free or one living kernel's, which knows it";
pub const PROGRESS: &str = "under the lock every claim and every recovery succeeds";
