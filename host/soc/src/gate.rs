//! When the soc may act. On an ordinary board always, and time is the host's. In the lab the soc is
//! a domain in the order of turns: its threads act inside of *visits*, and time is the board's.
//!
//! The gatekeeper thread takes the soc's turns. In each it sets the soc's time, rings those of our
//! own doorbells that have arrived, opens the gate, and passes the turn on when every rung thread
//! has settled and no visitor is left. A thread that has work from outside (a key typed, a QEMU
//! that ended) asks for a turn by visiting. Visits are one at a time.
//!
//! No visitor waits for a QEMU whose next step needs the turn; a QEMU that dies with the turn loses
//! it to us.

use crate::config::Config;
use lab::energy;
use lab::model::{Domain, Lab, PAGE};
use lab::page::Page;
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
    /// Its model.
    #[error(transparent)]
    Model(#[from] lab::model::ModelError),
    /// Its page.
    #[error(transparent)]
    Page(#[from] lab::page::PageError),
    /// The gatekeeper.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// The soc's side of time. Clones share it.
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
    /// The processes behind seats.
    processes: Mutex<BTreeMap<usize, OwnedFd>>,
}

#[derive(Debug, Default)]
struct Door {
    open: bool,
    inside: bool,
    waiting: usize,
    /// Own doorbells that were rung and not settled yet, one bit a vector.
    unsettled: u64,
    /// Seats whose QEMU was reset and not let go again.
    reset: u64,
    ended: bool,
    /// When threads that serve own doorbells want to look again, by vector.
    alarms: BTreeMap<usize, Ps>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// Time is the host's.
    pub fn open(start: Instant) -> Gate {
        Gate { start, lab: None }
    }

    /// The gate of a board: in the lab if its folder says so.
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

    /// Starts the gatekeeper, which rings `own` doorbells by vector; false: nobody serves that one.
    pub fn start(&self, own: impl Fn(usize) -> bool + Send + 'static) -> Result<(), GateError> {
        if let Some(inner) = self.lab.clone() {
            let keeper = std::thread::Builder::new().name("lab".into());
            keeper.spawn(move || inner.keep(&own))?;
        }
        Ok(())
    }

    /// Nanoseconds since the board's start.
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

    /// Our own doorbell `vector` is about to be rung from inside of a visit: its server settles.
    pub fn expect(&self, vector: usize) {
        if let Some(lab) = &self.lab {
            lock(&lab.state).unsettled |= 1 << (vector % 64);
        }
    }

    /// In the lab: our own doorbell `vector` rings at `at` ns, or no longer. False: no lab.
    pub fn alarm(&self, vector: usize, at: Option<u64>) -> bool {
        let Some(lab) = &self.lab else { return false };
        let mut door = lock(&lab.state);
        match at {
            Some(at) => door.alarms.insert(vector, at.saturating_mul(1000)),
            None => door.alarms.remove(&vector),
        };
        true
    }

    /// Whoever serves our own doorbell `vector` has done all that it was rung for.
    pub fn settled(&self, vector: usize) {
        if let Some(lab) = &self.lab {
            lock(&lab.state).unsettled &= !(1 << (vector % 64));
            lab.moved.notify_all();
        }
    }

    /// Rings in the lab's way; false: there is no lab.
    pub fn ring(&self, slot: usize, vector: usize) -> bool {
        let Some(lab) = &self.lab else { return false };
        let latency = lab.domain(slot).map_or(0, |domain| domain.costs.mailbox_ps);
        lab.page.ring(slot, vector, lab.now().saturating_add(latency));
        true
    }

    /// Is this the lab?
    pub fn is_lab(&self) -> bool {
        self.lab.is_some()
    }

    /// What `slot` has used up to now, in nJ; `None`: nobody measures that here.
    pub fn energy_nj(&self, slot: usize) -> Option<u64> {
        let lab = self.lab.as_ref()?;
        let domain = lab.domain(slot)?;
        if !lab.lab.mode.tells_energy() {
            return None;
        }
        let pj = energy::until_pj(&lab.page, &lab.lab, domain, lab.now());
        Some(u64::try_from(pj / 1000).unwrap_or(u64::MAX))
    }

    /// The QEMU of `slot` is `process`.
    pub fn process(&self, slot: usize, process: Option<OwnedFd>) {
        if let (Some(lab), Some(process)) = (&self.lab, process) {
            lock(&lab.processes).insert(slot, process);
        }
    }

    /// A domain gets power: its QEMU is about to be started or let go after a reset.
    pub fn boots(&self, slot: usize) {
        if let Some(lab) = &self.lab {
            lab.boots(slot);
        }
    }

    /// Its QEMU is gone, or is reset: nobody waits for it.
    pub fn leaves(&self, slot: usize, reset: bool) {
        let Some(lab) = &self.lab else { return };
        lab.account(slot);
        lab.page.set_phase(slot, Phase::Absent);
        lab.page.want(slot, false);
        let mut door = lock(&lab.state);
        door.reset = door.reset & !(1 << slot) | u64::from(reset) << slot;
    }

    /// Its clock stands.
    pub fn stops(&self, slot: usize) {
        if let Some(lab) = &self.lab {
            lab.stops(slot);
        }
    }

    /// Its clock goes on. False: it was reset, and its QEMU has to be let go.
    pub fn continues(&self, slot: usize) -> bool {
        let Some(lab) = &self.lab else { return false };
        if lock(&lab.state).reset >> slot & 1 != 0 {
            lab.boots(slot);
            return false;
        }
        lab.continues(slot);
        true
    }

    /// The board's time ends here: every seat is accounted for and empty.
    pub fn freeze(&self) {
        let slots = self.lab.iter().flat_map(|lab| lab.lab.domains.iter().map(|d| d.slot));
        slots.for_each(|slot| self.leaves(slot, false));
    }

    /// The board ends: nobody waits any more.
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

    /// The gatekeeper's life.
    fn keep(&self, ring: &impl Fn(usize) -> bool) {
        let ended = || lock(&self.state).ended;
        while self.table.wait(Phase::Idle, || self.bury() || ended()) {
            self.turn(ring);
            while self.table.pass() {
                self.turn(ring);
            }
        }
    }

    /// One turn of the soc.
    fn turn(&self, ring: &impl Fn(usize) -> bool) {
        let (page, soc) = (&self.page, self.lab.soc);
        page.want(soc, false);
        page.set_time(soc, self.present().max(self.now()));
        let now = self.now();
        let mut door = lock(&self.state);
        let arrived = std::iter::from_fn(|| page.take_arrival(soc, now));
        let due = door.alarms.extract_if(.., |_, at| *at <= now).map(|(vector, _)| vector);
        for vector in arrived.chain(due).collect::<Vec<_>>() {
            // Who serves it settles under the lock that we hold.
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
        page.set_wake(soc, door.alarms.values().copied().min().unwrap_or(NEVER));
    }

    /// How late it is for the soc: its own event, or, for a visitor, as late as for everybody.
    fn present(&self) -> Ps {
        let seats = self.page.seats();
        let own = seats[self.lab.soc].key();
        let all = seats::now(&seats);
        if own == NEVER { all } else { own.min(all) }
    }

    /// Takes the turn from a dead process. Always false: there is no reason to stop waiting.
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

    /// What the seat did until now is accounted for, before its state and so its voltage changes.
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
        // The first power-on is where time starts.
        let first = self.now() == 0;
        self.wake(slot, |d| if first { 0 } else { d.costs.wake_off_ps }, Phase::Running);
        lock(&self.state).reset &= !(1 << slot);
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
