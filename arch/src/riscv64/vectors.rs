//! The trap entry: save everything, call Rust, restore everything.
//!
//! All traps come from S-mode, on the interrupted code's stack. An exception may mean a stack
//! overflow: then the faulting address is in the page of `sp` (a store just below it), or in the
//! frame that this entry was about to write below `sp`. A mapped stack faults in neither place, so
//! in both cases the frame goes to the hart's emergency stack. In the second case the frame has
//! this entry as its pc, but `sp` still identifies the stack. This requires only that the page
//! below each kernel stack is unmapped.

use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

use abi::boot::MAX_CORES;

use super::cpu::Hart;
use super::frame::FRAME;

/// Bytes of an emergency stack.
const EMERGENCY: usize = 16 << 10;

#[repr(C, align(4096))]
struct Stacks(UnsafeCell<[[u8; EMERGENCY]; MAX_CORES]>);
// SAFETY: each hart uses only its own element: the `emergency_top` of its `Hart`.
unsafe impl Sync for Stacks {}

static EMERGENCY_STACKS: Stacks = Stacks(UnsafeCell::new([[0; EMERGENCY]; MAX_CORES]));

/// Top of the emergency stack of `core`.
pub(super) fn emergency_top(core: usize) -> usize {
    EMERGENCY_STACKS.0.get() as usize + (core + 1) * EMERGENCY
}

unsafe extern "C" {
    pub safe static trap_vector: u32;
}

global_asm!(
    r#"
    .section .text.vectors, "ax", %progbits
    .option push
    .option arch, +d, +a        // global asm does not know the target's features
    .global trap_vector
    .balign 4
    trap_vector:
    sd t0, {saved}(tp)
    sd t1, {saved}+8(tp)
    csrr t0, scause
    bltz t0, 1f
    csrr t0, stval          // does stval lie in [sp - FRAME, sp) or in the page of sp?
    sub t1, sp, t0
    addi t1, t1, -1
    sltiu t1, t1, {frame}
    bnez t1, 2f
    xor t0, t0, sp
    srli t0, t0, 12
    beqz t0, 2f
    1:
    ld t0, {saved}(tp)
    ld t1, {saved}+8(tp)
    csrw sscratch, sp
    j 3f
    2:
    ld t0, {saved}(tp)
    ld t1, {saved}+8(tp)
    csrw sscratch, sp
    ld sp, {emergency}(tp)
    3:
    addi sp, sp, -{frame}
    .irp n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd x\n, 8*\n(sp)
    .endr
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    fsd f\n, 304+8*\n(sp)
    .endr
    csrr t0, sscratch
    sd t0, 16(sp)
    csrr t1, sepc
    sd t1, 256(sp)
    csrr t0, sstatus
    sd t0, 264(sp)
    csrr t0, scause
    sd t0, 272(sp)
    csrr t0, stval
    sd t0, 280(sp)
    csrr t0, fcsr
    sd t0, 288(sp)
    sd s0, 560(sp)
    sd t1, 568(sp)
    addi s0, sp, {frame}
    mv a0, sp
    call {rust}

    ld t0, 256(sp)
    addi t1, sp, 256        // clear a reservation of the handler: an interrupted
    sc.d zero, t0, (t1)     // lr/sc pair must fail; the word keeps its value
    csrw sepc, t0
    ld t0, 264(sp)
    csrw sstatus, t0
    ld t0, 288(sp)
    csrw fcsr, t0
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    fld f\n, 304+8*\n(sp)
    .endr
    .irp n, 1,3,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld x\n, 8*\n(sp)
    .endr
    ld sp, 16(sp)
    sret
    .option pop
    .text
    "#,
    saved = const offset_of!(Hart, saved),
    emergency = const offset_of!(Hart, emergency_top),
    frame = const FRAME,
    rust = sym super::dispatch::trap_entry,
);
