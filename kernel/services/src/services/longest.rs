//! The longest time for which this kernel has had a service's arena, for measurements. Other
//! callers of the service wait for so long.

use core::sync::atomic::{AtomicU64, Ordering};

/// In ticks of the core's clock: all of it, and the part in which the core did not wait.
static LONGEST: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Runs a step, which stays on its core.
pub fn measured<R>(step: impl FnOnce() -> R) -> R {
    let now = || [arch::cpu::clock(), arch::attend::spent()];
    let [begun, waited] = now();
    let result = step();
    let [ended, waits] = now();
    let all = ended.wrapping_sub(begun);
    let worked = all.saturating_sub(waits.wrapping_sub(waited));
    [all, worked].iter().zip(&LONGEST).for_each(|(&ticks, longest)| {
        longest.fetch_max(ticks, Ordering::Relaxed);
    });
    result
}

/// Returns the longest step in ns, all of it and without its waits.
pub fn longest_ns() -> [u64; 2] {
    let ns =
        |ticks: &AtomicU64| arch::time::to_ns(ticks.load(Ordering::Relaxed), arch::cpu::clock_hz());
    LONGEST.each_ref().map(ns)
}
