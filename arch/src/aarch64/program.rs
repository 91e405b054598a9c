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
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "mov x0, x3",
        "mov x1, x4",
        "mov x2, x5",
        "mov x3, x6",
        "bl {call}",
        "mov x2, x0",
        "ldp x29, x30, [sp], #16",
        "ret",
        call = sym C::call,
    )
}
