//! Frame records. The frame pointer points to the record, in code of every compiler.

use core::arch::asm;

use abi::boot::VA_OFFSET;

use super::{cpu, registers::read};

#[inline(always)]
pub fn fp() -> u64 {
    let fp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, x29", out(reg) fp, options(nomem, nostack)) };
    fp
}

pub fn record(fp: u64, _of_program: bool) -> u64 {
    fp
}

/// Has the MMU translate the address for a read.
pub fn is_readable(va: u64) -> bool {
    if va < VA_OFFSET {
        return false;
    }
    let on = cpu::irqs_off();
    // SAFETY: only translates; the result is in PAR_EL1, which nothing else uses in between.
    unsafe { asm!("at s1e1r, {}", "isb", in(reg) va, options(nostack)) };
    let answer = read!("par_el1");
    cpu::irqs_restore(on);
    answer & 1 == 0
}
