//! This core's one-shot timer; tests read it with `Machine::deadline`.

use super::machine::here;

/// Interrupts at that tick.
pub fn set(deadline_ticks: u64) {
    here().set_deadline(deadline_ticks);
}

/// Disarms it.
pub fn stop() {
    here().set_deadline(u64::MAX);
}
