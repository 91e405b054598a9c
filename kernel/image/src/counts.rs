//! How many interrupts of each kind this kernel took.

use core::sync::atomic::AtomicU64;

/// Counts for `irq` on the monitor.
pub struct Counts {
    /// Timer interrupts.
    pub timer: AtomicU64,
    /// Core-to-core interrupts, by kind.
    pub core: [AtomicU64; 4],
    /// Doorbells, by vector.
    pub doorbell: [AtomicU64; 32],
    /// Nothing pending after all.
    pub spurious: AtomicU64,
}

/// Since boot.
pub static COUNTS: Counts = Counts {
    timer: AtomicU64::new(0),
    core: [const { AtomicU64::new(0) }; 4],
    doorbell: [const { AtomicU64::new(0) }; 32],
    spurious: AtomicU64::new(0),
};
