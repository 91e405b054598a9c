//! The core's one-shot timer: Sstc's `stimecmp` against `time`.

use super::registers::write;

/// Interrupts when the clock reaches `deadline_ticks`, at once when it has.
pub fn set(deadline_ticks: u64) {
    // SAFETY: stimecmp (0x14d) decides only when the timer interrupt pends.
    unsafe { write!("0x14d", deadline_ticks) };
}

/// No interrupt; one that pends is withdrawn.
pub fn stop() {
    set(u64::MAX);
}
