//! The only accesses that cross domains, all in one linker section: aligned words, loaded and
//! stored whole, one writer a word, ordered by full outer-shareable barriers.

use core::arch::asm;

macro_rules! accesses {
    ($load:ident, $store:ident, $word:ty, $register:literal) => {
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
                asm!(concat!("ldr {v:", $register, "}, [{at}]"),
                    v = out(reg) value, at = in(reg) at, options(nostack))
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
                asm!(concat!("str {v:", $register, "}, [{at}]"),
                    v = in(reg) value, at = in(reg) at, options(nostack))
            };
        }
    };
}

accesses!(load64, store64, u64, "x");
accesses!(load32, store32, u32, "w");

/// Accesses before it are seen by every domain before accesses after it.
#[inline(never)]
#[unsafe(link_section = ".text.xdomain")]
pub fn barrier() {
    // SAFETY: a barrier.
    unsafe { asm!("dmb osh", options(nostack)) };
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
        asm!(".arch_extension lse", "swpal {v}, {old}, [{at}]",
            v = in(reg) value, old = out(reg) old, at = in(reg) at, options(nostack))
    };
    old
}
