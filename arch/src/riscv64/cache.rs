//! Cache maintenance by address, to the point of coherency (Zicbom).

use core::arch::asm;

/// Bytes of a line.
pub const LINE: usize = 64;

/// The instruction at a register's address, so often, each a line further.
macro_rules! lines {
    ($instruction:literal, $count:literal, $line:ident) => {
        // SAFETY: the caller names memory of its own that is mapped; see the contract.
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

by_line!(
    /// Writes dirty lines back.
    clean, "cbo.clean"
);
by_line!(
    /// Drops lines; dirty data in them is lost, also what shares a line with the range's ends.
    invalidate, "cbo.inval"
);
by_line!(
    /// Writes dirty lines back and drops them.
    clean_invalidate, "cbo.flush"
);

/// Makes code written to this range executable on this hart; other harts need their own.
pub fn sync_code(_va: usize, _bytes: usize) {
    // SAFETY: orders; `fence.i` covers all addresses, and instruction fetch is coherent with the
    // domain's own data caches.
    unsafe { asm!("fence rw, rw", "fence.i", options(nostack)) };
}

/// What was maintained is maintained before anything later, devices and other domains included.
fn fence() {
    #[cfg(feature = "seeded")]
    if crate::seeded::is(crate::seeded::Seed::NoBarrier) {
        return;
    }
    // SAFETY: a barrier.
    unsafe { asm!("fence iorw, iorw", options(nostack)) };
}
