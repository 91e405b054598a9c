//! Cache maintenance with the selected bug; the contract's `cache` otherwise.

use super::{Seed, is};
use crate::imp::cache as real;
pub use crate::imp::cache::LINE;

pub fn clean(va: usize, bytes: usize) {
    match () {
        () if is(Seed::NoClean) => {}
        () if is(Seed::ShortClean) => real::clean(va, bytes.saturating_sub(LINE)),
        () if is(Seed::LateClean) => real::clean(va + LINE, bytes.saturating_sub(LINE)),
        () if is(Seed::CleanDrops) => real::invalidate(va, bytes),
        () => real::clean(va, bytes),
    }
}

pub fn invalidate(va: usize, bytes: usize) {
    match () {
        () if is(Seed::NoInvalidate) || is(Seed::FlushKeeps) => {}
        () if is(Seed::ShortInvalidate) => real::invalidate(va, bytes.saturating_sub(LINE)),
        () if is(Seed::InvalidateKeeps) => real::clean(va, bytes),
        () => real::invalidate(va, bytes),
    }
}

pub fn clean_invalidate(va: usize, bytes: usize) {
    match () {
        () if is(Seed::NoFlush) => {}
        () if is(Seed::FlushKeeps) => real::clean(va, bytes),
        () => real::clean_invalidate(va, bytes),
    }
}

pub fn complete() {
    if !is(Seed::NoComplete) {
        real::complete();
    }
}

pub fn sync_code(va: usize, bytes: usize) {
    if !is(Seed::NoSync) {
        real::sync_code(va, bytes);
    }
}
