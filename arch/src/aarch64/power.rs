//! Sleep through a power-off of the domain.
//!
//! ```text
//! suspend -1-> saved -2-> off(): the soc cuts power -3-> stub -4-> warm -5-> suspend returns
//! ```
//! 1: registers to `Resume`; 2: its physical address to `RESUME`; 3: the soc starts the domain; 4:
//! the stub jumps to the warm entry, MMU off; 5: the kernel's table, vectors, stack and
//! callee-saved registers are restored.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering};

use base::addr::VirtAddr;

use super::entry::{BOOT_TABLE, kernel_regime, mmu_on};
use super::registers::CPACR;
use super::{cache, cpu, early, psci};

/// The assembly below relies on this layout.
#[repr(C, align(64))]
pub struct Resume {
    /// x19 to x30.
    x: [u64; 12],
    sp: u64,
    local: u64,
    ttbr1: u64,
    rest: u64,
    /// d8 to d15.
    d: [u64; 8],
}

const _: () = assert!(size_of::<Resume>() == 192);

impl Resume {
    pub const fn empty() -> Self {
        Resume { x: [0; 12], sp: 0, local: 0, ttbr1: 0, rest: 0, d: [0; 8] }
    }
}

/// Physical address of the current sleep's `Resume`, read with the MMU off.
static RESUME: AtomicU64 = AtomicU64::new(0);

/// Arguments of `step_off`.
struct Off<'a> {
    save: u64,
    off: &'a mut dyn FnMut(u64),
}

pub fn suspend(save: &mut Resume, off: &mut dyn FnMut(u64)) {
    let on = cpu::irqs_off();
    let mut step = Off { save: core::ptr::from_mut(save) as u64, off };
    // SAFETY: `save` and `step` outlive the call, which returns once, in either way.
    unsafe { save_and_call(save, step_off, &mut step) };
    early::init();
    cpu::irqs_restore(on);
}

pub fn cpu_off() -> ! {
    cpu::irqs_off();
    psci::cpu_off();
    cpu::halt()
}

/// Called when everything is saved.
extern "C" fn step_off(step: &mut Off<'_>) {
    RESUME.store(VirtAddr(step.save).to_phys().0, Ordering::Relaxed);
    cache::clean(step.save as usize, size_of::<Resume>());
    cache::clean(&raw const RESUME as usize, size_of::<AtomicU64>());
    (step.off)(VirtAddr(warm as *const () as u64).to_phys().0);
}

/// Fills x0, then calls x1 with x2. Returns when that call returns, or from `warm`.
#[unsafe(naked)]
unsafe extern "C" fn save_and_call(
    save: *mut Resume,
    call: for<'a, 'b> extern "C" fn(&'a mut Off<'b>),
    argument: *mut Off<'_>,
) {
    naked_asm!(
        "stp x19, x20, [x0]",
        "stp x21, x22, [x0, #16]",
        "stp x23, x24, [x0, #32]",
        "stp x25, x26, [x0, #48]",
        "stp x27, x28, [x0, #64]",
        "stp x29, x30, [x0, #80]",
        "mov x9, sp",
        "mrs x10, tpidr_el1",
        "stp x9, x10, [x0, #96]",
        "mrs x9, ttbr1_el1",
        "str x9, [x0, #112]",
        "stp d8, d9, [x0, #128]",
        "stp d10, d11, [x0, #144]",
        "stp d12, d13, [x0, #160]",
        "stp d14, d15, [x0, #176]",
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "mov x0, x2",
        "blr x1",
        "ldp x29, x30, [sp], #16",
        "ret",
    )
}

#[unsafe(naked)]
#[unsafe(link_section = ".text.entry")]
extern "C" fn warm() -> ! {
    naked_asm!(
        "msr daifset, #15",
        "mov x9, #{cpacr}",
        "msr cpacr_el1, x9",
        "isb",
        "adrp x9, {resume}",
        "ldr x19, [x9, :lo12:{resume}]",
        "ldr x0, [x19, #112]",
        "adrp x1, {table}",
        "bl {mmu_on}",
        "bl {regime}",
        "ldr x9, ={offset}",
        "add x0, x19, x9",
        "ldp x9, x10, [x0, #96]",
        "mov sp, x9",
        "msr tpidr_el1, x10",
        "ldp d8, d9, [x0, #128]",
        "ldp d10, d11, [x0, #144]",
        "ldp d12, d13, [x0, #160]",
        "ldp d14, d15, [x0, #176]",
        "ldp x19, x20, [x0]",
        "ldp x21, x22, [x0, #16]",
        "ldp x23, x24, [x0, #32]",
        "ldp x25, x26, [x0, #48]",
        "ldp x27, x28, [x0, #64]",
        "ldp x29, x30, [x0, #80]",
        "ret",
        cpacr = const CPACR,
        resume = sym RESUME,
        table = sym BOOT_TABLE,
        mmu_on = sym mmu_on,
        regime = sym kernel_regime,
        offset = const abi::boot::VA_OFFSET,
    )
}
