//! This hart's S-mode interrupt file, through siselect (0x150), sireg (0x151) and stopei (0x15c).
//!
//! siselect is state of the hart: every access below masks interrupts, since a handler may select
//! another register.

use super::cpu;
use super::mmio::{self, IMSIC};
use super::registers::{clear, set, write};

const DELIVERY: u64 = 0x70;
const THRESHOLD: u64 = 0x72;
/// Enable bits of identities 0..63; each register of RV64 has an even number and 64 bits.
const ENABLE: u64 = 0xc0;
/// Number of registers with 64 enable bits that this board needs.
const ENABLE_WORDS: u64 = 4;

/// Number of identities that the file has at least.
pub(super) const IDENTITIES: u32 = 64 * ENABLE_WORDS as u32 - 1;

/// Masks everything and enables delivery; pending bits are kept.
pub(super) fn init() {
    let on = cpu::irqs_off();
    for word in 0..ENABLE_WORDS {
        write_register(ENABLE + 2 * word, 0);
    }
    write_register(THRESHOLD, 0);
    write_register(DELIVERY, 1);
    cpu::irqs_restore(on);
}

/// Unmasks `identity`, or masks it and keeps it pending.
pub(super) fn enable(identity: u32, enabled: bool) {
    let bit = 1u64 << (identity % 64);
    let on = cpu::irqs_off();
    // SAFETY: an enable bit of this hart's own file, with interrupts masked.
    unsafe {
        write!("0x150", ENABLE + 2 * u64::from(identity / 64));
        if enabled {
            set!("0x151", bit);
        } else {
            clear!("0x151", bit);
        }
    }
    cpu::irqs_restore(on);
}

/// Takes the pending, enabled identity of the highest priority; 0: none.
pub(super) fn claim() -> u32 {
    let top: u64;
    // SAFETY: one instruction claims exactly the interrupt that it reads.
    unsafe { core::arch::asm!("csrrw {}, 0x15c, zero", out(reg) top, options(nostack)) };
    (top >> 16) as u32
}

/// Physical address of `hart`'s interrupt file: writing an identity there makes it pending.
pub(super) const fn file_of(hart: u64) -> u64 {
    IMSIC + 0x1000 * hart
}

/// Makes `identity` pending at `hart` (below MAX_CORES).
pub(super) fn send(hart: u64, identity: u32) {
    mmio::fence();
    mmio::write32(file_of(hart), identity);
}

fn write_register(register: u64, value: u64) {
    // SAFETY: registers of this hart's own file; callers have masked interrupts.
    unsafe {
        write!("0x150", register);
        write!("0x151", value);
    }
}
