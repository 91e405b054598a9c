//! What the tests share: a small RAM, its model, and a list of what was reported.
#![allow(dead_code, reason = "each test file uses its part")]

use lab_cache::{Access, Domain, Model, Violation, words_for};
use std::sync::atomic::AtomicU64;

/// Where RAM begins.
pub const BASE: u64 = 0x8000_0000;

/// Words for `bytes` of RAM.
pub fn words(bytes: u64) -> Vec<AtomicU64> {
    (0..words_for(bytes)).map(|_| AtomicU64::new(0)).collect()
}

/// A domain by its number.
pub fn domain(number: u8) -> Domain {
    Domain::new(number).expect("tests use few domains")
}

/// An access of 8 bytes.
pub fn access(number: u8, pa: u64, pc: u64) -> Access {
    Access { domain: domain(number), pa, len: 8, pc }
}

/// What `events` has reported.
pub fn reported(
    model: &mut Model,
    events: impl FnOnce(&mut Model, &mut dyn FnMut(&Violation)),
) -> Vec<Violation> {
    let mut all = Vec::new();
    events(model, &mut |violation| all.push(*violation));
    all
}
