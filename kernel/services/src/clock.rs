//! Calibrates the clock again after this domain was stopped. The counter stood still meanwhile, and
//! chip time did not.

use crate::kernel::{self, Kernel};
use kernel_node::log;
use kernel_sched::WaitQueue;

static CLOCK: WaitQueue = WaitQueue::new();

/// Starts the thread that calibrates the clock.
pub fn start(kernel: &'static Kernel) {
    if kernel.spawn("clock", None, keep_clock, 0).is_err() {
        log!("no memory for the clock thread: chip time will be wrong after a sleep");
    }
}

/// Wakes that thread if the chip page says that this domain was stopped. Called when the chip page
/// has changed.
pub fn look_at_chip(kernel: &Kernel) {
    if kernel.soc.has_slept() {
        CLOCK.wake_all(&kernel.scheduler);
    }
}

/// Thread: calibrates the clock whenever this domain was stopped. (After a power-off, `power` of
/// `kernel/image` does so before other threads run, because the counter may have been reset.)
fn keep_clock(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    loop {
        kernel.scheduler.wait(&CLOCK, || kernel.soc.has_slept());
        kernel.calibrate_clock();
    }
}
