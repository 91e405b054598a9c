//! Sleep through a power-off of the domain, and stopping single cores.
//!
//! `suspend` works like `setjmp`: it stores the callee-saved and control registers, then calls
//! `off`. The warm entry, which the stub jumps to at its physical address with the MMU off,
//! restores them and returns from the same call. `suspend` cleans from the cache what the warm
//! entry reads before the MMU is on; the caller cleans the rest.

use core::arch::naked_asm;
use core::cell::UnsafeCell;

use abi::boot::VA_OFFSET;

use super::entry::{mmu_on, quiet};
use super::{cache, cpu, sbi};

const RESUME_SATP: usize = 216;

#[repr(C, align(64))]
pub struct Resume {
    ra: u64,
    sp: u64,
    s: [u64; 12],
    fs: [u64; 12],
    tp: u64,
    satp: u64,
    stvec: u64,
    sstatus: u64,
    sie: u64,
    fcsr: u64,
}

impl Resume {
    pub const fn empty() -> Self {
        Resume {
            ra: 0,
            sp: 0,
            s: [0; 12],
            fs: [0; 12],
            tp: 0,
            satp: 0,
            stvec: 0,
            sstatus: 0,
            sie: 0,
            fcsr: 0,
        }
    }
}

const _: () = assert!(core::mem::offset_of!(Resume, satp) == RESUME_SATP);
const _: () = assert!(core::mem::offset_of!(Resume, tp) == 208);

/// Physical and virtual address of the saved state, for the warm entry.
#[repr(C, align(64))]
struct Pointer(UnsafeCell<[u64; 2]>);
// SAFETY: used only by core 0 with interrupts masked, and by the warm entry, which is core 0.
unsafe impl Sync for Pointer {}

static RESUME: Pointer = Pointer(UnsafeCell::new([0; 2]));

/// `save` must be in the linear map.
pub fn suspend(save: &mut Resume, off: &mut dyn FnMut(u64)) {
    let on = cpu::irqs_off();
    let at = core::ptr::from_mut(save);
    // SAFETY: core 0 with interrupts masked: no other code uses it.
    unsafe { *RESUME.0.get() = [(at as u64).wrapping_sub(VA_OFFSET), at as u64] };
    cache::clean(RESUME.0.get() as usize, size_of::<Pointer>());
    let mut off = off;
    // SAFETY: `save` and `off` live until this returns, in either way.
    unsafe { save_and_call(at, call_off, (&raw mut off).cast()) };
    cpu::irqs_restore(on);
}

/// Called by `save_and_call` when everything is stored.
extern "C" fn call_off(save: *mut Resume, off: *mut &mut dyn FnMut(u64)) {
    cache::clean(save as usize, size_of::<Resume>());
    let warm = (warm as *const () as u64).wrapping_sub(VA_OFFSET);
    // SAFETY: the address that `suspend` passed, of a variable that is still alive.
    (unsafe { &mut *off })(warm);
}

/// Stores this core's state, then calls `call(save, argument)`. Returns after that call, or from
/// `warm`.
#[unsafe(naked)]
unsafe extern "C" fn save_and_call(
    save: *mut Resume,
    call: extern "C" fn(*mut Resume, *mut &mut dyn FnMut(u64)),
    argument: *mut &mut dyn FnMut(u64),
) {
    naked_asm!(
        ".option push",
        ".option arch, +d",
        "sd ra, 0(a0)",
        "sd sp, 8(a0)",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
        "sd s\\n, 16+8*\\n(a0)",
        "fsd fs\\n, 112+8*\\n(a0)",
        ".endr",
        "sd tp, 208(a0)",
        "csrr t0, satp",
        "sd t0, 216(a0)",
        "csrr t0, stvec",
        "sd t0, 224(a0)",
        "csrr t0, sstatus",
        "sd t0, 232(a0)",
        "csrr t0, sie",
        "sd t0, 240(a0)",
        "csrr t0, fcsr",
        "sd t0, 248(a0)",
        "mv s1, a0",
        "mv t0, a1",
        "mv a1, a2",
        "jalr t0",
        "mv a0, s1",
        "ld ra, 0(a0)",
        "ld s1, 24(a0)",
        "ret",
        ".option pop",
    )
}

/// Warm boot of core 0: returns from the `save_and_call` that stored the state.
#[unsafe(naked)]
unsafe extern "C" fn warm() -> ! {
    naked_asm!(
        quiet!(),
        "lla a1, {resume}",
        "ld a0, 8(a1)",
        "ld a1, 0(a1)",
        "ld t2, {satp}(a1)",
        mmu_on!(),
        ".option push",
        ".option arch, +d",
        "ld ra, 0(a0)",
        "ld sp, 8(a0)",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
        "ld s\\n, 16+8*\\n(a0)",
        "fld fs\\n, 112+8*\\n(a0)",
        ".endr",
        "ld tp, 208(a0)",
        "ld t0, 224(a0)",
        "csrw stvec, t0",
        "ld t0, 248(a0)",
        "csrw fcsr, t0",
        "ld t0, 240(a0)",
        "csrw sie, t0",
        "ld t0, 232(a0)",
        "csrw sstatus, t0",
        "ret",
        ".option pop",
        offset = const VA_OFFSET as i64,
        resume = sym RESUME,
        satp = const RESUME_SATP,
    )
}

pub fn cpu_off() -> ! {
    cpu::irqs_off();
    super::timer::stop();
    // SAFETY: this hart takes no more interrupts.
    unsafe { super::registers::write!("sie", 0u64) };
    sbi::hart_stop();
    cpu::halt()
}
