//! This hart's S-mode interrupt file, through siselect (0x150), sireg (0x151), stopei (0x15c).
//!
//! siselect is the hart's own state: each access below runs with interrupts masked, because a
//! handler may select something else.

use super::cpu;
use super::mmio::{self, IMSIC};
use super::registers::{clear, set, write};

const DELIVERY: u64 = 0x70;
const THRESHOLD: u64 = 0x72;
/// Enable bits of identities 0..63; each register of RV64 has an even number and 64 bits.
const ENABLE: u64 = 0xc0;
/// Registers of 64 enable bits that this board's identities need.
const ENABLE_WORDS: u64 = 4;

/// Identities that the file has at least.
pub(super) const IDENTITIES: u32 = 64 * ENABLE_WORDS as u32 - 1;

/// Everything masked, delivery on; pending bits stay.
pub(super) fn init() {
    let on = cpu::irqs_off();
    for word in 0..ENABLE_WORDS {
        write_register(ENABLE + 2 * word, 0);
    }
    write_register(THRESHOLD, 0);
    write_register(DELIVERY, 1);
    cpu::irqs_restore(on);
}

/// Lets `identity` interrupt this hart, or keeps it pending.
pub(super) fn enable(identity: u32, enabled: bool) {
    let bit = 1u64 << (identity % 64);
    let on = cpu::irqs_off();
    // SAFETY: an enable bit of this hart's own file; interrupts are masked.
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

/// Takes the pending and enabled identity of highest priority, 0 for none.
pub(super) fn claim() -> u32 {
    let top: u64;
    // SAFETY: the write claims exactly what the read returns, in one instruction.
    unsafe { core::arch::asm!("csrrw {}, 0x15c, zero", out(reg) top, options(nostack)) };
    (top >> 16) as u32
}

/// The page where a write of an identity makes it pend at `hart`.
pub(super) const fn file_of(hart: u64) -> u64 {
    IMSIC + 0x1000 * hart
}

/// Makes `identity` pend at `hart` (below MAX_CORES).
pub(super) fn send(hart: u64, identity: u32) {
    mmio::fence();
    mmio::write32(file_of(hart), identity);
}

fn write_register(register: u64, value: u64) {
    // SAFETY: registers of this hart's own file; the callers have interrupts masked.
    unsafe {
        write!("0x150", register);
        write!("0x151", value);
    }
}
