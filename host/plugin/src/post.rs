//! The common part of seats with one core and with several: the place at the table, the model, the
//! guest's marks, and events that are due.

use crate::ffi::machine::Machine;
use crate::marks::Book;
use lab::marks::Mark;
use lab::model::{self, Lab};
use lab::page::{Count, Page};
use lab::seats;
use lab::turn::Table;
use lab::{NEVER, Ps};
use std::sync::atomic::{AtomicU64, Ordering};

/// Totals of a core's instructions and exceptions that the page already has.
#[derive(Debug, Default)]
pub struct Told([AtomicU64; 2]);

impl Told {
    /// The counts, in the order of the totals.
    pub const WHAT: [Count; 2] = [Count::Instructions, Count::Exceptions];

    /// Returns the increase since the last call.
    pub fn news(&self, totals: [u64; 2]) -> [u64; 2] {
        let more =
            |at: usize| totals[at].wrapping_sub(self.0[at].swap(totals[at], Ordering::Relaxed));
        [more(0), more(1)]
    }
}

/// The common part of a seat.
#[derive(Debug)]
pub struct Post {
    /// The seat's part of the model.
    pub model: model::Domain,
    /// The whole model.
    pub lab: Lab,
    /// The table.
    pub table: Table,
    marks: Book,
    /// Number and access of each of the seat's points.
    points: Vec<(usize, u64)>,
}

impl Post {
    /// Creates it, before any instruction runs.
    pub fn new(lab: &Lab, model: model::Domain, page: Page, marks: Book) -> Post {
        let table = Table::new(page, model.slot);
        if page.khz(model.slot) == 0 {
            page.set_khz(model.slot, model.khz);
        }
        let points = lab.points.iter().enumerate();
        let points = points.filter(|(_, point)| point.domain == model.name);
        let points = points.map(|(at, point)| (at, point.access)).collect();
        Post { model, lab: lab.clone(), table, marks, points }
    }

    /// Returns the shared page.
    pub fn page(&self) -> &Page {
        self.table.page()
    }

    /// Returns the seat's number.
    pub fn me(&self) -> usize {
        self.table.me()
    }

    /// Returns the points at this access of the seat to other domains.
    pub fn points(&self, access: u64) -> impl Iterator<Item = usize> {
        self.points.iter().filter(move |&&(_, at)| at == access).map(|&(point, _)| point)
    }

    /// The seat, which has the turn and the smallest time, has reached a point.
    pub fn reach(&self, point: usize) {
        self.page().reach(self.me(), self.lab.soc, point);
    }

    /// Returns when QEMU's next timer is due for a seat at time `now`, never before `now`.
    pub fn next_timer(&self, machine: &Machine, now: Ps) -> Ps {
        let due = |ahead| (now / 1000).saturating_add(ahead).saturating_mul(1000);
        machine.deadline_ns().map_or(NEVER, due)
    }

    /// Returns whether a timer or a doorbell is due at `now`.
    pub fn is_due(&self, machine: &Machine, now: Ps) -> bool {
        self.next_timer(machine, now) <= now || self.page().first_arrival(self.me()) <= now
    }

    /// Runs timers and delivers doorbells that are due at `now`; the big lock is held.
    pub fn hear(&self, machine: &Machine, now: Ps) {
        machine.run_timers();
        while let Some(vector) = self.page().take_arrival(self.me(), now) {
            machine.interrupt(vector);
        }
    }

    /// Returns how far the seat may run from `now`, at most by `most`. Clears the request for a
    /// turn, which has been served.
    pub fn horizon(&self, machine: &Machine, now: Ps, most: Ps) -> Ps {
        let (page, me) = (self.page(), self.me());
        page.want(me, false);
        let until = seats::horizon(&page.seats(), me, self.lab.quantum_ps, most);
        until.min(self.next_timer(machine, now)).min(page.first_arrival(me))
    }

    /// Returns the time of an idle seat's turn: that of its event or, if the turn was requested
    /// from outside, that of all seats.
    pub fn event(&self) -> Ps {
        let key = self.page().seat(self.me()).key();
        if key == NEVER { seats::now(&self.page().seats()) } else { key }
    }

    /// Returns when a doorbell rung at `now` arrives. `None`: QEMU does not have this vector, and
    /// ringing it would end the target's process.
    pub fn arrival(&self, vector: usize, now: Ps) -> Option<Ps> {
        let latency = self.model.costs.mailbox_ps;
        (vector < self.lab.vectors).then(|| now.saturating_add(latency))
    }

    /// Returns the requested frequency, if the power table has it.
    pub fn khz(&self, mhz: u64) -> Option<u32> {
        let khz = u32::try_from(mhz.saturating_mul(1000)).ok()?;
        self.model.point(khz).map(|_| khz)
    }

    /// Returns the units that an access to a word of the uncached window takes.
    pub fn cost(&self, at: u64, stores: bool) -> u64 {
        let model = &self.model;
        let within = |(from, to): (u64, u64)| (from..to).contains(&at);
        match stores {
            _ if !within(model.window) => 0,
            true => model.costs.store,
            false => model.costs.load,
        }
    }

    /// Records a mark that the guest executes at `now`.
    pub fn mark(&self, number: u8, now: Ps) -> Result<(), String> {
        self.marks.add(&Mark::now(self.page(), self.me(), number, now))
    }
}
