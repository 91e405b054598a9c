//! The exception vectors: save everything, call Rust, restore everything.
//!
//! All exceptions come from EL1, on the interrupted code's stack. A synchronous one may mean a
//! stack overflow, so it first asks the MMU (`AT S1E1W`) whether both ends of the new frame and a
//! page below it are writable, which detects every guard of a page or more; if not, it switches to
//! the core's emergency stack. TPIDR_EL0 and TPIDRRO_EL0 are scratch registers here (there is no
//! EL0); their use ends before anything can interrupt.

use core::arch::global_asm;
use core::cell::UnsafeCell;

use abi::boot::MAX_CORES;

/// Bytes of an emergency stack; a shift below depends on it.
const EMERGENCY: usize = 1 << 14;

#[repr(C, align(4096))]
struct Stacks(UnsafeCell<[[u8; EMERGENCY]; MAX_CORES]>);
// SAFETY: each core uses only its own element, by its index, in `vectors` below.
unsafe impl Sync for Stacks {}

static EMERGENCY_STACKS: Stacks = Stacks(UnsafeCell::new([[0; EMERGENCY]; MAX_CORES]));

unsafe extern "C" {
    /// The vector table; only its address is used.
    pub safe static exception_vectors: [u32; 512];
}

global_asm!(
    r#"
    .section .text.vectors, "ax", %progbits

    // Stores all registers except x0, x1 and sp, which the entries store, and makes a frame
    // record at the end of the frame.
    .macro SAVE_REST
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x17, [sp, #128]
    stp x18, x19, [sp, #144]
    stp x20, x21, [sp, #160]
    stp x22, x23, [sp, #176]
    stp x24, x25, [sp, #192]
    stp x26, x27, [sp, #208]
    stp x28, x29, [sp, #224]
    str x30, [sp, #240]
    mrs x2, elr_el1
    mrs x3, spsr_el1
    stp x2, x3, [sp, #256]
    mrs x4, fpcr
    mrs x5, fpsr
    stp x4, x5, [sp, #288]
    add x6, sp, #816
    stp x29, x2, [x6]
    mov x29, x6
    add x6, sp, #304
    stp q0, q1, [x6]
    stp q2, q3, [x6, #32]
    stp q4, q5, [x6, #64]
    stp q6, q7, [x6, #96]
    stp q8, q9, [x6, #128]
    stp q10, q11, [x6, #160]
    stp q12, q13, [x6, #192]
    stp q14, q15, [x6, #224]
    stp q16, q17, [x6, #256]
    stp q18, q19, [x6, #288]
    stp q20, q21, [x6, #320]
    stp q22, q23, [x6, #352]
    stp q24, q25, [x6, #384]
    stp q26, q27, [x6, #416]
    stp q28, q29, [x6, #448]
    stp q30, q31, [x6, #480]
    .endm

    // Branches to 2 below if a store to \at would fault. Clobbers \at.
    .macro PROBE at
    at s1e1w, \at
    isb
    mrs \at, par_el1
    tbnz \at, #0, 2f
    .endm

    .balign 2048
    .global exception_vectors
    exception_vectors:
    .rept 4                 // current EL with SP_EL0: never selected
    b sync_entry
    .balign 128
    .endr
    b sync_entry            // current EL with SP_ELx: what the kernel runs with
    .balign 128
    b irq_entry
    .balign 128
    b sync_entry            // FIQ
    .balign 128
    b sync_entry            // SError
    .balign 128
    .rept 8                 // lower EL: there is none
    b sync_entry
    .balign 128
    .endr

    irq_entry:
    sub sp, sp, #832
    stp x0, x1, [sp]
    add x0, sp, #832
    str x0, [sp, #248]
    SAVE_REST
    mov x0, sp
    bl {interrupt}
    b restore

    sync_entry:
    msr tpidr_el0, x0
    msr tpidrro_el0, x1
    mov x1, sp
    sub x0, x1, #16
    PROBE x0
    sub x0, x1, #832
    PROBE x0
    sub x0, x1, #832
    sub x0, x0, #1, lsl #12
    PROBE x0
    1:
    sub sp, sp, #832
    str x1, [sp, #248]
    mrs x0, tpidr_el0
    mrs x1, tpidrro_el0
    stp x0, x1, [sp]
    SAVE_REST
    mrs x0, esr_el1
    mrs x1, far_el1
    stp x0, x1, [sp, #272]
    mov x0, sp
    bl {fault}
    b restore

    2:                      // overflow: use the emergency stack, unless already on it
    adrp x0, {stacks}
    add x0, x0, :lo12:{stacks}
    sub x0, x1, x0
    lsr x0, x0, #17         // all stacks: 8 x 2^14
    cbz x0, 1b
    mrs x0, mpidr_el1
    and x0, x0, #7
    add x0, x0, #1
    lsl x0, x0, #14
    mov sp, x0
    adrp x0, {stacks}
    add x0, x0, :lo12:{stacks}
    add sp, sp, x0
    b 1b

    restore:
    ldp x2, x3, [sp, #256]
    msr elr_el1, x2
    msr spsr_el1, x3
    ldp x4, x5, [sp, #288]
    msr fpcr, x4
    msr fpsr, x5
    add x6, sp, #304
    ldp q0, q1, [x6]
    ldp q2, q3, [x6, #32]
    ldp q4, q5, [x6, #64]
    ldp q6, q7, [x6, #96]
    ldp q8, q9, [x6, #128]
    ldp q10, q11, [x6, #160]
    ldp q12, q13, [x6, #192]
    ldp q14, q15, [x6, #224]
    ldp q16, q17, [x6, #256]
    ldp q18, q19, [x6, #288]
    ldp q20, q21, [x6, #320]
    ldp q22, q23, [x6, #352]
    ldp q24, q25, [x6, #384]
    ldp q26, q27, [x6, #416]
    ldp q28, q29, [x6, #448]
    ldp q30, q31, [x6, #480]
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x16, x17, [sp, #128]
    ldp x18, x19, [sp, #144]
    ldp x20, x21, [sp, #160]
    ldp x22, x23, [sp, #176]
    ldp x24, x25, [sp, #192]
    ldp x26, x27, [sp, #208]
    ldp x28, x29, [sp, #224]
    ldr x30, [sp, #240]
    ldr x1, [sp, #248]      // the interrupted sp: on another stack after an overflow
    mov x0, sp
    mov sp, x1
    ldp x0, x1, [x0]
    eret
    .text
    "#,
    interrupt = sym super::dispatch::interrupt_entry,
    fault = sym super::dispatch::fault_entry,
    stacks = sym EMERGENCY_STACKS,
);

const _: () = assert!(EMERGENCY * MAX_CORES == 1 << 17);
