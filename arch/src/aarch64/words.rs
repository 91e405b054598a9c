//! Accesses to memory between domains.

use core::arch::naked_asm;

macro_rules! accesses {
    ($load:ident, $store:ident, $word:ty, $register:literal) => {
        /// # Safety
        /// `at` is aligned and mapped.
        #[unsafe(naked)]
        #[unsafe(link_section = ".text.xdomain")]
        pub unsafe extern "C" fn $load(at: *const $word) -> $word {
            naked_asm!(concat!("ldr ", $register, "0, [x0]"), "ret")
        }

        /// # Safety
        /// `at` is aligned and mapped, and this domain is the word's one writer.
        #[unsafe(naked)]
        #[unsafe(link_section = ".text.xdomain")]
        pub unsafe extern "C" fn $store(at: *mut $word, value: $word) {
            naked_asm!(concat!("str ", $register, "1, [x0]"), "ret")
        }
    };
}

accesses!(load64, store64, u64, "x");
accesses!(load32, store32, u32, "w");

macro_rules! copies {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(link_section = ".text.xdomain")]
        pub unsafe extern "C" fn $name(from: *const u64, to: *mut u64, count: usize) {
            naked_asm!(
                // Four words at a time, as long as there are so many.
                "subs x2, x2, #4",
                "b.lt 2f",
                "1: ldr x3, [x0], #8",
                "str x3, [x1], #8",
                "ldr x3, [x0], #8",
                "str x3, [x1], #8",
                "ldr x3, [x0], #8",
                "str x3, [x1], #8",
                "ldr x3, [x0], #8",
                "str x3, [x1], #8",
                "subs x2, x2, #4",
                "b.ge 1b",
                "2: adds x2, x2, #4",
                "b.eq 4f",
                "3: ldr x3, [x0], #8",
                "str x3, [x1], #8",
                "subs x2, x2, #1",
                "b.ne 3b",
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
    naked_asm!("dmb osh", "ret")
}

/// # Safety
/// `at` is aligned and mapped.
#[unsafe(naked)]
#[unsafe(link_section = ".text.xdomain")]
pub unsafe extern "C" fn acquire64(at: *const u64) -> u64 {
    naked_asm!("ldar x0, [x0]", "ret")
}

/// # Safety
/// `at` is aligned and mapped, and this domain is the word's one writer.
#[unsafe(naked)]
#[unsafe(link_section = ".text.xdomain")]
pub unsafe extern "C" fn release64(at: *mut u64, value: u64) {
    naked_asm!("stlr x1, [x0]", "ret")
}
