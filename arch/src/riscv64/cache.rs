//! Cache maintenance by address, to the point of coherency (Zicbom).

use core::arch::asm;

pub const LINE: usize = 64;

/// `$count` times the instruction, each time for the next line.
macro_rules! lines {
    ($instruction:literal, $count:literal, $line:ident) => {
        // SAFETY: the caller names mapped memory of its own; see the contract.
        unsafe {
            asm!(
                ".option push",
                ".option arch, +zicbom",
                concat!(".rept ", $count),
                concat!($instruction, " 0({0})"),
                "addi {0}, {0}, 64",
                ".endr",
                ".option pop",
                inout(reg) $line,
                options(nostack),
            )
        }
    };
}

macro_rules! by_line {
    ($(#[$doc:meta])* $name:ident, $instruction:literal) => {
        $(#[$doc])*
        pub fn $name(va: usize, bytes: usize) {
            let end = va.saturating_add(bytes);
            let mut line = va & !(LINE - 1);
            while end.saturating_sub(line) >= 64 * LINE {
                lines!($instruction, 64, line);
            }
            while line < end {
                lines!($instruction, 1, line);
            }
            fence();
        }
    };
}

by_line!(clean, "cbo.clean");
by_line!(invalidate, "cbo.inval");
by_line!(clean_invalidate, "cbo.flush");

/// `fence.i` covers all addresses of this hart; other harts need their own.
pub fn sync_code(_va: usize, _bytes: usize) {
    // SAFETY: a barrier; instruction fetches are coherent with the domain's data caches.
    unsafe { asm!("fence rw, rw", "fence.i", options(nostack)) };
}

pub fn complete() {
    fence();
}

/// Completes maintenance before anything later, as devices and other domains see it.
fn fence() {
    #[cfg(feature = "seeded")]
    if crate::seeded::is(crate::seeded::Seed::NoBarrier) {
        return;
    }
    // SAFETY: a barrier.
    unsafe { asm!("fence iorw, iorw", options(nostack)) };
}
