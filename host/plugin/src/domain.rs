//! The seat of a domain with one core: when it runs, idles, and receives doorbells.
//!
//! Two threads act for it, never at once: the virtual CPU's while the domain runs, the helper's
//! while it idles. The counter holds units of the clock, added before each block. At [`LIMIT`] the
//! next block reports to [`Domain::limit`], which commits the time that has passed, handles what is
//! due, and passes the turn if another seat is earlier. All of this happens at block boundaries.
//!
//! Locks: the helper takes QEMU's big lock while it has the turn. The virtual CPU takes it during
//! its turn, at a block's start, where it holds no lock. No thread that holds the big lock waits
//! for a turn, so the two cannot deadlock.

use crate::ffi::machine::{LIMIT, Machine, Thread};
use crate::post::{Post, Told};
use lab::Ps;
use lab::clock::Clock;
use lab::energy;
use lab::model;
use lab::page::{Count, Page, State};
use lab::seats::Phase;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The seat of a domain with one core.
#[derive(Debug)]
pub struct Domain {
    post: Post,
    /// The clock at the last commit, as words; written by the holder of the turn.
    time: AtomicU64,
    rest: AtomicU64,
    /// The counter at the last commit.
    start: AtomicU64,
    told: Told,
    /// The virtual CPU is in its turn, so if it waits, it waits on behalf of the guest.
    at_work: AtomicBool,
}

impl Domain {
    /// Creates the seat, before any instruction runs.
    pub fn new(post: Post) -> Domain {
        Domain {
            post,
            time: AtomicU64::new(0),
            rest: AtomicU64::new(0),
            start: AtomicU64::new(LIMIT),
            told: Told::default(),
            at_work: AtomicBool::new(false),
        }
    }

    /// Returns its part of the model.
    pub fn model(&self) -> &model::Domain {
        &self.post.model
    }

    fn page(&self) -> &Page {
        self.post.page()
    }

    fn me(&self) -> usize {
        self.post.me()
    }

    /// Returns the time of the last commit.
    fn time(&self) -> Ps {
        self.time.load(Ordering::Relaxed)
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

    /// Returns the time of the guest's clock, in ns.
    pub fn now_ns(&self, machine: &Machine, thread: Thread) -> u64 {
        match thread {
            Thread::Runner(_) => self.clock().after(self.spent(machine)) / 1000,
            Thread::Helper => self.time() / 1000,
            // No other thread may see time pass: timers run only in their owner's turn.
            Thread::Other => 0,
        }
    }

    /// Advances the seat's time by what has passed since the last commit.
    fn commit(&self, machine: &Machine) {
        let spent = self.spent(machine);
        self.start.store(machine.counter(0), Ordering::Relaxed);
        let mut clock = self.clock();
        clock.advance(spent);
        self.set_clock(clock);
        let (page, me) = (self.page(), self.me());
        let point = energy::point(page, &self.post.lab, self.model());
        page.account(me, State::Active(point), clock.time());
        page.count(me, Count::Units, spent);
        let news = self.told.news(machine.totals(0));
        Told::WHAT.into_iter().zip(news).for_each(|(what, more)| page.count(me, what, more));
    }

    /// Sets the counter so that the next block reports.
    fn stand(&self, machine: &Machine) {
        machine.set_counter(0, LIMIT);
        self.start.store(LIMIT, Ordering::Relaxed);
    }

    /// Makes the next block report, regardless of its grant; no time is lost.
    pub fn report_next(&self, machine: &Machine) {
        let spent = self.spent(machine);
        machine.set_counter(0, LIMIT);
        self.start.store(LIMIT - spent, Ordering::Relaxed);
    }

    /// Called at the start of a block when the counter has reached its limit, or the block accesses
    /// memory between domains.
    pub fn limit(&self, machine: &Machine) {
        let in_turn = self.at_work.load(Ordering::Relaxed) && self.post.table.mine();
        if !in_turn && !self.come(machine) {
            return;
        }
        self.commit(machine);
        loop {
            if self.post.is_due(machine, self.time()) {
                machine.locked(|| self.post.hear(machine, self.time()));
            }
            if self.post.table.pass() {
                return self.allow(machine);
            }
            if !self.come(machine) {
                return;
            }
        }
    }

    /// Waits for the turn and adopts the time that the seat has then. Returns false if the domain
    /// was switched off meanwhile; it is then let run so that QEMU can stop it.
    fn come(&self, machine: &Machine) -> bool {
        let (page, me) = (self.page(), self.me());
        let gone = || page.seat(me).phase == Phase::Absent;
        self.stand(machine);
        self.at_work.store(false, Ordering::Relaxed);
        if !self.post.table.wait(Phase::Running, gone) {
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
        let until = self.post.horizon(machine, self.time(), self.post.lab.most_ps.max(1));
        let units = self.clock().units_until(until).clamp(1, LIMIT);
        machine.set_counter(0, LIMIT - units);
        self.start.store(LIMIT - units, Ordering::Relaxed);
    }

    /// Called before a block that accesses memory between domains: it runs only when no seat is
    /// earlier. At a point, only after the soc has carried that out.
    pub fn sync(&self, machine: &Machine) {
        self.page().count(self.me(), Count::Syncs, 1);
        let access = self.page().counted(self.me(), Count::Syncs);
        self.limit(machine);
        for point in self.post.points(access).filter(|_| self.post.table.mine()) {
            self.post.reach(point);
            self.limit(machine);
        }
    }

    /// The virtual CPU waits for an interrupt; the big lock is held.
    pub fn idle(&self, machine: &Machine) {
        let (page, me) = (self.page(), self.me());
        // Before its first block, and while QEMU is stopped, it waits for reasons of QEMU's own.
        if !self.at_work.swap(false, Ordering::Relaxed) || !self.post.table.mine() {
            return;
        }
        self.commit(machine);
        self.stand(machine);
        page.set_wake(me, self.post.next_timer(machine, self.time()));
        page.set_phase(me, Phase::Idle);
        if self.post.table.pass() {
            self.post.table.signal_own();
        }
    }

    /// The helper's loop: acts for the domain while it idles.
    pub fn help(&self, machine: &Machine) {
        loop {
            self.post.table.wait(Phase::Idle, || false);
            machine.locked(|| self.idle_turn(machine));
        }
    }

    /// Takes the turn of an idle domain: its next event is due, or a turn was requested from
    /// outside.
    fn idle_turn(&self, machine: &Machine) {
        let (page, me) = (self.page(), self.me());
        if !self.post.table.mine() || page.seat(me).phase != Phase::Idle {
            return;
        }
        let now = self.post.event();
        page.want(me, false);
        let mut clock = self.clock();
        clock.advance_to(now);
        self.set_clock(clock);
        page.account(me, energy::waiting(page, &self.post.lab, self.model()), clock.time());
        self.post.hear(machine, self.time());
        if machine.has_work(0) {
            if page.gates(me) {
                clock.advance_to(now.saturating_add(self.model().costs.wake_gated_ps));
                self.set_clock(clock);
            }
            page.set_phase(me, Phase::Running);
            return self.post.table.signal_own();
        }
        page.set_wake(me, self.post.next_timer(machine, self.time()));
        if self.post.table.pass() {
            self.post.table.signal_own();
        }
    }

    /// The guest rings `vector` of `slot`.
    pub fn ring(&self, machine: &Machine, slot: usize, vector: usize) {
        let now = self.clock().after(self.spent(machine));
        let Some(due) = self.post.arrival(vector, now) else { return };
        self.page().ring(slot, vector, due);
        self.page().count(self.me(), Count::Rings, 1);
        self.report_next(machine);
    }

    /// The guest accesses a word of the uncached window. Returns the units that this takes.
    pub fn touched(&self, machine: &Machine, at: u64, stored: Option<u64>) -> u64 {
        let cost = self.post.cost(at, stored.is_some());
        machine.set_counter(0, machine.counter(0).wrapping_add(cost));
        match stored {
            Some(mhz) if at == self.model().frequency => self.change_frequency(machine, mhz),
            Some(gates) if at == self.model().gate => self.page().set_gates(self.me(), gates != 0),
            _ => {}
        }
        cost
    }

    /// The guest executes a mark, with `rest` units of its block still to come.
    pub fn mark(&self, machine: &Machine, number: u8, rest: u64) -> Result<(), String> {
        let all = machine.counter(0);
        machine.set_counter(0, all.wrapping_sub(rest));
        self.commit(machine);
        machine.set_counter(0, all);
        self.post.mark(number, self.time())
    }

    /// Changes the frequency at the time of the store; one that the power table does not have is
    /// ignored.
    fn change_frequency(&self, machine: &Machine, mhz: u64) {
        let Some(khz) = self.post.khz(mhz).filter(|_| self.post.table.mine()) else { return };
        self.commit(machine);
        let mut clock = self.clock();
        energy::settle(self.page(), &self.post.lab, self.model(), clock.time());
        clock.set_khz(khz);
        self.page().set_khz(self.me(), khz);
        self.set_clock(clock);
        self.page().count(self.me(), Count::Frequencies, 1);
        self.report_next(machine);
    }
}
