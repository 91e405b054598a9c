//! The executing core: index, interrupt mask, per-core word, counter.
//!
//! `tp` points to the hart's [`Hart`] from its first instruction in the upper half until it is off.
//! Compiled code does not use `tp`, and no frame or context restores it: a thread that migrates
//! sees the `tp` of its new hart.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

use abi::boot::MAX_CORES;
use base::id::CoreId;

use super::registers::read;

pub const ISA: u32 = abi::boot::isa::RISCV64;

/// Frequency of `time` on this platform.
const CLOCK_HZ: u64 = 10_000_000;

/// sstatus.SIE, set while interrupts are unmasked.
const SIE: u64 = 1 << 1;

/// Per-hart data, found through `tp`. `saved` is scratch space of `vectors`.
#[repr(C, align(64))]
pub(super) struct Hart {
    pub core: u64,
    pub local: usize,
    pub saved: [u64; 2],
    pub emergency_top: usize,
}

pub(super) struct Harts(UnsafeCell<[Hart; MAX_CORES]>);
// SAFETY: each hart uses only its own element, through `tp`; `hart_of` only returns addresses.
unsafe impl Sync for Harts {}

pub(super) static HARTS: Harts = Harts(UnsafeCell::new(
    [const { Hart { core: 0, local: 0, saved: [0; 2], emergency_top: 0 } }; MAX_CORES],
));

/// `core` is below MAX_CORES.
pub(super) fn hart_of(core: usize) -> *mut Hart {
    assert!(core < MAX_CORES);
    // SAFETY: in bounds by the line above.
    unsafe { HARTS.0.get().cast::<Hart>().add(core) }
}

#[inline]
pub fn core() -> CoreId {
    let core: u64;
    // SAFETY: `tp` is this hart's element; a single load, so that a migration cannot tear it.
    unsafe {
        asm!("ld {}, {offset}(tp)", out(reg) core, offset = const offset_of!(Hart, core),
            options(nostack, readonly))
    };
    CoreId(core as u8)
}

#[inline]
pub fn irqs_off() -> bool {
    let before: u64;
    // SAFETY: masking is always allowed. Also a compiler barrier: later code stays after it.
    unsafe { asm!("csrrci {}, sstatus, 2", out(reg) before, options(nostack)) };
    before & SIE != 0
}

#[inline]
pub fn irqs_restore(on: bool) {
    if on {
        // SAFETY: interrupts were on, so handlers are installed.
        unsafe { asm!("csrsi sstatus, 2", options(nostack)) };
    }
}

/// A write of `sstatus` that unmasks them takes them.
#[inline]
pub fn take_interrupts() {}

#[inline]
pub fn irqs_on() -> bool {
    read!("sstatus") & SIE != 0
}

#[inline]
pub fn wait() {
    // SAFETY: no effect on memory; the fence makes our stores visible before the hart sleeps.
    unsafe { asm!("fence iorw, iorw", "wfi", options(nostack)) };
}

#[inline]
pub fn relax() {
    // SAFETY: `pause` (Zihintpause), a hint that older harts execute as a fence without effect.
    unsafe { asm!(".insn 0x0100000f", options(nomem, nostack)) };
}

pub fn halt() -> ! {
    irqs_off();
    loop {
        wait();
    }
}

#[inline]
pub fn set_local(ptr: usize) {
    // SAFETY: `tp` is this hart's element; this crate gives the word no meaning.
    unsafe {
        asm!("sd {}, {offset}(tp)", in(reg) ptr, offset = const offset_of!(Hart, local),
            options(nostack))
    };
}

#[inline]
pub fn local() -> usize {
    let word;
    // SAFETY: as in `core`.
    unsafe {
        asm!("ld {}, {offset}(tp)", out(reg) word, offset = const offset_of!(Hart, local),
            options(nostack, readonly))
    };
    word
}

#[inline]
pub fn clock() -> u64 {
    read!("time")
}

#[inline]
pub fn clock_hz() -> u64 {
    CLOCK_HZ
}

#[inline]
pub fn clock_ns() -> u64 {
    crate::ticks::to_ns(clock(), clock_hz())
}
