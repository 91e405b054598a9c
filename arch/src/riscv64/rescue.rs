//! Calls that can be abandoned. `rescue_call` saves the callee-saved registers on the caller's
//! stack and stores its `sp`; `rescue_landing`, entered by a trap frame with that `sp`, restores
//! them. A call that returns has restored all but the frame pointer itself.

use core::arch::global_asm;

global_asm!(
    ".option push",
    ".option arch, +d", // this assembler does not know the target's features
    ".section .text.rescue, \"ax\"",
    ".global rescue_call, rescue_landing",
    "rescue_call: addi sp, sp, -208",
    "  sd ra, 200(sp)",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
    "  sd s\\n, 8*\\n(sp)",
    "  fsd fs\\n, 96+8*\\n(sp)",
    ".endr",
    "  sd sp, 0(a0)",
    "  mv a0, a2",
    "  addi s0, sp, 208",
    "  jalr a1",
    "  li a0, 0",
    "  ld s0, 0(sp)",
    "  j 1f",
    "rescue_landing: li a0, 1",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
    "  ld s\\n, 8*\\n(sp)",
    "  fld fs\\n, 96+8*\\n(sp)",
    ".endr",
    "1:",
    "  ld ra, 200(sp)",
    "  addi sp, sp, 208",
    "  ret",
    ".text",
    ".option pop",
);
