//! The set of reports that were made.

use crate::violation::Violation;

/// Number of different reports that a model remembers; later ones are only counted.
const SLOTS: usize = 2048;
/// Maximum distance of a report from its home slot.
const REACH: usize = 16;

/// A bounded set of reports.
pub struct Seen {
    keys: [u64; SLOTS],
    untold: u64,
}

impl Seen {
    pub const fn new() -> Seen {
        Seen { keys: [0; SLOTS], untold: 0 }
    }

    /// Returns the number of new violations for which there was no room.
    pub fn untold(&self) -> u64 {
        self.untold
    }

    /// Returns whether the violation must be reported, and remembers it.
    pub fn is_new(&mut self, violation: &Violation) -> bool {
        let key = key(violation);
        for step in 0..REACH {
            let slot = &mut self.keys[(key as usize).wrapping_add(step) % SLOTS];
            if *slot == key {
                return false;
            }
            if *slot == 0 {
                *slot = key;
                return true;
            }
        }
        self.untold += 1;
        false
    }
}

/// Returns a hash of kind, line and both pcs; never 0. Two reports collide with a probability of
/// 2^-64.
fn key(violation: &Violation) -> u64 {
    let writer = violation.writer.map_or(0, |site| site.pc);
    let parts = [violation.kind as u64, violation.line, violation.access.pc, writer];
    parts.into_iter().fold(1, mix).max(1)
}

/// One step of SplitMix64 over a running value.
fn mix(before: u64, part: u64) -> u64 {
    let mut z = before.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
