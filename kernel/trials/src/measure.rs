//! A watch for the work of this core, and records of it.

use core::fmt::Write;
use kernel_services::session::Outcome;

/// Measures the time that this core works, without its waits. The thread must be pinned meanwhile.
pub struct Watch(u64);

impl Watch {
    pub fn start() -> Watch {
        Watch(Self::worked())
    }

    /// Returns the ns of work since the start.
    pub fn ns(&self) -> u64 {
        arch::time::to_ns(Self::worked().wrapping_sub(self.0), arch::cpu::clock_hz())
    }

    /// Returns the work of this core in ns; only differences are meaningful.
    pub fn worked_ns() -> u64 {
        arch::time::to_ns(Self::worked(), arch::cpu::clock_hz())
    }

    /// Returns the work of this core in ticks; only differences are meaningful, since a power-off
    /// may reset the counter.
    fn worked() -> u64 {
        arch::cpu::clock().wrapping_sub(arch::attend::spent())
    }
}

/// Prints a record: the mean of `rounds` rounds, which took `total` ns.
pub fn record(out: &mut dyn Write, name: &str, total: u64, rounds: u64) -> Outcome {
    write!(out, "record {name} ")?;
    super::record(out, total, rounds)
}
