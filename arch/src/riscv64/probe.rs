//! Accesses that may fault: `probe_*` return 1 in a1 after `probe_fixed` has handled a fault.

use core::arch::global_asm;

global_asm!(
    ".section .text.probe, \"ax\"",
    ".global probe_load, probe_store, probe_execute, probe_fixed, probe_execute_fixed",
    "probe_load: ld a0, 0(a0)",
    "  li a1, 0",
    "  ret",
    "probe_store: sd a1, 0(a0)",
    "  li a1, 0",
    "  ret",
    "probe_fixed: li a1, 1",
    "  ret",
    "probe_execute: addi sp, sp, -16",
    "  sd ra, 8(sp)",
    "  sd s0, 0(sp)",
    "  addi s0, sp, 16",
    "  jalr a0",
    "  ld ra, 8(sp)",
    "  ld s0, 0(sp)",
    "  addi sp, sp, 16",
    "  li a1, 0",
    "  ret",
    "probe_execute_fixed: ld ra, 8(sp)",
    "  ld s0, 0(sp)",
    "  addi sp, sp, 16",
    "  li a1, 1",
    "  ret",
    ".text",
);
