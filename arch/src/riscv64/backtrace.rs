//! Where frames have their records: behind them is where a frame pointer points, but in code that
//! Cranelift made, where it points at them.

use core::arch::asm;

pub use super::mmu::is_readable;

/// The caller's frame pointer.
#[inline(always)]
pub fn fp() -> u64 {
    let fp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, s0", out(reg) fp, options(nomem, nostack)) };
    fp
}

/// Where the caller's frame pointer and the return address are, of the frame at `fp`.
pub fn record(fp: u64, of_program: bool) -> u64 {
    if of_program { fp } else { fp.wrapping_sub(16) }
}
