//! The one-shot timer of this core; tests read it with `Machine::deadline`.

use super::chip::chip;
use super::machine::here;

pub fn set(deadline_ticks: u64) {
    match chip() {
        Some(chip) => chip.set_deadline(deadline_ticks),
        None => here().set_deadline(deadline_ticks),
    }
}

pub fn stop() {
    set(u64::MAX);
}
