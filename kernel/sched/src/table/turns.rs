//! Which thread of a core runs next, and for how long.
//!
//! Contract: a higher priority runs first. Threads of one priority that are ready take turns of one
//! slice. One that wakes and has run less than they have is *owed* time: it preempts a thread whose
//! turn it is, after a tenth of that, and runs until it has had as much. So a thread that mostly
//! sleeps does not wait for threads that compute, and none gets more than its share by sleeping.
//!
//! ```text
//!   virtual time of a thread: ticks that it has run + its base
//!   ... of a priority:        the highest that a thread which ran had; it never goes back
//!
//!            wake --- its lag is below a tenth of a slice ---> last of those that take turns
//!              \----- it is more ------------------------> owed: the lag, but never more than
//!                                                             one slice
//!   preempted ------------------------------------------------> first of its level, with the rest
//!   slice or debt is over -----------------------------------> last of those that take turns
//! ```
//! While owed threads run, the virtual time of their priority stands still. So each of them is owed
//! no more than what it has advanced since, and threads that take turns wait for it no longer than
//! they would for its turn. A thread that yields ends its turn, and waives what it is owed.

use super::{Entry, Index, Phase, Table};
use crate::PRIORITIES;
use crate::runqueue::Level;
use core::cmp::Ordering;

/// A thread is owed time if its lag is this part of a slice at least: less is not worth a
/// preemption. Nor is a turn that has just begun: a thread that soon blocks again does all its work
/// first, and what it wakes then finds more to do at once.
pub(super) const OWED_FROM: u64 = 10;

/// What one core remembers about turns.
pub(super) struct Turns {
    /// Level of the running thread.
    pub level: Level,
    /// Tick at which its turn or its debt is over.
    pub end: u64,
    /// Virtual time by priority, when a thread was last picked.
    times: [i64; PRIORITIES],
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { level: Level::new(0, false), end: 0, times: [0; PRIORITIES] }
    }
}

impl Entry {
    #[inline]
    fn virtual_time(&self) -> i64 {
        self.ran as i64 + self.base
    }
}

impl Table {
    /// Returns the level of the thread that runs on `core`.
    #[inline]
    pub(super) fn running_level(&self, core: usize) -> Level {
        self.cores[core].turns.level
    }

    /// Returns the virtual time of a priority on a core. The running thread counts once its debt is
    /// over.
    #[inline]
    pub(super) fn virtual_time(&self, core: usize, priority: u8, now: u64) -> i64 {
        let here = &self.cores[core];
        let running = &self.entries[here.current as usize];
        let last = here.turns.times[priority as usize % PRIORITIES];
        if running.priority != priority {
            return last;
        }
        last.max(running.virtual_time() + now.saturating_sub(here.since) as i64)
    }

    /// Two threads exchange their virtual times.
    #[inline]
    pub(super) fn exchange_times(&mut self, one: usize, other: usize) {
        let times = [one, other].map(|index| self.entries[index].virtual_time());
        self.entries[one].base += times[1] - times[0];
        self.entries[other].base += times[0] - times[1];
    }

    /// A thread is on another core from now on: it has the lag there that it had here.
    #[inline]
    pub(super) fn change_core(&mut self, index: Index, to: usize, now: u64) {
        if usize::from(self.entries[index as usize].core) != to {
            self.translate(index, to, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn translate(&mut self, index: Index, to: usize, now: u64) {
        let entry = &self.entries[index as usize];
        let cores = [entry.core as usize, to];
        let [before, after] = cores.map(|core| self.virtual_time(core, entry.priority, now));
        let entry = &mut self.entries[index as usize];
        entry.base += after - before;
        entry.core = to as u8;
    }

    pub(super) fn make_ready(&mut self, index: Index, here: usize, now: u64) {
        let core = self.select_core(index);
        self.change_core(index, core, now);
        let level = self.set_ready(index, core, now);
        self.queue_next(core);
        self.cores[core].queue.push(&mut self.links, index, level);
        // An equal priority matters, too: the other core must set its timer.
        if core != here && self.running_level(core).priority() <= level.priority() {
            self.kicks.insert(core);
        }
    }

    /// A blocked thread is ready on its core, but in no queue yet. Returns its level there.
    #[inline(always)]
    pub(super) fn set_ready(&mut self, index: Index, core: usize, now: u64) -> Level {
        self.cancel_sleep(index);
        let time = self.virtual_time(core, self.entries[index as usize].priority, now);
        let (slice, owed_from) = (self.slice as i64, self.owed_from as i64);
        let entry = &mut self.entries[index as usize];
        entry.phase = Phase::Ready;
        entry.upkeep.woken();
        let lag = time - entry.virtual_time();
        let is_owed = lag >= owed_from;
        entry.left = self.slice;
        if is_owed {
            entry.base += (lag - slice).max(0);
            entry.left = lag.min(slice) as u64;
        }
        Level::new(entry.priority, is_owed)
    }

    /// Selects the core for a thread that becomes ready: the one that it is bound to; else its last
    /// core, if it can run there at once; else an idle core; else its last core.
    pub(super) fn select_core(&self, index: Index) -> usize {
        let entry = &self.entries[index as usize];
        if let Some(core) = entry.affinity {
            return core as usize;
        }
        let runs_now = |core: usize| {
            let there = &self.cores[core];
            there.online
                && !there.has_ready()
                && self.running_level(core).priority() < entry.priority
        };
        let last = entry.core as usize;
        let idle = |&core: &usize| runs_now(core) && self.is_idle(core);
        if self.cores.len() == 1 || runs_now(last) {
            return last;
        }
        (0..self.cores.len()).find(idle).unwrap_or(last)
    }

    /// The running thread is ready instead: it continues later if it was preempted before its turn
    /// or debt was over; else its turn comes again after the others'.
    pub fn requeue_current(&mut self, core: usize, now: u64) {
        self.queue_next(core);
        let (index, turns) = (self.cores[core].current, &self.cores[core].turns);
        let (level, end) = (turns.level, turns.end);
        let entry = &mut self.entries[index as usize];
        entry.phase = Phase::Ready;
        if index as usize == core {
            return;
        }
        let queue = &mut self.cores[core].queue;
        if now < end {
            entry.left = (end - now).min(self.slice);
            queue.push_first(&mut self.links, index, level);
        } else {
            entry.left = self.slice;
            queue.push(&mut self.links, index, Level::new(level.priority(), false));
        }
    }

    /// The running thread ends its turn.
    pub fn yield_current(&mut self, core: usize) {
        self.requeue_current(core, u64::MAX);
    }

    /// Selects the thread that runs next on `core` and makes it current: the first of the highest
    /// level here, else one from another core's queue, else the idle thread.
    pub fn pick(&mut self, core: usize, now: u64) -> usize {
        self.queue_next(core);
        let next = self.cores[core].queue.pop(&mut self.links);
        let next = next.or_else(|| self.steal(core, now));
        let (next, level) = next.unwrap_or((core as Index, Level::new(0, false)));
        self.begin_turn(core, (next, level), now);
        next as usize
    }

    /// Makes a thread, which is in no run queue, current on `core`: its turn or debt begins.
    #[inline]
    pub(super) fn begin_turn(&mut self, core: usize, (next, level): (Index, Level), now: u64) {
        let before = self.cores[core].current;
        self.run(core, next, now);
        let (time, left) =
            (self.entries[before as usize].virtual_time(), self.entries[next as usize].left);
        let turns = &mut self.cores[core].turns;
        let last = &mut turns.times[turns.level.priority() as usize % PRIORITIES];
        *last = time.max(*last);
        turns.level = level;
        turns.end = now + left;
    }

    fn steal(&mut self, core: usize, now: u64) -> Option<(Index, Level)> {
        (0..self.cores.len()).for_each(|other| self.queue_next(other));
        let longest = |&other: &usize| self.cores[other].queue.len();
        let from = (0..self.cores.len()).filter(|&other| other != core).max_by_key(longest)?;
        let entries = &self.entries;
        let movable = |index: Index| entries[index as usize].affinity.is_none();
        let (thread, level) = self.cores[from].queue.take(&mut self.links, movable)?;
        self.change_core(thread, core, now);
        Some((thread, level))
    }

    /// Makes a thread, which is in no run queue, current on `core`, and accounts for the former
    /// one. Returns its index.
    #[inline]
    pub(super) fn run(&mut self, core: usize, next: Index, now: u64) -> usize {
        let here = &mut self.cores[core];
        let before = &mut self.entries[here.current as usize];
        let ran = now.saturating_sub(here.since);
        before.ran += ran;
        if here.current as usize != core {
            here.worked += ran;
        }
        if before.is_work() {
            here.worked_until = now;
        }
        here.since = now;
        let entry = &mut self.entries[next as usize];
        entry.switches += u64::from(here.current != next);
        entry.phase = Phase::Running;
        here.current = next;
        next as usize
    }

    /// Returns the tick at which a ready thread preempts the running one: 0 (now) if its priority
    /// is higher; with the same priority when the running thread's turn or debt is over, or if the
    /// ready one is owed time and the turn has begun.
    #[inline]
    pub(super) fn preemption(&self, core: usize) -> Option<u64> {
        let turns = &self.cores[core].turns;
        let ready = self.cores[core].highest()?;
        match ready.priority().cmp(&turns.level.priority()) {
            Ordering::Greater => Some(0),
            Ordering::Equal if ready > turns.level => {
                Some(turns.end.saturating_sub(self.slice - self.owed_from))
            }
            Ordering::Equal => Some(turns.end),
            Ordering::Less => None,
        }
    }

    /// Returns whether the running thread must be preempted.
    pub fn should_preempt(&self, core: usize, now: u64) -> bool {
        self.preemption(core).is_some_and(|at| now >= at)
    }
}

#[cfg(test)]
mod tests;
