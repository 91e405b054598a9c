//! Chip time after this domain stood still: its counter did too, so it is calibrated again.

use crate::kernel::{self, Kernel};
use crate::log;
use kernel_sched::WaitQueue;

static CLOCK: WaitQueue = WaitQueue::new();

/// Starts the thread that keeps the clock.
pub fn start(kernel: &'static Kernel) {
    if kernel.spawn("clock", None, keep_clock, 0).is_err() {
        log!("no memory for the clock thread: chip time will be wrong after a sleep");
    }
}

/// The chip page may have changed: does it say that this domain slept?
pub fn look_at_chip(kernel: &Kernel) {
    if kernel.soc.has_slept() {
        CLOCK.wake_all(&kernel.scheduler);
    }
}

/// Calibrates again whenever this domain was stopped: its counter stood still meanwhile.
/// (`power` does so itself after a power-off, before other threads run: it may reset the counter.)
fn keep_clock(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    loop {
        kernel.scheduler.wait(&CLOCK, || kernel.soc.has_slept());
        kernel.calibrate_clock();
    }
}
