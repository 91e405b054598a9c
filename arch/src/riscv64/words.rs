//! The only accesses that cross domains, all in one linker section: aligned words, loaded and
//! stored whole, one writer a word, ordered by full barriers over memory and I/O.

use core::arch::asm;

macro_rules! accesses {
    ($load:ident, $store:ident, $word:ty, $load_op:literal, $store_op:literal) => {
        /// Loads a word that another domain may write.
        ///
        /// # Safety
        /// `at` is aligned and mapped.
        #[inline(never)]
        #[unsafe(link_section = ".text.xdomain")]
        pub unsafe fn $load(at: *const $word) -> $word {
            let value: $word;
            // SAFETY: the caller's obligation; asm, so one access of this width.
            unsafe {
                asm!(concat!($load_op, " {}, 0({})"),
                    out(reg) value, in(reg) at, options(nostack))
            };
            value
        }

        /// Stores a word that another domain may read.
        ///
        /// # Safety
        /// `at` is aligned and mapped, and this domain is the word's one writer.
        #[inline(never)]
        #[unsafe(link_section = ".text.xdomain")]
        pub unsafe fn $store(at: *mut $word, value: $word) {
            // SAFETY: as in the load.
            unsafe {
                asm!(concat!($store_op, " {}, 0({})"),
                    in(reg) value, in(reg) at, options(nostack))
            };
        }
    };
}

accesses!(load64, store64, u64, "ld", "sd");
accesses!(load32, store32, u32, "lwu", "sw");

/// Accesses before it are seen by every domain before accesses after it.
#[inline(never)]
#[unsafe(link_section = ".text.xdomain")]
pub fn barrier() {
    // SAFETY: a barrier.
    unsafe { asm!("fence iorw, iorw", options(nostack)) };
}

/// Swaps a word of the hardware spinlock bank; on no other memory, because only the bank makes
/// this one step for all domains.
///
/// # Safety
/// `at` is a lock of the bank, aligned and mapped.
#[inline(never)]
#[unsafe(link_section = ".text.xdomain")]
pub unsafe fn swap64(at: *mut u64, value: u64) -> u64 {
    let old: u64;
    // SAFETY: the caller's obligation.
    unsafe {
        asm!("amoswap.d.aqrl {}, {}, ({})",
            out(reg) old, in(reg) value, in(reg) at, options(nostack))
    };
    old
}
