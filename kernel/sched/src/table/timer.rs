//! When a core must look again, and what its timer is set to.
//!
//! Contract: the timer of a core that runs a thread comes in time or too early, that of one that
//! idles in time. So between two threads that wake each other nobody sets a timer.

use super::Table;
use core::cmp::Ordering;

/// When a core must look again, each on the clock that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The earliest deadline of a sleeper, in chip time: that clock may be set meanwhile.
    pub sleeper: Option<u64>,
    /// The end of the running thread's slice, in ticks of the local clock, when somebody of its
    /// priority waits for it; 0, that is now, when somebody of a higher one does.
    pub slice: Option<u64>,
}

/// The timer of one core.
#[derive(Default)]
pub(super) struct Timer {
    /// The tick at which it comes, `u64::MAX` if it does not; `None`: nobody knows.
    armed: Option<u64>,
    /// The first sleeper's deadline, and the tick that it was found to be.
    first: (u64, u64),
}

impl Table {
    /// When `core` must look again.
    pub fn next_event(&self, core: usize) -> Event {
        let here = &self.cores[core];
        let running = self.entries[here.current as usize].priority;
        let slice = here.queue.highest().and_then(|highest| match highest.cmp(&running) {
            Ordering::Greater => Some(0),
            Ordering::Equal => Some(here.slice_end),
            Ordering::Less => None,
        });
        Event { sleeper: here.sleepers.next(), slice }
    }

    /// The tick at which [`Table::next_event`] is, `u64::MAX` for never, if `core` has to set its
    /// timer to it. One that runs a thread may find it set to an earlier one: it looks again then.
    /// One that idles sleeps for as long as it can.
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

    /// The timer of `core` came, or was off with it: it is not set to what it was. (That it is set
    /// to an earlier tick than this knows of is no harm.)
    pub fn timer_came(&mut self, core: usize) {
        self.cores[core].timer.armed = None;
    }

    /// Wakes everybody who sleeps on `core` until chip time `now` or earlier.
    pub fn expire(&mut self, core: usize, now: u64) {
        while let Some(index) = self.cores[core].sleepers.expire(now) {
            self.wake(self.id(index), core);
        }
    }

    /// Sleepers' deadlines have moved on the local clocks: all cores but `here` must look.
    pub fn clock_changed(&mut self, here: usize) {
        self.cores.iter_mut().for_each(|core| core.timer = Timer::default());
        (0..self.cores.len()).filter(|&core| core != here).for_each(|core| self.kicks.insert(core));
    }
}
