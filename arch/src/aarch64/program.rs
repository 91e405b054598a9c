//! Where code of programs calls one of ours with nothing in between.

use crate::types::Called;
use core::arch::naked_asm;

/// What a program's code may call for `C`.
pub fn called<C: Called>() -> u64 {
    entry::<C> as *const () as u64
}

/// Cranelift's convention for such code begins at x2, with the context of who is called and that of
/// who calls, and has the answer in x2. The frame is the one that [`crate::backtrace::redirect`]
/// finds.
#[unsafe(naked)]
unsafe extern "C" fn entry<C: Called>() {
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
