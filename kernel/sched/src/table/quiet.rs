//! Whether this kernel has nothing to do.

use super::Table;

/// A kernel in which no thread has work: all wait, or sleep until later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// Tick of the local clock since which there has been no work.
    pub since: u64,
    /// Earliest firm deadline of a sleeper, in soc time.
    pub next: Option<u64>,
}

impl Table {
    /// Returns the earliest firm deadline of a sleeper, in soc time.
    pub fn next_deadline(&self) -> Option<u64> {
        self.cores.iter().filter_map(|core| core.sleepers.next()).min()
    }

    /// Returns whether a thread is ready, on any core.
    pub fn is_any_ready(&self) -> bool {
        self.cores.iter().any(|core| !core.queue.is_empty())
    }

    /// Returns whether no thread but the one that runs on `here` is ready or running.
    pub fn quiet(&self, here: usize) -> Option<Quiet> {
        let is_quiet =
            |core: usize| self.cores[core].queue.is_empty() && (core == here || self.is_idle(core));
        let cores = 0..self.cores.len();
        cores.clone().all(is_quiet).then(|| Quiet {
            since: self.cores.iter().map(|core| core.worked_until).max().unwrap_or(0),
            next: self.next_deadline(),
        })
    }
}
