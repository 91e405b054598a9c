//! Accesses that may fault: `probe_*` return 1 in x1 after `probe_fixed` has handled a fault.

use core::arch::global_asm;

global_asm!(
    ".section .text.probe, \"ax\"",
    ".global probe_load, probe_store, probe_execute, probe_fixed, probe_execute_fixed",
    "probe_load: ldr x0, [x0]",
    "  mov x1, #0",
    "  ret",
    "probe_store: str x1, [x0]",
    "  mov x1, #0",
    "  ret",
    "probe_fixed: mov x1, #1",
    "  ret",
    "probe_execute: stp x29, x30, [sp, #-16]!",
    "  blr x0",
    "  ldp x29, x30, [sp], #16",
    "  mov x1, #0",
    "  ret",
    "probe_execute_fixed: ldp x29, x30, [sp], #16",
    "  mov x1, #1",
    "  ret",
);
