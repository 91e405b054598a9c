//! What this core works, and records of it.

use crate::session::Outcome;
use core::fmt::Write;

/// Measures what this core works, without its waits. The thread that holds it is pinned.
pub struct Watch(u64);

impl Watch {
    /// From now on.
    pub fn start() -> Watch {
        Watch(Self::worked())
    }

    /// Nanoseconds since.
    pub fn ns(&self) -> u64 {
        arch::time::to_ns(Self::worked().wrapping_sub(self.0), arch::cpu::clock_hz())
    }

    /// What this core has worked, in ns that mean something only in differences.
    pub fn worked_ns() -> u64 {
        arch::time::to_ns(Self::worked(), arch::cpu::clock_hz())
    }

    /// Ticks that mean something only in differences: a power-off may reset the counter.
    fn worked() -> u64 {
        arch::cpu::clock().wrapping_sub(arch::attend::spent())
    }
}

/// One record, a mean.
pub fn record(out: &mut dyn Write, name: &str, total: u64, rounds: u64) -> Outcome {
    write!(out, "record {name} ")?;
    super::record(out, total, rounds)
}
