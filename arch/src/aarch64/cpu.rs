//! The executing core: its index, its interrupt mask, its own word, its counter.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use base::id::CoreId;

use super::registers::{read, write};
use crate::time;

/// This directory's ISA.
pub const ISA: u32 = abi::boot::isa::AARCH64;

/// DAIF.I: interrupts masked.
const MASKED: u64 = 1 << 7;

/// This core's index in its domain.
#[inline]
pub fn core() -> CoreId {
    CoreId(read!("mpidr_el1") as u8)
}

/// Masks interrupts; were they unmasked?
#[inline]
pub fn irqs_off() -> bool {
    let on = irqs_on();
    // SAFETY: masking is always allowed. A compiler barrier too: what follows stays behind.
    unsafe { asm!("msr daifset, #2", options(nostack)) };
    on
}

/// Unmasks when `on`.
#[inline]
pub fn irqs_restore(on: bool) {
    if on {
        // SAFETY: the caller had them on, so handlers are installed.
        unsafe { asm!("msr daifclr, #2", options(nostack)) };
    }
}

/// Are interrupts unmasked?
#[inline]
pub fn irqs_on() -> bool {
    read!("daif") & MASKED == 0
}

/// Waits until an interrupt pends; call with interrupts masked. May return early.
#[inline]
pub fn wait() {
    // SAFETY: no effect on memory; the barrier makes our stores visible before we sleep.
    unsafe { asm!("dsb sy", "wfi", options(nostack)) };
}

/// In spin loops.
#[inline]
pub fn relax() {
    // SAFETY: a hint.
    unsafe { asm!("yield", options(nomem, nostack)) };
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
    // SAFETY: TPIDR_EL1 means nothing to the hardware.
    unsafe { write!("tpidr_el1", ptr) };
}

/// This core's own word.
#[inline]
pub fn local() -> usize {
    read!("tpidr_el1") as usize
}

/// Raw ticks of the local counter.
#[inline]
pub fn clock() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter; the barrier keeps it from being read early.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack)) };
    ticks
}

/// Ticks a second.
#[inline]
pub fn clock_hz() -> u64 {
    read!("cntfrq_el0")
}

/// ns of a tick, where that is a whole number; 0: not yet known, or it is none.
static TICK_NS: AtomicU64 = AtomicU64::new(0);

/// [`clock`] in ns. What a tick takes is not divided anew each time.
#[inline]
pub fn clock_ns() -> u64 {
    match TICK_NS.load(Ordering::Relaxed) {
        0 => first_clock_ns(),
        tick => clock().wrapping_mul(tick),
    }
}

#[cold]
#[inline(never)]
fn first_clock_ns() -> u64 {
    let hz = clock_hz();
    if time::SECOND.is_multiple_of(hz) {
        TICK_NS.store(time::SECOND / hz, Ordering::Relaxed);
    }
    time::to_ns(clock(), hz)
}
