//! The one-shot timer of this core: Sstc's `stimecmp`, compared with `time`.

use super::registers::write;

pub fn set(deadline_ticks: u64) {
    // SAFETY: stimecmp (0x14d) only decides when the timer interrupt is pending.
    unsafe { write!("0x14d", deadline_ticks) };
}

pub fn stop() {
    set(u64::MAX);
}
