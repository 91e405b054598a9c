//! The seat of a domain with one core: when it runs, idles, and hears doorbells.
//!
//! Two threads act for it, never both: the virtual CPU's while the domain runs, the helper's while
//! it idles. The counter holds units of the clock, added before each block; at [`LIMIT`] the next
//! block reports to [`Domain::limit`], which commits what has passed, hears what is due, and passes
//! the turn when another is behind. All of it happens at block boundaries.
//!
//! Locks: the helper takes QEMU's big lock with the turn in hand, and the virtual CPU takes it
//! during its turn, at a block's start, where it holds nothing. Nobody who holds the big lock waits
//! for a turn, so neither waits for the other.

use crate::ffi::{Machine, Thread};
use crate::marks::Book;
use lab::clock::Clock;
use lab::energy;
use lab::marks::Mark;
use lab::model::{self, Lab};
use lab::page::{Count, Page, State};
use lab::seats::{self, Phase};
use lab::turn::Table;
use lab::{NEVER, Ps};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where the counter makes a block report.
pub const LIMIT: u64 = 1 << 62;

/// Units that an access to a word of the uncached window takes.
pub fn cost_of(model: &model::Domain, at: u64, stores: bool) -> u64 {
    let within = |(from, to): (u64, u64)| (from..to).contains(&at);
    match stores {
        _ if within(model.spinlocks) => model.costs.spinlock,
        _ if !within(model.window) => 0,
        true => model.costs.store,
        false => model.costs.load,
    }
}

/// A domain at the table.
#[derive(Debug)]
pub struct Domain {
    /// Its part of the model.
    pub model: model::Domain,
    lab: Lab,
    table: Table,
    quantum: Ps,
    most: Ps,
    soc: usize,
    soc_mailbox: Ps,
    /// The clock at the last commit, as words: whoever holds the turn writes them.
    time: AtomicU64,
    rest: AtomicU64,
    /// The counter at the last commit.
    start: AtomicU64,
    /// Instructions told to the page.
    told: AtomicU64,
    /// The virtual CPU is in its turn: it waits, if it does, for the guest's sake.
    at_work: AtomicBool,
    marks: Book,
}

impl Domain {
    /// Before anything ran.
    pub fn new(lab: &Lab, model: model::Domain, page: Page, marks: Book) -> Domain {
        let table = Table::new(page, model.slot);
        if page.khz(model.slot) == 0 {
            page.set_khz(model.slot, model.khz);
        }
        Domain {
            lab: lab.clone(),
            table,
            quantum: lab.quantum_ps,
            most: lab.most_ps.max(1),
            soc: lab.soc,
            soc_mailbox: model.costs.mailbox_ps,
            time: AtomicU64::new(0),
            rest: AtomicU64::new(0),
            start: AtomicU64::new(LIMIT),
            told: AtomicU64::new(0),
            at_work: AtomicBool::new(false),
            marks,
            model,
        }
    }

    fn page(&self) -> &Page {
        self.table.page()
    }

    fn me(&self) -> usize {
        self.table.me()
    }

    fn clock(&self) -> Clock {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Clock::resume(load(&self.time), load(&self.rest), self.page().khz(self.me()))
    }

    fn set_clock(&self, clock: Clock) {
        self.time.store(clock.time(), Ordering::Relaxed);
        self.rest.store(clock.rest(), Ordering::Relaxed);
        self.page().set_time(self.me(), clock.time());
    }

    fn spent(&self, machine: &Machine) -> u64 {
        machine.counter(0).wrapping_sub(self.start.load(Ordering::Relaxed))
    }

    /// What the guest's clock says, in ns.
    pub fn now_ns(&self, machine: &Machine, thread: Thread) -> u64 {
        match thread {
            Thread::Runner(_) => self.clock().after(self.spent(machine)) / 1000,
            Thread::Helper => self.time.load(Ordering::Relaxed) / 1000,
            // Nobody else may see time pass: timers run in their owner's turn only.
            Thread::Other => 0,
        }
    }

    fn point(&self) -> usize {
        energy::point(self.page(), &self.lab, &self.model)
    }

    /// What has passed since the last commit becomes the seat's time.
    fn commit(&self, machine: &Machine) {
        let spent = self.spent(machine);
        self.start.store(machine.counter(0), Ordering::Relaxed);
        let mut clock = self.clock();
        clock.advance(spent);
        self.set_clock(clock);
        let (page, me) = (self.page(), self.me());
        page.account(me, State::Active(self.point()), clock.time());
        page.count(me, Count::Units, spent);
        let instructions = machine.instructions(0);
        let told = self.told.swap(instructions, Ordering::Relaxed);
        page.count(me, Count::Instructions, instructions.wrapping_sub(told));
    }

    /// The counter stands so that the next block reports.
    fn stand(&self, machine: &Machine) {
        machine.set_counter(0, LIMIT);
        self.start.store(LIMIT, Ordering::Relaxed);
    }

    /// The block that follows reports, whatever it was allowed; nothing that has passed is lost.
    pub fn report_next(&self, machine: &Machine) {
        let spent = self.spent(machine);
        machine.set_counter(0, LIMIT);
        self.start.store(LIMIT - spent, Ordering::Relaxed);
    }

    /// When its own next timer is due, never before now.
    fn next_timer(&self, machine: &Machine) -> Ps {
        machine.deadline_ns().map_or(NEVER, |ahead| {
            let now = self.time.load(Ordering::Relaxed) / 1000;
            now.saturating_add(ahead).saturating_mul(1000)
        })
    }

    /// Runs timers and delivers doorbells that are due; the big lock is held.
    fn hear(&self, machine: &Machine) {
        machine.run_timers();
        let now = self.time.load(Ordering::Relaxed);
        while let Some(vector) = self.page().take_arrival(self.me(), now) {
            machine.interrupt(vector);
        }
    }

    fn is_due(&self, machine: &Machine) -> bool {
        let now = self.time.load(Ordering::Relaxed);
        self.next_timer(machine) <= now || self.page().first_arrival(self.me()) <= now
    }

    /// A block's start, and the counter has reached its limit, or the block reaches across domains.
    pub fn limit(&self, machine: &Machine) {
        let in_turn = self.at_work.load(Ordering::Relaxed) && self.table.mine();
        if !in_turn && !self.come(machine) {
            return;
        }
        self.commit(machine);
        loop {
            if self.is_due(machine) {
                machine.locked(|| self.hear(machine));
            }
            if self.table.pass() {
                return self.allow(machine);
            }
            if !self.come(machine) {
                return;
            }
        }
    }

    /// Waits for the turn and takes up the time that the seat has then. False: the domain was
    /// switched off meanwhile, and is let go so that QEMU can stop it.
    fn come(&self, machine: &Machine) -> bool {
        let (page, me) = (self.page(), self.me());
        let gone = || page.seat(me).phase == Phase::Absent;
        self.stand(machine);
        self.at_work.store(false, Ordering::Relaxed);
        if !self.table.wait(Phase::Running, gone) {
            return false;
        }
        self.at_work.store(true, Ordering::Relaxed);
        let mut clock = self.clock();
        clock.advance_to(page.seat(me).time);
        self.set_clock(clock);
        true
    }

    /// Lets it run to its horizon.
    fn allow(&self, machine: &Machine) {
        let (page, me) = (self.page(), self.me());
        page.want(me, false);
        let seats = page.seats();
        let until = seats::horizon(&seats, me, self.quantum, self.most);
        let until = until.min(self.next_timer(machine)).min(page.first_arrival(me));
        let units = self.clock().units_until(until).clamp(1, LIMIT);
        machine.set_counter(0, LIMIT - units);
        self.start.store(LIMIT - units, Ordering::Relaxed);
    }

    /// A block that reaches across domains: it runs only when nobody is behind.
    pub fn sync(&self, machine: &Machine) {
        self.page().count(self.me(), Count::Syncs, 1);
        self.limit(machine);
    }

    /// The virtual CPU waits for an interrupt; the big lock is held.
    pub fn idle(&self, machine: &Machine) {
        let (page, me) = (self.page(), self.me());
        // Before its first block, and while QEMU is stopped, it waits for QEMU's own sake.
        if !self.at_work.swap(false, Ordering::Relaxed) || !self.table.mine() {
            return;
        }
        self.commit(machine);
        self.stand(machine);
        page.set_wake(me, self.next_timer(machine));
        page.set_phase(me, Phase::Idle);
        if self.table.pass() {
            self.table.signal_own();
        }
    }

    /// The helper's life: acts for the domain while it idles.
    pub fn help(&self, machine: &Machine) {
        loop {
            self.table.wait(Phase::Idle, || false);
            machine.locked(|| self.idle_turn(machine));
        }
    }

    /// An idle domain's turn: its next event is due, or somebody wants to look.
    fn idle_turn(&self, machine: &Machine) {
        let (page, me) = (self.page(), self.me());
        let seat = page.seat(me);
        if !self.table.mine() || seat.phase != Phase::Idle {
            return;
        }
        let key = seat.key();
        let now = if key == NEVER { seats::now(&page.seats()) } else { key };
        page.want(me, false);
        let mut clock = self.clock();
        clock.advance_to(now);
        self.set_clock(clock);
        page.account(me, energy::waiting(page, &self.lab, &self.model), clock.time());
        self.hear(machine);
        if machine.has_work(0) {
            if page.gates(me) {
                clock.advance_to(now.saturating_add(self.model.costs.wake_gated_ps));
                self.set_clock(clock);
            }
            page.set_phase(me, Phase::Running);
            return self.table.signal_own();
        }
        page.set_wake(me, self.next_timer(machine));
        if self.table.pass() {
            self.table.signal_own();
        }
    }

    /// The guest rings `vector` of `slot`.
    pub fn ring(&self, machine: &Machine, slot: usize, vector: usize) {
        // QEMU ends the process of who is rung by a vector that it does not have.
        if vector >= self.lab.vectors {
            return;
        }
        let now = self.clock().after(self.spent(machine));
        let latency = if slot == self.soc { self.soc_mailbox } else { self.model.costs.mailbox_ps };
        self.page().ring(slot, vector, now.saturating_add(latency));
        self.page().count(self.me(), Count::Rings, 1);
        self.report_next(machine);
    }

    /// The guest touches a word of the uncached window.
    pub fn touched(&self, machine: &Machine, at: u64, stored: Option<u64>) {
        let model = &self.model;
        let cost = cost_of(model, at, stored.is_some());
        machine.set_counter(0, machine.counter(0).wrapping_add(cost));
        match stored {
            Some(mhz) if at == model.frequency => self.change_frequency(machine, mhz),
            Some(gates) if at == model.gate => self.page().set_gates(self.me(), gates != 0),
            _ => {}
        }
    }

    /// The guest makes a mark, with `rest` units of its block still to come.
    pub fn mark(&self, machine: &Machine, number: u8, rest: u64) -> Result<(), String> {
        let all = machine.counter(0);
        machine.set_counter(0, all.wrapping_sub(rest));
        self.commit(machine);
        machine.set_counter(0, all);
        let now = self.time.load(Ordering::Relaxed);
        self.marks.add(&Mark::now(self.page(), self.me(), number, now))
    }

    /// Acts at the instant of the store; a frequency that the table does not have is ignored.
    fn change_frequency(&self, machine: &Machine, mhz: u64) {
        let khz = u32::try_from(mhz.saturating_mul(1000)).unwrap_or(0);
        if self.model.point(khz).is_none() || !self.table.mine() {
            return;
        }
        self.commit(machine);
        let mut clock = self.clock();
        energy::settle(self.page(), &self.lab, &self.model, clock.time());
        clock.set_khz(khz);
        self.page().set_khz(self.me(), khz);
        self.set_clock(clock);
        self.page().count(self.me(), Count::Frequencies, 1);
        self.report_next(machine);
    }
}
