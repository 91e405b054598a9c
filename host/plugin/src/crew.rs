//! The seat of a domain with several cores. Each core has its own clock; the seat's time is that of
//! the slowest core. Not exact: QEMU runs the cores concurrently, on threads of the host.
//!
//! The seat has the turn while any of its cores runs. A core whose counter reaches [`LIMIT`]
//! *parks* at the start of its block. When all cores are parked or idle, one of the parked cores
//! leads (`roll`): it accounts for all, handles timers and doorbells, passes the turn if another
//! seat is earlier, and lets all cores continue. When all are idle, the helper leads.
//!
//! No wait in a block is unbounded. QEMU's exclusive sections (a TLB flush, an atomic step, a
//! reset) wait until every core has left its block. So after a while a parked core runs one block,
//! regardless of the turn, and parks again. Its changes of the page (rings, counts, frequencies)
//! are kept until the next lead, because only the holder of the turn writes there.
//!
//! Locks: QEMU's big lock is taken before `state`, never after it; a thread that waits for the turn
//! holds neither.

use crate::ffi::machine::{LIMIT, Machine, Thread};
use crate::post::{Post, Told};
use crate::roll::{At, Grant, Roll};
use lab::Ps;
use lab::clock::Clock;
use lab::energy;
use lab::model;
use lab::page::{Count, Page, State};
use lab::seats::Phase;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a core stays parked while other cores run: QEMU may need it to leave its block.
const PATIENCE: Duration = Duration::from_micros(300);
/// The same while a core leads; then only an exclusive section can be waiting.
const LED: Duration = Duration::from_millis(100);
/// Time between two looks of the helper.
const LOOK: Duration = Duration::from_millis(10);
/// Number of a leader's looks at the table, of 50 ms each.
const LOOKS: u32 = 20;
/// How far the seat runs before its cores meet again, at most: a core that another one wakes, or a
/// timer that is set meanwhile, is noticed only then.
const MEET: Ps = 5_000_000;

/// A seat with several cores.
#[derive(Debug)]
pub struct Crew {
    post: Post,
    cores: Vec<Core>,
    /// The seat's time, written by the leader.
    now: AtomicU64,
    state: Mutex<Shared>,
    /// Parked cores wait here.
    parked: Condvar,
    /// The helper waits here.
    resting: Condvar,
}

/// A core's clock at its last commit. Only its own thread reads it.
#[derive(Debug, Default)]
struct Core {
    time: AtomicU64,
    rest: AtomicU64,
    khz: AtomicU32,
    /// The counter at that commit.
    start: AtomicU64,
    told: Told,
}

#[derive(Debug)]
struct Shared {
    roll: Roll,
    /// Counts to be added to the page.
    counts: [(Count, u64); 5],
    rings: Vec<(usize, usize, Ps)>,
    khz: Option<u32>,
}

const UNITS: usize = 0;
const INSTRUCTIONS: usize = 1;
const SYNCS: usize = 2;
const RINGS: usize = 3;
const EXCEPTIONS: usize = 4;

/// How a lead ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// The cores allowed to continue do so, or a running core will lead next.
    Over,
    /// The turn did not come.
    Gone,
}

impl Core {
    fn clock(&self) -> Clock {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Clock::resume(load(&self.time), load(&self.rest), self.khz.load(Ordering::Relaxed))
    }

    fn set(&self, clock: Clock) {
        self.time.store(clock.time(), Ordering::Relaxed);
        self.rest.store(clock.rest(), Ordering::Relaxed);
        self.khz.store(clock.khz(), Ordering::Relaxed);
    }
}

impl Crew {
    /// Creates the seat, before any core runs.
    pub fn new(post: Post) -> Crew {
        let (cores, khz) = (post.model.cores(), post.model.khz);
        let core = || Core { khz: khz.into(), start: LIMIT.into(), ..Core::default() };
        let counts =
            [Count::Units, Count::Instructions, Count::Syncs, Count::Rings, Count::Exceptions];
        let shared = Shared {
            roll: Roll::new(cores as usize),
            counts: counts.map(|what| (what, 0)),
            rings: Vec::new(),
            khz: None,
        };
        Crew {
            post,
            cores: (0..cores).map(|_| core()).collect(),
            now: AtomicU64::new(0),
            state: Mutex::new(shared),
            parked: Condvar::new(),
            resting: Condvar::new(),
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

    /// Returns the seat's time.
    fn now(&self) -> Ps {
        self.now.load(Ordering::Relaxed)
    }

    fn phase(&self) -> Phase {
        self.page().seat(self.me()).phase
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spent(&self, machine: &Machine, core: usize) -> u64 {
        machine.counter(core).wrapping_sub(self.cores[core].start.load(Ordering::Relaxed))
    }

    /// Returns the current time of a core's clock; called in its own thread.
    fn time(&self, machine: &Machine, core: usize) -> Ps {
        self.cores[core].clock().after(self.spent(machine, core))
    }

    /// Returns the time of the guest's clock, in ns.
    pub fn now_ns(&self, machine: &Machine, thread: Thread) -> u64 {
        match thread {
            Thread::Runner(core) => self.time(machine, core) / 1000,
            Thread::Helper => self.now() / 1000,
            Thread::Other => 0,
        }
    }

    /// Advances a core's time by what has passed since its last commit. Its next block reports.
    fn commit(&self, machine: &Machine, core: usize) -> (Ps, MutexGuard<'_, Shared>) {
        let own = &self.cores[core];
        let spent = self.spent(machine, core);
        let mut clock = own.clock();
        clock.advance(spent);
        own.set(clock);
        machine.set_counter(core, LIMIT);
        own.start.store(LIMIT, Ordering::Relaxed);
        let [instructions, exceptions] = own.told.news(machine.totals(core));
        let mut shared = self.lock();
        shared.counts[UNITS].1 += spent;
        shared.counts[INSTRUCTIONS].1 += instructions;
        shared.counts[EXCEPTIONS].1 += exceptions;
        (clock.time(), shared)
    }

    /// Makes a core's next block report, regardless of its grant; no time is lost.
    pub fn report_next(&self, machine: &Machine, core: usize) {
        let spent = self.spent(machine, core);
        machine.set_counter(core, LIMIT);
        self.cores[core].start.store(LIMIT - spent, Ordering::Relaxed);
    }

    /// Called at the start of a block when the core's counter has reached its limit, or the block
    /// accesses memory between domains (`sync`). Returns when the core may run, or has been parked
    /// for long enough.
    pub fn park(&self, machine: &Machine, core: usize, sync: bool) {
        let (time, mut shared) = self.commit(machine, core);
        shared.counts[SYNCS].1 += u64::from(sync);
        shared.roll.park(core, time, sync);
        if self.phase() == Phase::Idle {
            // QEMU continued the core without an event of the seat: the helper must announce that
            // the seat runs.
            self.post.table.want();
        }
        loop {
            if let Some(grant) = shared.roll.take_grant(core) {
                drop(shared);
                return self.go(machine, core, grant);
            }
            if shared.roll.core_may_lead(self.phase()) {
                shared.roll.set_leading(true);
                drop(shared);
                let lead = machine.as_seat(|| self.lead(machine));
                shared = self.lock();
                if lead == Lead::Gone {
                    return self.overrun(core, shared);
                }
                continue;
            }
            let most = if shared.roll.is_led() { LED } else { PATIENCE };
            let waited = self.parked.wait_timeout(shared, most);
            let timeout;
            (shared, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() && shared.roll.at(core) == At::Parked {
                return self.overrun(core, shared);
            }
        }
    }

    /// Lets a core run one block, regardless of the turn.
    fn overrun(&self, core: usize, mut shared: MutexGuard<'_, Shared>) {
        let own = &self.cores[core];
        let mut clock = own.clock();
        clock.advance_to(shared.roll.overrun(core));
        own.set(clock);
    }

    /// Lets a core run to its horizon.
    fn go(&self, machine: &Machine, core: usize, grant: Grant) {
        let own = &self.cores[core];
        let mut clock = own.clock();
        clock.advance_to(grant.from);
        clock.set_khz(self.page().khz(self.me()));
        own.set(clock);
        let units = clock.units_until(grant.until).clamp(1, LIMIT);
        machine.set_counter(core, LIMIT - units);
        own.start.store(LIMIT - units, Ordering::Relaxed);
    }

    /// A core waits for an interrupt, is off, or is stopped; the big lock is held.
    pub fn idle(&self, machine: &Machine, core: usize) {
        let (time, mut shared) = self.commit(machine, core);
        shared.roll.idle(core, time);
        let phase = self.phase();
        if shared.roll.helper_may_lead(phase) {
            self.resting.notify_one();
        } else if shared.roll.core_may_lead(phase) {
            self.parked.notify_all();
        }
    }

    /// Leads, in a parked core's thread.
    fn lead(&self, machine: &Machine) -> Lead {
        loop {
            let mut looks = 0;
            let gone = || {
                looks += 1;
                looks >= LOOKS || !matches!(self.phase(), Phase::Running | Phase::Stopped)
            };
            if !self.post.table.wait(Phase::Running, gone) {
                self.lock().roll.set_leading(false);
                return if self.phase() == Phase::Idle { Lead::Over } else { Lead::Gone };
            }
            if !self.take_stock() || self.hears(machine) && machine.locked(|| self.hear(machine)) {
                return self.end();
            }
            if self.post.table.pass() {
                return self.grant(machine);
            }
        }
    }

    /// Ends a lead after which no core may continue.
    fn end(&self) -> Lead {
        self.lock().roll.set_leading(false);
        Lead::Over
    }

    fn grant(&self, machine: &Machine) -> Lead {
        let most = self.post.lab.most_ps.clamp(1, MEET);
        let until = self.post.horizon(machine, self.now(), most);
        let mut shared = self.lock();
        if shared.roll.gathered() {
            shared.roll.grant(self.now(), until);
            self.parked.notify_all();
        } else {
            shared.roll.set_leading(false);
        }
        Lead::Over
    }

    /// Updates the page; the seat has the turn. Returns false if a core is running after all.
    fn take_stock(&self) -> bool {
        let (page, me) = (self.page(), self.me());
        let mut shared = self.lock();
        if !shared.roll.gathered() {
            return false;
        }
        shared.roll.live(page.lives(me));
        let now = shared.roll.settle(page.seat(me).time, page.accounted(me));
        let (active, waiting) = shared.roll.take_spent();
        let point = energy::point(page, &self.post.lab, self.model());
        page.spend(me, State::Active(point), active);
        page.spend(me, energy::waiting(page, &self.post.lab, self.model()), waiting);
        page.set_accounted(me, now);
        page.set_time(me, now);
        self.now.store(now, Ordering::Relaxed);
        for (what, more) in &mut shared.counts {
            page.count(me, *what, std::mem::take(more));
        }
        for (slot, vector, time) in shared.rings.drain(..) {
            page.ring(slot, vector, time);
        }
        if let Some(khz) = shared.khz.take() {
            energy::settle(page, &self.post.lab, self.model(), now);
            page.set_khz(me, khz);
            page.count(me, Count::Frequencies, 1);
        }
        true
    }

    fn idle_cores(&self) -> Vec<usize> {
        let shared = self.lock();
        (0..self.cores.len()).filter(|&core| shared.roll.at(core) == At::Idle).collect()
    }

    /// Returns whether [`Self::hear`] has work. Called without the big lock, so a core that is just
    /// being woken may be noticed only at the next lead.
    fn hears(&self, machine: &Machine) -> bool {
        self.post.is_due(machine, self.now())
            || self.idle_cores().iter().any(|&core| machine.has_work(core))
    }

    /// Runs timers, delivers doorbells, and summons the idle cores that then have work. The big
    /// lock is held, so none of them goes back to sleep meanwhile. Returns whether any was
    /// summoned.
    fn hear(&self, machine: &Machine) -> bool {
        self.post.hear(machine, self.now());
        let work: Vec<usize> =
            self.idle_cores().into_iter().filter(|&core| machine.has_work(core)).collect();
        let mut shared = self.lock();
        work.iter().for_each(|&core| shared.roll.summon(core));
        !shared.roll.gathered()
    }

    /// The helper's loop: leads while all cores wait.
    pub fn help(&self, machine: &Machine) {
        let mut shared = self.lock();
        loop {
            let phase = self.phase();
            if shared.roll.helper_may_lead(phase) {
                shared.roll.set_leading(true);
                drop(shared);
                // At most one look: a core may be back by then.
                if self.post.table.wait(phase, || true) {
                    machine.locked(|| self.idle_turn(machine, phase));
                }
                shared = self.lock();
                shared.roll.set_leading(false);
                self.parked.notify_all();
                continue;
            }
            let waited = self.resting.wait_timeout(shared, LOOK);
            let timeout;
            (shared, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                drop(shared);
                self.nudge(machine);
                shared = self.lock();
            }
        }
    }

    /// Kicks a core that was summoned long ago, because QEMU can lose a wake-up.
    fn nudge(&self, machine: &Machine) {
        let is_late = |core| self.lock().roll.at(core) == At::Summoned;
        let late: Vec<usize> = (0..self.cores.len()).filter(|&core| is_late(core)).collect();
        if !late.is_empty() {
            machine.locked(|| late.iter().for_each(|&core| machine.kick(core)));
        }
    }

    /// Takes a turn while all cores wait: the seat goes to sleep, or its next event is due, or a
    /// turn was requested from outside. The big lock is held.
    fn idle_turn(&self, machine: &Machine, phase: Phase) {
        let (page, me) = (self.page(), self.me());
        if !self.post.table.mine() || self.phase() != phase {
            return;
        }
        if phase == Phase::Idle {
            page.set_time(me, self.post.event());
        }
        page.want(me, false);
        if !self.take_stock() {
            return;
        }
        self.hear(machine);
        let shared = self.lock();
        if !shared.roll.rests() {
            if phase == Phase::Idle && page.gates(me) {
                let latency = self.model().costs.wake_gated_ps;
                page.set_time(me, self.now().saturating_add(latency));
            }
            return page.set_phase(me, Phase::Running);
        }
        page.set_wake(me, self.post.next_timer(machine, self.now()));
        page.set_phase(me, Phase::Idle);
        self.post.table.pass();
    }

    /// The guest rings `vector` of `slot`; the big lock is held.
    pub fn ring(&self, machine: &Machine, core: usize, slot: usize, vector: usize) {
        let now = self.time(machine, core);
        let Some(due) = self.post.arrival(vector, now) else { return };
        let mut shared = self.lock();
        shared.rings.push((slot, vector, due));
        shared.counts[RINGS].1 += 1;
        drop(shared);
        self.report_next(machine, core);
    }

    /// The guest accesses a word of the uncached window. Returns the units that this takes.
    pub fn touched(&self, machine: &Machine, core: usize, at: u64, stored: Option<u64>) -> u64 {
        let cost = self.post.cost(at, stored.is_some());
        machine.set_counter(core, machine.counter(core).wrapping_add(cost));
        match stored {
            Some(mhz) if at == self.model().frequency => {
                if let Some(khz) = self.post.khz(mhz) {
                    self.lock().khz = Some(khz);
                    self.report_next(machine, core);
                }
            }
            Some(gates) if at == self.model().gate => self.page().set_gates(self.me(), gates != 0),
            _ => {}
        }
        cost
    }

    /// The guest executes a mark, with `rest` units of its block still to come.
    pub fn mark(
        &self,
        machine: &Machine,
        core: usize,
        number: u8,
        rest: u64,
    ) -> Result<(), String> {
        let spent = self.spent(machine, core).wrapping_sub(rest);
        let now = self.cores[core].clock().after(spent);
        self.post.mark(number, now)
    }
}
