//! Accesses to memory between domains.

use core::arch::naked_asm;

macro_rules! accesses {
    ($load:ident, $store:ident, $word:ty, $load_op:literal, $store_op:literal) => {
        /// # Safety
        /// `at` is aligned and mapped.
        #[unsafe(naked)]
        #[unsafe(link_section = ".text.xdomain")]
        pub unsafe extern "C" fn $load(at: *const $word) -> $word {
            naked_asm!(concat!($load_op, " a0, 0(a0)"), "ret")
        }

        /// # Safety
        /// `at` is aligned and mapped, and this domain is the word's one writer.
        #[unsafe(naked)]
        #[unsafe(link_section = ".text.xdomain")]
        pub unsafe extern "C" fn $store(at: *mut $word, value: $word) {
            naked_asm!(concat!($store_op, " a1, 0(a0)"), "ret")
        }
    };
}

accesses!(load64, store64, u64, "ld", "sd");
accesses!(load32, store32, u32, "lwu", "sw");

macro_rules! copies {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(link_section = ".text.xdomain")]
        pub unsafe extern "C" fn $name(from: *const u64, to: *mut u64, count: usize) {
            naked_asm!(
                // Four words at a time, as long as there are so many.
                "addi a2, a2, -4",
                "bltz a2, 2f",
                "1: ld a3, 0(a0)",
                "sd a3, 0(a1)",
                "ld a3, 8(a0)",
                "sd a3, 8(a1)",
                "ld a3, 16(a0)",
                "sd a3, 16(a1)",
                "ld a3, 24(a0)",
                "sd a3, 24(a1)",
                "addi a0, a0, 32",
                "addi a1, a1, 32",
                "addi a2, a2, -4",
                "bgez a2, 1b",
                "2: addi a2, a2, 4",
                "beqz a2, 4f",
                "3: ld a3, 0(a0)",
                "sd a3, 0(a1)",
                "addi a0, a0, 8",
                "addi a1, a1, 8",
                "addi a2, a2, -1",
                "bnez a2, 3b",
                "4: ret",
            )
        }
    };
}

copies!(
    /// Loads `count` words into memory of the caller, the first one first.
    ///
    /// # Safety
    /// The words are aligned and mapped. Only the caller accesses `to`, which has as many.
    load_all
);
copies!(
    /// Stores `count` words from memory of the caller, the first one first.
    ///
    /// # Safety
    /// The places are aligned and mapped, and this domain is their one writer. `from` has as many
    /// words.
    store_all
);

#[unsafe(naked)]
#[unsafe(link_section = ".text.xdomain")]
pub extern "C" fn barrier() {
    naked_asm!("fence iorw, iorw", "ret")
}

/// # Safety
/// `at` is aligned and mapped.
#[unsafe(naked)]
#[unsafe(link_section = ".text.xdomain")]
pub unsafe extern "C" fn acquire64(at: *const u64) -> u64 {
    naked_asm!("ld a0, 0(a0)", "fence ir, iorw", "ret")
}

/// # Safety
/// `at` is aligned and mapped, and this domain is the word's one writer.
#[unsafe(naked)]
#[unsafe(link_section = ".text.xdomain")]
pub unsafe extern "C" fn release64(at: *mut u64, value: u64) {
    naked_asm!("fence iorw, ow", "sd a1, 0(a0)", "ret")
}
