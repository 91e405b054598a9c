//! Flushes of the TLB with the selected bug.

use core::arch::asm;

use super::descriptor::operand;
use crate::seeded::{Seed, is};

/// Pages above which a flush concerns no range, and has no bug.
const MOST: u64 = 512;

/// Flushes `pages` pages from page number `first` on in the selected wrong way. Returns false if
/// the right way is due.
pub(super) fn flush(first: u64, pages: u64) -> bool {
    if pages > MOST {
        return false;
    }
    let all = first..first + pages;
    match () {
        () if is(Seed::NoTlbFlush) => {}
        () if is(Seed::ShortTlbFlush) => {
            before();
            (first..first + pages - 1).for_each(everywhere);
            behind();
        }
        () if is(Seed::LocalTlbFlush) => {
            before();
            all.for_each(here);
            behind();
        }
        () if is(Seed::NoTlbComplete) => {
            before();
            all.for_each(everywhere);
        }
        () if is(Seed::EarlyTlbFlush) => {
            all.for_each(everywhere);
            behind();
        }
        () if is(Seed::KeptWalks) => {
            before();
            all.for_each(leaf);
            behind();
        }
        () => return false,
    }
    true
}

fn before() {
    // SAFETY: a barrier.
    unsafe { asm!("dsb ishst", options(nostack)) };
}

fn behind() {
    // SAFETY: barriers.
    unsafe { asm!("dsb ish", "isb", options(nostack)) };
}

fn everywhere(page: u64) {
    // SAFETY: dropping translations is always allowed.
    unsafe { asm!("tlbi vaae1is, {}", in(reg) operand(page), options(nostack)) };
}

fn here(page: u64) {
    // SAFETY: as above.
    unsafe { asm!("tlbi vaae1, {}", in(reg) operand(page), options(nostack)) };
}

fn leaf(page: u64) {
    // SAFETY: as above.
    unsafe { asm!("tlbi vaale1is, {}", in(reg) operand(page), options(nostack)) };
}
