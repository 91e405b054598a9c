//! Kernel functions that compiled code of programs calls directly.

use crate::types::DirectImport;
use core::arch::naked_asm;

pub fn import_address<C: DirectImport>() -> u64 {
    entry::<C> as *const () as u64
}

/// Cranelift's convention for such code is that of C, except that 32-bit values are not extended.
/// The first two arguments are the contexts of callee and caller. [`crate::backtrace::redirect`]
/// finds this frame.
#[unsafe(naked)]
unsafe extern "C" fn entry<C: DirectImport>() {
    naked_asm!(
        "addi sp, sp, -32",
        "sd ra, 24(sp)",
        "sd s0, 16(sp)",
        "addi s0, sp, 32",
        "sd a0, 0(sp)",
        "sd a1, 8(sp)",
        "mv a0, a1",
        "mv a1, a2",
        "mv a2, a3",
        "mv a3, a4",
        "mv a4, a5",
        "call {call}",
        "bnez a1, 1f",
        "ld s0, 16(sp)",
        "ld ra, 24(sp)",
        "addi sp, sp, 32",
        "ret",
        "1:",
        "mv t1, a1",
        "ld a0, 0(sp)",
        "ld a1, 8(sp)",
        "ld s0, 16(sp)",
        "ld ra, 24(sp)",
        "addi sp, sp, 32",
        "jr t1",
        call = sym C::call,
    )
}
