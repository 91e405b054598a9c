//! Where code of programs calls one of ours with nothing in between.

use crate::types::Called;
use core::arch::naked_asm;

/// What a program's code may call: `C`, with the caller's context and three numbers. Cranelift's
/// convention for them begins at x2, with the callee's context, and has the answer there.
///
/// # Safety
/// Only such code calls it.
#[unsafe(naked)]
pub unsafe extern "C" fn called<C: Called>() {
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
