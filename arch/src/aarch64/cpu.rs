//! The executing core: index, interrupt mask, per-core word, counter.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use base::id::CoreId;

use super::registers::{read, write};
use crate::ticks;

pub const ISA: u32 = abi::boot::isa::AARCH64;

/// DAIF.I, set while interrupts are masked.
const MASKED: u64 = 1 << 7;

#[inline]
pub fn core() -> CoreId {
    CoreId(read!("mpidr_el1") as u8)
}

#[inline]
pub fn irqs_off() -> bool {
    let on = irqs_on();
    // SAFETY: masking is always allowed. Also a compiler barrier: later code stays after it.
    unsafe { asm!("msr daifset, #2", options(nostack)) };
    on
}

#[inline]
pub fn irqs_restore(on: bool) {
    if on {
        // SAFETY: interrupts were on, so handlers are installed.
        unsafe { asm!("msr daifclr, #2", options(nostack)) };
    }
}

#[inline]
pub fn take_interrupts() {
    // SAFETY: a context synchronization event, before which a core may take none.
    unsafe { asm!("isb", options(nostack)) };
}

#[inline]
pub fn irqs_on() -> bool {
    read!("daif") & MASKED == 0
}

#[inline]
pub fn wait() {
    // SAFETY: no effect on memory; the barrier makes our stores visible before the core sleeps.
    unsafe { asm!("dsb sy", "wfi", options(nostack)) };
}

#[inline]
pub fn relax() {
    // SAFETY: a hint.
    unsafe { asm!("yield", options(nomem, nostack)) };
}

pub fn halt() -> ! {
    irqs_off();
    loop {
        wait();
    }
}

#[inline]
pub fn set_local(ptr: usize) {
    // SAFETY: TPIDR_EL1 means nothing to the hardware.
    unsafe { write!("tpidr_el1", ptr) };
}

#[inline]
pub fn local() -> usize {
    read!("tpidr_el1") as usize
}

#[inline]
pub fn clock() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter; the barrier prevents an early read.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack)) };
    ticks
}

#[inline]
pub fn clock_hz() -> u64 {
    read!("cntfrq_el0")
}

/// ns per tick; 0 while that is unknown, or if it is not a whole number.
static TICK_NS: AtomicU64 = AtomicU64::new(0);

/// Avoids the division if a tick is a whole number of ns.
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
    if ticks::SECOND.is_multiple_of(hz) {
        TICK_NS.store(ticks::SECOND / hz, Ordering::Relaxed);
    }
    ticks::to_ns(clock(), hz)
}
