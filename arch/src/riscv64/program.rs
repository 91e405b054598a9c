//! Where code of programs calls one of ours with nothing in between.

use crate::types::Called;
use core::arch::naked_asm;

/// What a program's code may call: `C`, with the caller's context and three numbers. Cranelift's
/// convention for them is C's, with the callee's context first.
///
/// # Safety
/// Only such code calls it.
#[unsafe(naked)]
pub unsafe extern "C" fn called<C: Called>() {
    naked_asm!(
        "mv a0, a1",
        "mv a1, a2",
        "mv a2, a3",
        "mv a3, a4",
        "tail {call}",
        call = sym C::call,
    )
}
