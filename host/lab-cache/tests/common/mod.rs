//! Shared by the tests: a small RAM, its model, and a list of reports.
#![allow(dead_code, reason = "each test file uses its part")]

use lab_cache::{Access, Domain, Model, Violation, words_for};
use std::sync::atomic::AtomicU64;

/// Base address of RAM.
pub const BASE: u64 = 0x8000_0000;

/// Returns words for `bytes` of RAM.
pub fn words(bytes: u64) -> Vec<AtomicU64> {
    (0..words_for(bytes)).map(|_| AtomicU64::new(0)).collect()
}

/// Returns a domain by its number.
pub fn domain(number: u8) -> Domain {
    Domain::new(number).expect("tests use few domains")
}

/// Returns an access of 8 bytes.
pub fn access(number: u8, pa: u64, pc: u64) -> Access {
    Access { domain: domain(number), pa, len: 8, pc }
}

/// Returns the reports of `events`.
pub fn reported(
    model: &mut Model,
    events: impl FnOnce(&mut Model, &mut dyn FnMut(&Violation)),
) -> Vec<Violation> {
    let mut all = Vec::new();
    events(model, &mut |violation| all.push(*violation));
    all
}
