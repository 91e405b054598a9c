//! A host is coherent: nothing to do, unless a simulated chip is not.

use super::chip::chip;

pub const LINE: usize = 64;

pub fn clean(va: usize, bytes: usize) {
    if let Some(chip) = chip() {
        chip.clean(va, bytes);
    }
}

pub fn invalidate(va: usize, bytes: usize) {
    if let Some(chip) = chip() {
        chip.invalidate(va, bytes);
    }
}

pub fn clean_invalidate(va: usize, bytes: usize) {
    clean(va, bytes);
    invalidate(va, bytes);
}

pub fn sync_code(_va: usize, _bytes: usize) {}

/// Maintenance is complete on return.
pub fn complete() {}
