//! Flushes of the TLB with the selected bug.

use core::arch::asm;

use base::addr::PAGE;

use super::cpu;
use crate::seeded::{Seed, is};

/// Pages above which a flush concerns no range, and has no bug.
const MOST: u64 = 512;
/// The hart that a shootdown skips.
const SKIPPED: usize = 2;

/// Flushes `pages` pages from `at` on in the selected wrong way. Returns false if the right way is
/// due.
pub(super) fn flush(at: u64, pages: u64) -> bool {
    if pages > MOST {
        return false;
    }
    match () {
        () if is(Seed::NoTlbFlush) => true,
        () if is(Seed::SkippedCore) => cpu::core().index() == SKIPPED,
        () if is(Seed::ShortTlbFlush) => one_by_one(at, pages - 1),
        () if is(Seed::KeptWalks) => one_by_one(at, pages),
        () => false,
    }
}

/// A flush of an address leaves cached walks alone.
fn one_by_one(at: u64, pages: u64) -> bool {
    for page in 0..pages {
        // SAFETY: dropping translations is always allowed.
        unsafe { asm!("sfence.vma {}", in(reg) at + page * PAGE, options(nostack)) };
    }
    true
}
