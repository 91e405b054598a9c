//! The core's own one-shot timer: the virtual one, on the counter of `cpu::clock`.

use core::arch::asm;

use super::registers::write;

/// Interrupts this core at `deadline_ticks`, at once when that has passed.
pub fn set(deadline_ticks: u64) {
    // SAFETY: the timer belongs to this core's kernel; its only effect is the interrupt.
    unsafe {
        write!("cntv_cval_el0", deadline_ticks);
        write!("cntv_ctl_el0", 1u64);
        asm!("isb", options(nostack));
    }
}

/// No interrupt any more.
pub fn stop() {
    // SAFETY: as in `set`.
    unsafe {
        write!("cntv_ctl_el0", 0u64);
        asm!("isb", options(nostack));
    }
}
