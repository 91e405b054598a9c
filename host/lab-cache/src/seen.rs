//! Which reports were made, and how often each kind happened.

use crate::violation::{Kind, Violation};

/// Different reports a model remembers; those beyond are counted only.
const SLOTS: usize = 2048;
/// How far a report may lie from its place.
const REACH: usize = 16;

/// How often things happened, told or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    by_kind: [u64; Kind::ALL.len()],
    /// New violations that were not told for lack of room.
    pub untold: u64,
}

impl Counts {
    /// Violations of one kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.by_kind[kind as usize]
    }

    /// All violations.
    pub fn total(&self) -> u64 {
        self.by_kind.iter().sum()
    }
}

/// A bounded set of reports.
pub struct Seen {
    keys: [u64; SLOTS],
    counts: Counts,
}

impl Seen {
    pub const fn new() -> Seen {
        Seen { keys: [0; SLOTS], counts: Counts { by_kind: [0; Kind::ALL.len()], untold: 0 } }
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts the violation; answers whether it is to be told.
    pub fn is_new(&mut self, violation: &Violation) -> bool {
        self.counts.by_kind[violation.kind as usize] += 1;
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
        self.counts.untold += 1;
        false
    }
}

/// Stands for kind, line and both pcs; never 0. Two reports share one by a chance of 2^-64.
fn key(violation: &Violation) -> u64 {
    let writer = violation.writer.map_or(0, |site| site.pc);
    let parts = [violation.kind as u64, violation.line, violation.access.pc, writer];
    parts.into_iter().fold(1, mix).max(1)
}

/// SplitMix64's step, over a running value.
fn mix(before: u64, part: u64) -> u64 {
    let mut z = before.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
