//! Whether this kernel has nothing to do.

use super::{Core, Entry, Table};
use crate::runqueue::NONE;
use crate::{PRIORITY_REST, ThreadId};

/// Whether what a thread does is upkeep instead of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upkeep {
    No,
    /// It looks because of a deadline that could be deferred. Its next wake may be for work.
    Once,
    Always,
}

impl Upkeep {
    pub(super) fn woken(&mut self) {
        if *self == Upkeep::Once {
            *self = Upkeep::No;
        }
    }

    pub(super) fn looks(&mut self) {
        if *self == Upkeep::No {
            *self = Upkeep::Once;
        }
    }
}

impl Entry {
    /// Returns whether time that it runs is time with work.
    pub(super) fn is_work(&self) -> bool {
        self.priority > PRIORITY_REST && self.upkeep == Upkeep::No
    }
}

impl Table {
    /// The thread that runs on `core` does upkeep from now on: a rest waits for it while it is
    /// ready or runs, but the time without work continues.
    pub fn mark_upkeep(&mut self, core: usize) {
        let current = self.cores[core].current as usize;
        self.entries[current].upkeep = Upkeep::Always;
    }

    /// Returns the earliest firm deadline of a sleeper other than `beside`, in soc time.
    pub fn next_deadline(&self, beside: Option<ThreadId>) -> Option<u64> {
        let beside = beside.map_or(NONE, |thread| thread.index);
        self.cores.iter().filter_map(|core| core.sleepers.next_beside(beside)).min()
    }

    /// Returns whether a thread is ready, on any core.
    pub fn is_any_ready(&self) -> bool {
        self.cores.iter().any(Core::has_ready)
    }

    /// If no thread but the one that runs on `here` is ready or running, returns the tick of the
    /// local clock since which there has been no work.
    pub fn quiet(&self, here: usize) -> Option<u64> {
        let is_quiet =
            |core: usize| !self.cores[core].has_ready() && (core == here || self.is_idle(core));
        let cores = 0..self.cores.len();
        let since = || self.cores.iter().map(|core| core.worked_until).max().unwrap_or(0);
        cores.clone().all(is_quiet).then(since)
    }
}
