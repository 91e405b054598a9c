//! The number of interrupts of each kind since boot.

use core::sync::atomic::AtomicU64;

/// Counters for the monitor's command `irq`.
pub struct Counts {
    pub timer: AtomicU64,
    /// Core-to-core interrupts, by kind (`shootdown::core_kind`).
    pub core: [AtomicU64; 4],
    /// Doorbells, by vector.
    pub doorbell: [AtomicU64; 32],
    /// Interrupts with nothing pending.
    pub spurious: AtomicU64,
}

pub static COUNTS: Counts = Counts {
    timer: AtomicU64::new(0),
    core: [const { AtomicU64::new(0) }; 4],
    doorbell: [const { AtomicU64::new(0) }; 32],
    spurious: AtomicU64::new(0),
};
