//! The executing core: its index, its interrupt mask, its own word, its counter.
//!
//! `tp` points to the hart's [`Hart`] from its first instruction in the high half until it is
//! off. No compiled code touches `tp`, and no frame or context restores it: a thread that moves
//! to another hart finds that hart's.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

use abi::boot::MAX_CORES;
use base::id::CoreId;

use super::registers::read;

/// This directory's ISA.
pub const ISA: u32 = abi::boot::isa::RISCV64;

/// Ticks a second of `time` on this platform.
const CLOCK_HZ: u64 = 10_000_000;

/// sstatus.SIE: interrupts unmasked.
const SIE: u64 = 1 << 1;

/// What a hart finds through `tp`; also two words for `vectors` to work in.
#[repr(C, align(64))]
pub(super) struct Hart {
    pub core: u64,
    pub local: usize,
    pub saved: [u64; 2],
    pub emergency_top: usize,
}

/// One a core.
pub(super) struct Harts(UnsafeCell<[Hart; MAX_CORES]>);
// SAFETY: each hart uses its own element only, through `tp`; `hart_of` hands out addresses.
unsafe impl Sync for Harts {}

pub(super) static HARTS: Harts = Harts(UnsafeCell::new(
    [const { Hart { core: 0, local: 0, saved: [0; 2], emergency_top: 0 } }; MAX_CORES],
));

/// The element of `core` (below MAX_CORES).
pub(super) fn hart_of(core: usize) -> *mut Hart {
    assert!(core < MAX_CORES);
    // SAFETY: in bounds by the line above.
    unsafe { HARTS.0.get().cast::<Hart>().add(core) }
}

/// This core's index in its domain.
#[inline]
pub fn core() -> CoreId {
    let core: u64;
    // SAFETY: `tp` is this hart's element; one load, so that a thread cannot move in between.
    unsafe {
        asm!("ld {}, {offset}(tp)", out(reg) core, offset = const offset_of!(Hart, core),
            options(nostack, readonly))
    };
    CoreId(core as u8)
}

/// Masks interrupts; were they unmasked?
#[inline]
pub fn irqs_off() -> bool {
    let before: u64;
    // SAFETY: masking is always allowed. A compiler barrier too: what follows stays behind.
    unsafe { asm!("csrrci {}, sstatus, 2", out(reg) before, options(nostack)) };
    before & SIE != 0
}

/// Unmasks when `on`.
#[inline]
pub fn irqs_restore(on: bool) {
    if on {
        // SAFETY: the caller had them on, so handlers are installed.
        unsafe { asm!("csrsi sstatus, 2", options(nostack)) };
    }
}

/// Are interrupts unmasked?
#[inline]
pub fn irqs_on() -> bool {
    read!("sstatus") & SIE != 0
}

/// Waits until an interrupt pends; call with interrupts masked. May return early.
#[inline]
pub fn wait() {
    // SAFETY: no effect on memory; the fence makes our stores visible before we sleep.
    unsafe { asm!("fence iorw, iorw", "wfi", options(nostack)) };
}

/// In spin loops.
#[inline]
pub fn relax() {
    // SAFETY: `pause` (Zihintpause), a hint that older harts execute as a fence of nothing.
    unsafe { asm!(".insn 0x0100000f", options(nomem, nostack)) };
}

/// For ever, masked.
pub fn halt() -> ! {
    irqs_off();
    loop {
        wait();
    }
}

/// Sets this core's own word.
#[inline]
pub fn set_local(ptr: usize) {
    // SAFETY: `tp` is this hart's element, and the word means nothing to this crate.
    unsafe {
        asm!("sd {}, {offset}(tp)", in(reg) ptr, offset = const offset_of!(Hart, local),
            options(nostack))
    };
}

/// This core's own word.
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

/// Raw ticks of the local counter.
#[inline]
pub fn clock() -> u64 {
    read!("time")
}

/// Ticks a second.
#[inline]
pub fn clock_hz() -> u64 {
    CLOCK_HZ
}

/// [`clock`] in ns.
#[inline]
pub fn clock_ns() -> u64 {
    crate::time::to_ns(clock(), clock_hz())
}
