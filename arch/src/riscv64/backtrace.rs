//! Frame records: before the address in the frame pointer or, in code that Cranelift compiled, at
//! it.

use core::arch::asm;

pub use super::mmu::is_readable;

#[inline(always)]
pub fn fp() -> u64 {
    let fp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, s0", out(reg) fp, options(nomem, nostack)) };
    fp
}

pub fn record(fp: u64, of_program: bool) -> u64 {
    if of_program { fp } else { fp.wrapping_sub(16) }
}
