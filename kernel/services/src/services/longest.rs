//! For measurements: the longest time for which this kernel has had a service's arena, for which
//! other callers of the service wait; and how long it took to take over the devices.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether steps are measured. It takes as long as a tenth of a short request.
static MEASURES: AtomicBool = AtomicBool::new(false);

/// In ticks of the core's clock: all of it, and the part in which the core did not wait.
static LONGEST: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Chip time of the last take-over of the devices, and ns from then until all were looked at.
static TAKEN_OVER: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// The drivers have looked at their devices; the last take-over was at `taken_over`, in chip time.
pub fn looked(taken_over: u64) {
    let [last, took] = &TAKEN_OVER;
    if last.swap(taken_over, Ordering::Relaxed) != taken_over {
        took.store(arch::time::soc_time() - taken_over, Ordering::Relaxed);
    }
}

/// Returns how long the last take-over of the devices took, in ns; 0: there was none.
pub fn took_over_ns() -> u64 {
    TAKEN_OVER[1].load(Ordering::Relaxed)
}

/// From now on, steps are measured.
pub fn measure() {
    MEASURES.store(true, Ordering::Relaxed);
}

/// Runs a step, which stays on its core.
#[inline]
pub fn measured<R>(step: impl FnOnce() -> R) -> R {
    if MEASURES.load(Ordering::Relaxed) { timed(step) } else { step() }
}

#[cold]
fn timed<R>(step: impl FnOnce() -> R) -> R {
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

/// Returns the longest measured step in ns, all of it and without its waits.
pub fn longest_ns() -> [u64; 2] {
    let ns =
        |ticks: &AtomicU64| arch::time::to_ns(ticks.load(Ordering::Relaxed), arch::cpu::clock_hz());
    LONGEST.each_ref().map(ns)
}
