//! When a core must reschedule next, and what its timer is set to.
//!
//! The timer of a core that runs a thread may fire too early but never late; the timer of an idle
//! core fires on time. So two threads that keep waking each other do not touch the timer.

use super::Table;
use crate::PRIORITY_REST;

/// How often unpreempted work that others wait for is interrupted, while it does not end.
const LOOKS_PER_S: u64 = 10;

/// When a core must reschedule next; each time is on the clock that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Earliest deadline of a sleeper, in soc time, because the soc clock may be adjusted
    /// meanwhile. An idle core may leave out those that can be deferred.
    pub sleeper: Option<u64>,
    /// When a ready thread preempts the running one, in ticks of the local clock; 0: now.
    pub slice: Option<u64>,
}

/// The timer of one core.
pub(super) struct Timer {
    /// The tick that it is set to, `u64::MAX` if it is stopped; `None`: unknown.
    armed: Option<u64>,
    /// Deadline of the first sleeper, and that deadline in ticks; `u64::MAX` before there was one.
    first: (u64, u64),
}

impl Default for Timer {
    fn default() -> Timer {
        Timer { armed: None, first: (u64::MAX, u64::MAX) }
    }
}

impl Table {
    /// Returns whether `core` leaves deferrable deadlines alone: it idles, or runs the thread that
    /// asks for a rest, which would otherwise cause work whenever it asks.
    fn defers_on(&self, core: usize) -> bool {
        let running = self.cores[core].current as usize;
        self.defers && self.entries[running].priority <= PRIORITY_REST
    }

    /// Returns when `core` must reschedule next.
    #[inline]
    pub fn next_event(&self, core: usize) -> Event {
        let here = &self.cores[core];
        let sleeper = match (here.sleepers.next(), here.deferrable.next()) {
            (firm, Some(later)) if !self.defers_on(core) => {
                Some(firm.map_or(later, |firm| firm.min(later)))
            }
            (firm, _) => firm,
        };
        Event { sleeper, slice: self.preemption(core) }
    }

    /// Returns the tick to set `core`'s timer to for [`Table::next_event`] (`u64::MAX`: stop it),
    /// or `None` if it can stay as it is. While a thread runs, a timer that fires too early is left
    /// alone: the core checks again then. On an idle core it is corrected, so that the core sleeps
    /// as long as it can.
    #[inline]
    pub fn rearm(&mut self, core: usize, to_ticks: impl FnOnce(u64) -> u64) -> Option<u64> {
        let (event, is_idle) = (self.next_event(core), self.is_idle(core));
        let here = &mut self.cores[core].timer;
        let mut wanted = event.slice.unwrap_or(u64::MAX);
        if let Some(sleeper) = event.sleeper {
            if here.first.0 != sleeper {
                here.first = (sleeper, to_ticks(sleeper));
            }
            wanted = wanted.min(here.first.1);
        }
        let does = |at: u64| at == wanted || at < wanted && !is_idle;
        if here.armed.is_some_and(does) {
            return None;
        }
        here.armed = Some(wanted);
        Some(wanted)
    }

    /// Returns whether the timer of a busy core is set early enough for the ready threads.
    #[inline]
    pub fn is_timed(&self, core: usize) -> bool {
        let armed = self.cores[core].timer.armed;
        self.preemption(core).is_none_or(|at| armed.is_some_and(|armed| armed <= at))
    }

    /// `core` shall be preempted at tick `now`, but runs unpreempted work: `set` sets its timer, if
    /// necessary, so that it is interrupted again if that work does not end.
    pub fn postponed(&mut self, core: usize, now: u64, hz: u64, set: impl FnOnce(u64)) {
        let (armed, at) = (&mut self.cores[core].timer.armed, now + hz / LOOKS_PER_S);
        if armed.is_none_or(|armed| armed > at) {
            *armed = Some(at);
            set(at);
        }
    }

    /// The timer of `core` has fired, or was powered off with the core, so its setting is unknown.
    /// (If it is in fact set to an earlier tick, that does no harm.)
    pub fn timer_fired(&mut self, core: usize) {
        self.cores[core].timer.armed = None;
    }

    /// Wakes every thread that sleeps on `core` with a deadline at or before soc time `time`;
    /// those with a deadline that can be deferred, unless the core has no other work and defers.
    pub fn expire(&mut self, core: usize, time: u64, now: u64) {
        while let Some(index) = self.cores[core].sleepers.expire(time) {
            self.wake(self.id(index), core, now);
        }
        while !self.defers_on(core)
            && let Some(index) = self.cores[core].deferrable.expire(time)
        {
            self.wake(self.id(index), core, now);
            self.entries[index as usize].upkeep.looks();
        }
    }

    /// The soc clock was adjusted, which moves deadlines on the local clocks: all cores except
    /// `here` must set their timers again.
    pub fn clock_changed(&mut self, here: usize) {
        self.cores.iter_mut().for_each(|core| core.timer = Timer::default());
        (0..self.cores.len()).filter(|&core| core != here).for_each(|core| self.kicks.insert(core));
    }
}
