//! Where tests run beside each other.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How many tests run at a time, and where.
#[derive(Clone, Copy)]
pub enum Lanes {
    /// So many, on any processor.
    Free(usize),
    /// One on each processor of the host, and each stays on its own: what takes turns computes in
    /// one place at a time, and a turn is passed faster within a processor than between two.
    Own,
}

/// Boards whose time is the host's: they often wait for timeouts, sleep, and boot.
pub const BOARDS: Lanes = Lanes::Free(4);
/// Tests that compute.
pub const BUSY: Lanes = Lanes::Free(2);

impl Lanes {
    pub fn count(self) -> usize {
        match self {
            Lanes::Free(count) => count,
            Lanes::Own => processors().len().max(1),
        }
    }

    /// Called first in the thread of each lane; what it starts inherits the processor.
    pub fn enter(self, lane: usize) {
        let all = processors();
        if matches!(self, Lanes::Own) && all.len() > 1 {
            let mut own = CpuSet::new();
            own.set(all[lane % all.len()]);
            // Without it tests take longer, and nothing else changes.
            let _ = sched_setaffinity(None, &own);
        }
    }
}

/// The host's processors that this thread may run on.
fn processors() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}
