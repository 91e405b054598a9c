//! The one-shot timer of this core: the virtual timer, on the counter of `cpu::clock`.

use core::arch::asm;

use super::registers::write;

pub fn set(deadline_ticks: u64) {
    // SAFETY: the timer belongs to this core's kernel; the interrupt is its only effect.
    unsafe {
        write!("cntv_cval_el0", deadline_ticks);
        write!("cntv_ctl_el0", 1u64);
        asm!("isb", options(nostack));
    }
}

/// Lowers the interrupt's line on a core that has just started. The registers may have any value
/// after a reset, and in QEMU the line is still as it was at power-off: it follows a change of the
/// deadline, or of the enable bit, but not a second 0 there. [`stop`] alone would leave it high.
pub fn init() {
    set(u64::MAX);
    stop();
}

pub fn stop() {
    // SAFETY: as in `set`.
    unsafe {
        write!("cntv_ctl_el0", 0u64);
        asm!("isb", options(nostack));
    }
}
