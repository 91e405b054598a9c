//! Kernel functions that compiled code of programs calls directly.

use crate::types::DirectImport;
use core::arch::naked_asm;

pub fn import_address<C: DirectImport>() -> u64 {
    entry::<C> as *const () as u64
}

/// Cranelift's convention for such code passes arguments from x2 on, starting with the contexts of
/// callee and caller, and returns the result in x2. [`crate::backtrace::redirect`] finds this
/// frame.
#[unsafe(naked)]
unsafe extern "C" fn entry<C: DirectImport>() {
    naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x2, x3, [sp, #16]",
        "mov x0, x3",
        "mov x1, x4",
        "mov x2, x5",
        "mov x3, x6",
        "mov x4, x7",
        "bl {call}",
        "cbnz x1, 1f",
        "mov x2, x0",
        "ldp x29, x30, [sp], #32",
        "ret",
        "1:",
        "mov x16, x1",
        "ldp x2, x3, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "br x16",
        call = sym C::call,
    )
}
