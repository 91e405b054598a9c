//! The one-shot timer of this core; tests read it with `Machine::deadline`.

use super::machine::here;

pub fn set(deadline_ticks: u64) {
    here().set_deadline(deadline_ticks);
}

pub fn stop() {
    here().set_deadline(u64::MAX);
}
