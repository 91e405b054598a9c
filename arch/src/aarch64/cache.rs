//! Cache maintenance by address, to the point of coherency.

use core::arch::asm;

pub const LINE: usize = 64;

/// `$count` times the instruction, each time for the next line.
macro_rules! lines {
    ($operation:literal, $count:literal, $line:ident) => {
        // SAFETY: acts on lines of memory that the caller has mapped, and changes no byte as this
        // domain sees it (except `invalidate`, whose contract says so).
        unsafe {
            asm!(
                concat!(".rept ", $count),
                concat!($operation, ", {0}"),
                "add {0}, {0}, #64",
                ".endr",
                inout(reg) $line,
                options(nostack),
            )
        }
    };
}

/// One instruction per line, then a full-system barrier.
macro_rules! each_line {
    ($operation:literal, $va:expr, $bytes:expr) => {{
        let (va, bytes): (usize, usize) = ($va, $bytes);
        let end = va.saturating_add(bytes);
        let mut line = va & !(LINE - 1);
        while end.saturating_sub(line) >= 64 * LINE {
            lines!($operation, 64, line);
        }
        while line < end {
            lines!($operation, 1, line);
        }
        barrier();
    }};
}

pub fn complete() {
    barrier();
}

fn barrier() {
    #[cfg(feature = "seeded")]
    if crate::seeded::is(crate::seeded::Seed::NoBarrier) {
        return;
    }
    // SAFETY: a barrier.
    unsafe { asm!("dsb sy", options(nostack)) };
}

pub fn clean(va: usize, bytes: usize) {
    barrier();
    each_line!("dc cvac", va, bytes);
}

pub fn invalidate(va: usize, bytes: usize) {
    each_line!("dc ivac", va, bytes);
}

pub fn clean_invalidate(va: usize, bytes: usize) {
    barrier();
    each_line!("dc civac", va, bytes);
}

pub fn sync_code(va: usize, bytes: usize) {
    each_line!("dc cvau", va, bytes);
    each_line!("ic ivau", va, bytes);
    // SAFETY: a barrier: later instructions are fetched again.
    unsafe { asm!("isb", options(nostack)) };
}
