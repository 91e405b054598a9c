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

pub fn stop() {
    // SAFETY: as in `set`.
    unsafe {
        write!("cntv_ctl_el0", 0u64);
        asm!("isb", options(nostack));
    }
}
