//! Entries into the image: cold boot (core 0) and secondary cores here, warm boot in `power`. All
//! start in S-mode at a physical address with the MMU off. To turn the MMU on without an identity
//! mapping, stvec is set to the upper-half address of the instruction after the write of satp,
//! whose fetch then faults.

use core::arch::naked_asm;
use core::sync::atomic::Ordering;

use abi::boot::VA_OFFSET;

use super::{boot_table, cpu, image, trap, vectors};

unsafe extern "Rust" {
    safe fn kernel_main(blob_pa: u64, domain: u64, epoch: u64) -> !;
}

/// Masks interrupts, stops the timer, turns the FPU on.
macro_rules! quiet {
    () => {
        "csrw sie, zero
        csrci sstatus, 2
        li t0, -1
        csrw 0x14d, t0
        li t0, 0x6000
        csrs sstatus, t0"
    };
}

/// Turns the MMU on with the satp in t2 and continues in the upper half. Clobbers t0, t1.
macro_rules! mmu_on {
    () => {
        "lla t0, 77f
        li t1, {offset}
        add t0, t0, t1
        csrw stvec, t0
        sfence.vma
        csrw satp, t2
        nop
        .balign 4
        77:
        sfence.vma"
    };
}

pub(super) use {mmu_on, quiet};

/// Cold boot of core 0: a0 blob, a1 domain, a2 epoch, a3 staging area; bss is zero.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.entry")]
unsafe extern "C" fn _start() -> ! {
    naked_asm!(
        quiet!(),
        "mv s1, a0",
        "mv s2, a1",
        "mv s3, a2",
        "mv s4, a3",
        "mv s0, zero",
        "lla sp, __boot_stack_top",
        "lla a0, {tables}",
        "lla a1, __text_start",
        "lla a2, __image_end",
        "mv a3, s1",
        "mv a4, s4",
        "call {build}",
        "mv t2, a0",
        mmu_on!(),
        "lla sp, __boot_stack_top",
        "lla tp, {harts}",
        "mv a0, s1",
        "mv a1, s2",
        "mv a2, s3",
        "mv a3, s4",
        "mv s0, zero",
        "mv ra, zero",
        "tail {boot}",
        offset = const VA_OFFSET as i64,
        tables = sym boot_table::BOOT_TABLES,
        build = sym boot_table::build,
        harts = sym cpu::HARTS,
        boot = sym boot,
    )
}

/// The rest of the cold boot, in the upper half.
extern "C" fn boot(blob: u64, domain: u64, epoch: u64, staging: u64) -> ! {
    // SAFETY: core 0's element, used only by this core, and not yet.
    unsafe { (*cpu::hart_of(0)).emergency_top = vectors::emergency_top(0) };
    trap::set_vector();
    image::STAGING_PA.store(staging, Ordering::Relaxed);
    kernel_main(blob, domain, epoch)
}

/// Secondary core: a0 hart, a1 physical address of its `smp::Start`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn secondary() -> ! {
    naked_asm!(
        quiet!(),
        "ld t2, 0(a1)",
        "ld sp, 8(a1)",
        "ld s1, 16(a1)",
        "ld a0, 24(a1)",
        "ld tp, 32(a1)",
        mmu_on!(),
        "lla t0, {vector}",
        "csrw stvec, t0",
        "mv s0, zero",
        "mv ra, zero",
        "jr s1",
        offset = const VA_OFFSET as i64,
        vector = sym vectors::trap_vector,
    )
}
