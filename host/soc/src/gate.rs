//! When the soc may act. On an ordinary board always, and time is the host's. In the lab the soc is
//! a domain in the order of turns: its threads act inside of *visits*, and time is the board's.
//!
//! The gatekeeper thread takes the soc's turns. In each turn it sets the soc's time, rings those of
//! the soc's own doorbells that have arrived, opens the gate, and passes the turn on when every
//! rung thread has settled and no visitor is left. A thread with work from outside (a key typed, a
//! QEMU that ended) requests a turn by visiting. Visits are serialized.
//!
//! No visitor waits for a QEMU whose next step needs the turn; if a QEMU dies with the turn, the
//! soc takes it back.

use crate::config::{Config, REQUEST_KICK};
use lab::energy;
use lab::model::{Domain, Lab, PAGE};
use lab::page::Page;
use lab::points::CrashPoint;
use lab::seats::{self, Phase};
use lab::turn::Table;
use lab::{NEVER, Ps};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Why the lab of a board cannot start.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Its model is invalid.
    #[error(transparent)]
    Model(#[from] lab::model::ModelError),
    /// Its shared page cannot be opened.
    #[error(transparent)]
    Page(#[from] lab::page::PageError),
    /// The gatekeeper thread cannot be started.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// The soc's access to time. Clones share it.
#[derive(Clone, Debug)]
pub struct Gate {
    start: Instant,
    lab: Option<Arc<Inner>>,
}

#[derive(Debug)]
struct Inner {
    lab: Lab,
    page: Page,
    table: Table,
    state: Mutex<Door>,
    moved: Condvar,
    /// The QEMU process of each seat.
    processes: Mutex<BTreeMap<usize, OwnedFd>>,
}

#[derive(Debug, Default)]
struct Door {
    open: bool,
    inside: bool,
    waiting: usize,
    /// Own doorbells that were rung and whose threads have not settled, one bit per vector.
    unsettled: u64,
    /// Seats whose QEMU was reset and not continued since.
    reset: u64,
    ended: bool,
    /// A domain has had power: the board's time has begun.
    begun: bool,
    /// The board's time has stopped; no alarm comes any more.
    frozen: bool,
    /// When threads that serve own doorbells must run next, by vector.
    alarms: BTreeMap<usize, Ps>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// Creates a gate that is always open, on the host's time.
    pub fn open(start: Instant) -> Gate {
        Gate { start, lab: None }
    }

    /// Creates the gate of a board: in the lab if its configuration says so.
    pub fn of(config: &Config, folder: &Path, start: Instant) -> Result<Gate, GateError> {
        if !config.lab {
            return Ok(Gate::open(start));
        }
        let lab = Lab::read(folder)?;
        let page = Page::create(&folder.join(PAGE))?;
        let table = Table::new(page, lab.soc);
        page.set_phase(lab.soc, Phase::Idle);
        let (state, moved) = (Mutex::default(), Condvar::new());
        let processes = Mutex::default();
        let inner = Arc::new(Inner { lab, page, table, state, moved, processes });
        Ok(Gate { start, lab: Some(inner) })
    }

    /// Starts the gatekeeper. `own` rings one of the soc's doorbells; it returns false if no thread
    /// serves that one.
    pub fn start(&self, own: impl Fn(usize) -> bool + Send + 'static) -> Result<(), GateError> {
        if let Some(inner) = self.lab.clone() {
            let keeper = std::thread::Builder::new().name("lab".into());
            keeper.spawn(move || inner.keep(&own))?;
        }
        Ok(())
    }

    /// Returns the nanoseconds since the board's start.
    pub fn now(&self) -> u64 {
        match &self.lab {
            Some(lab) => lab.now() / 1000,
            None => self.start.elapsed().as_nanos() as u64,
        }
    }

    /// Runs `f` when the soc may act.
    pub fn visit<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.lab {
            Some(lab) => lab.visit(f),
            None => f(),
        }
    }

    /// Announces that own doorbell `vector` is about to be rung from inside a visit; its server
    /// settles.
    pub fn expect(&self, vector: usize) {
        if let Some(lab) = &self.lab {
            lock(&lab.state).unsettled |= 1 << (vector % 64);
        }
    }

    /// In the lab, sets or clears the time (ns) at which own doorbell `vector` rings. Returns false
    /// outside the lab.
    pub fn alarm(&self, vector: usize, at: Option<u64>) -> bool {
        let Some(lab) = &self.lab else { return false };
        let mut door = lock(&lab.state);
        match at.filter(|_| !door.frozen) {
            Some(at) => door.alarms.insert(vector, at.saturating_mul(1000)),
            None => door.alarms.remove(&vector),
        };
        true
    }

    /// Called by the thread that serves own doorbell `vector` when it has done all work.
    pub fn settled(&self, vector: usize) {
        if let Some(lab) = &self.lab {
            lock(&lab.state).unsettled &= !(1 << (vector % 64));
            lab.moved.notify_all();
        }
    }

    /// Rings a doorbell by the lab's rules. Returns false outside the lab.
    pub fn ring(&self, slot: usize, vector: usize) -> bool {
        let Some(lab) = &self.lab else { return false };
        let latency = lab.domain(slot).map_or(0, |domain| domain.costs.mailbox_ps);
        lab.page.ring(slot, vector, lab.now().saturating_add(latency));
        true
    }

    /// Returns whether this is the lab.
    pub fn is_lab(&self) -> bool {
        self.lab.is_some()
    }

    /// Returns the energy that `slot` has used so far, in nJ; `None` if it is not measured.
    pub fn energy_nj(&self, slot: usize) -> Option<u64> {
        let lab = self.lab.as_ref()?;
        let domain = lab.domain(slot)?;
        if !lab.lab.mode.tells_energy() {
            return None;
        }
        let pj = energy::until_pj(&lab.page, &lab.lab, domain, lab.now());
        Some(u64::try_from(pj / 1000).unwrap_or(u64::MAX))
    }

    /// Takes the points that domains have reached, which wait there; the caller carries them out.
    pub fn take_points(&self) -> Vec<CrashPoint> {
        let Some(Inner { lab, page, .. }) = self.lab.as_deref() else { return Vec::new() };
        let reached = lab.domains.iter().filter_map(|domain| page.take_point(domain.slot));
        reached.filter_map(|point| lab.points.get(point).cloned()).collect()
    }

    /// Sets the process of the QEMU in `slot`.
    pub fn process(&self, slot: usize, process: Option<OwnedFd>) {
        if let (Some(lab), Some(process)) = (&self.lab, process) {
            lock(&lab.processes).insert(slot, process);
        }
    }

    /// A domain gets power: its QEMU is about to be started, or to continue after a reset.
    pub fn boots(&self, slot: usize) {
        if let Some(lab) = &self.lab {
            lab.boots(slot);
        }
    }

    /// Its QEMU has ended or was reset: the other seats do not wait for it.
    pub fn leaves(&self, slot: usize, reset: bool) {
        let Some(lab) = &self.lab else { return };
        lab.account(slot);
        lab.page.set_phase(slot, Phase::Absent);
        lab.page.want(slot, false);
        let mut door = lock(&lab.state);
        door.reset = door.reset & !(1 << slot) | u64::from(reset) << slot;
    }

    /// Its clock stops.
    pub fn stops(&self, slot: usize) {
        if let Some(lab) = &self.lab {
            lab.stops(slot);
        }
    }

    /// Its clock continues. Returns false if it was reset and its QEMU must be continued.
    pub fn continues(&self, slot: usize) -> bool {
        let Some(lab) = &self.lab else { return false };
        if lock(&lab.state).reset >> slot & 1 != 0 {
            lab.boots(slot);
            return false;
        }
        lab.continues(slot);
        true
    }

    /// Stops the board's time: every seat's energy is accounted for, and the seat becomes empty.
    pub fn freeze(&self) {
        let slots = self.lab.iter().flat_map(|lab| lab.lab.domains.iter().map(|d| d.slot));
        slots.for_each(|slot| self.leaves(slot, false));
        if let Some(lab) = &self.lab {
            let mut door = lock(&lab.state);
            door.frozen = true;
            door.alarms.clear();
        }
    }

    /// The board ends: all waits end.
    pub fn end(&self) {
        if let Some(lab) = &self.lab {
            lock(&lab.state).ended = true;
            lab.moved.notify_all();
        }
    }
}

impl Inner {
    fn domain(&self, slot: usize) -> Option<&Domain> {
        self.lab.domain(slot)
    }

    fn now(&self) -> Ps {
        self.page.seat(self.lab.soc).time
    }

    fn visit<R>(&self, f: impl FnOnce() -> R) -> R {
        let mut door = lock(&self.state);
        door.waiting += 1;
        if !door.open {
            self.table.want();
        }
        while (door.inside || !door.open) && !door.ended {
            door = self.moved.wait(door).unwrap_or_else(PoisonError::into_inner);
        }
        door.waiting -= 1;
        door.inside = true;
        drop(door);
        let result = f();
        lock(&self.state).inside = false;
        self.moved.notify_all();
        result
    }

    /// The gatekeeper's loop.
    fn keep(&self, ring: &impl Fn(usize) -> bool) {
        let ended = || lock(&self.state).ended;
        while self.table.wait(Phase::Idle, || self.bury() || ended()) {
            self.turn(ring);
            while self.table.pass() {
                self.turn(ring);
            }
        }
    }

    /// Takes one turn of the soc.
    fn turn(&self, ring: &impl Fn(usize) -> bool) {
        let (page, soc) = (&self.page, self.lab.soc);
        page.want(soc, false);
        page.set_time(soc, self.present().max(self.now()));
        let now = self.now();
        let mut door = lock(&self.state);
        let arrived = std::iter::from_fn(|| page.take_arrival(soc, now));
        let due = door.alarms.extract_if(.., |_, at| *at <= now).map(|(vector, _)| vector);
        let reached = self.lab.domains.iter().any(|domain| page.waits_at_point(domain.slot));
        let points = reached.then_some(usize::from(REQUEST_KICK));
        for vector in arrived.chain(due).chain(points).collect::<Vec<_>>() {
            // The thread that serves it settles under the lock that is held here.
            if ring(vector) {
                door.unsettled |= 1 << (vector % 64);
            }
        }
        door.open = true;
        self.moved.notify_all();
        while (door.inside || door.waiting > 0 || door.unsettled != 0) && !door.ended {
            door = self.moved.wait(door).unwrap_or_else(PoisonError::into_inner);
        }
        door.open = false;
        // Before a domain has power, the first alarm would be the board's next event.
        let next = door.alarms.values().copied().min().filter(|_| door.begun);
        page.set_wake(soc, next.unwrap_or(NEVER));
    }

    /// Returns the soc's current time: that of its own event or, for a visitor, that of all seats.
    fn present(&self) -> Ps {
        let seats = self.page.seats();
        let own = seats[self.lab.soc].key();
        let all = seats::now(&seats);
        if own == NEVER { all } else { own.min(all) }
    }

    /// Takes the turn from a dead process. Always returns false: the wait continues.
    fn bury(&self) -> bool {
        for (&slot, process) in lock(&self.processes).iter() {
            let mut ended = [PollFd::new(process, PollFlags::IN)];
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut ended, Some(&none)) == Ok(1)
                && self.page.take_from(slot as u64, self.lab.soc as u64)
            {
                self.account(slot);
                self.page.set_phase(slot, Phase::Absent);
            }
        }
        false
    }

    /// Accounts for a seat's energy until now, before its state and so its voltage changes.
    fn account(&self, slot: usize) {
        if let Some(domain) = self.domain(slot) {
            energy::account(&self.page, &self.lab, domain, self.now());
            energy::settle(&self.page, &self.lab, domain, self.now());
        }
    }

    fn wake(&self, slot: usize, latency: impl Fn(&Domain) -> Ps, phase: Phase) {
        self.account(slot);
        let latency = self.domain(slot).map_or(0, latency);
        let time = self.page.seat(slot).time.max(self.now().saturating_add(latency));
        self.page.set_time(slot, time);
        self.page.set_phase(slot, phase);
    }

    fn boots(&self, slot: usize) {
        self.page.forget_doorbells(slot);
        self.page.live(slot);
        self.page.set_wake(slot, NEVER);
        self.account(slot);
        self.page.set_khz(slot, self.domain(slot).map_or(0, |domain| domain.khz));
        self.page.set_gates(slot, false);
        // Time starts with the first power-on.
        let first = self.now() == 0;
        self.wake(slot, |d| if first { 0 } else { d.costs.wake_off_ps }, Phase::Running);
        let mut door = lock(&self.state);
        door.reset &= !(1 << slot);
        door.begun = true;
    }

    fn stops(&self, slot: usize) {
        self.account(slot);
        let phase = self.page.seat(slot).phase;
        self.page.set_stopped(slot, phase);
        self.page.set_phase(slot, Phase::Stopped);
    }

    fn continues(&self, slot: usize) {
        let phase = self.page.stopped(slot);
        self.wake(slot, |domain| domain.costs.wake_inactive_ps, phase);
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
