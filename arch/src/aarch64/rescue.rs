//! Calls that can be abandoned. `rescue_call` saves the callee-saved registers on the caller's
//! stack and stores its `sp`; `rescue_landing`, entered by a trap frame with that `sp`, restores
//! them. A call that returns has restored them itself.

use core::arch::global_asm;

global_asm!(
    ".section .text.rescue, \"ax\"",
    ".global rescue_call, rescue_landing",
    "rescue_call: stp x29, x30, [sp, #-160]!",
    "  mov x29, sp",
    "  stp x19, x20, [sp, #16]",
    "  stp x21, x22, [sp, #32]",
    "  stp x23, x24, [sp, #48]",
    "  stp x25, x26, [sp, #64]",
    "  stp x27, x28, [sp, #80]",
    "  stp d8, d9, [sp, #96]",
    "  stp d10, d11, [sp, #112]",
    "  stp d12, d13, [sp, #128]",
    "  stp d14, d15, [sp, #144]",
    "  mov x9, sp",
    "  str x9, [x0]",
    "  mov x0, x2",
    "  blr x1",
    "  mov x0, #0",
    "  ldp x29, x30, [sp], #160",
    "  ret",
    "rescue_landing: mov x0, #1",
    "  ldp x19, x20, [sp, #16]",
    "  ldp x21, x22, [sp, #32]",
    "  ldp x23, x24, [sp, #48]",
    "  ldp x25, x26, [sp, #64]",
    "  ldp x27, x28, [sp, #80]",
    "  ldp d8, d9, [sp, #96]",
    "  ldp d10, d11, [sp, #112]",
    "  ldp d12, d13, [sp, #128]",
    "  ldp d14, d15, [sp, #144]",
    "  ldp x29, x30, [sp], #160",
    "  ret",
    ".text",
);
