//! GICv2 distributor and CPU interface. Interrupt ids: SGIs 0 to 15 between cores, PPI 27 for the
//! virtual timer, and SPI `DOORBELLS + v` for doorbell vector v, through the GICv2m frame.

use base::id::Vector;

use super::mmio::{GICC, GICD, read32, write8, write32};
use crate::types::Interrupt;

pub const TIMER: u32 = 27;
/// SPI of doorbell vector 0.
pub const DOORBELLS: u32 = 80;
/// Maximum doorbells: the GICv2m frame has 64.
pub const MAX_DOORBELLS: u32 = 64;
/// Kinds of core-to-core interrupts.
pub const CORE_KINDS: u32 = 4;

const PRIORITY: u8 = 0xa0;

const GICD_CTLR: u64 = GICD;
const GICD_ISENABLER: u64 = GICD + 0x100;
const GICD_ICENABLER: u64 = GICD + 0x180;
const GICD_IPRIORITYR: u64 = GICD + 0x400;
const GICD_ITARGETSR: u64 = GICD + 0x800;
const GICD_ICFGR: u64 = GICD + 0xc00;
const GICD_SGIR: u64 = GICD + 0xf00;
const GICC_CTLR: u64 = GICC;
const GICC_PMR: u64 = GICC + 4;
const GICC_IAR: u64 = GICC + 0xc;
const GICC_EOIR: u64 = GICC + 0x10;

/// Configures `doorbells` vectors: edge-triggered, to core 0, masked. Pending edges are kept.
pub fn init(doorbells: u32) {
    write32(GICD_CTLR, 0);
    for id in DOORBELLS..DOORBELLS + doorbells.min(MAX_DOORBELLS) {
        disable(id);
        write8(GICD_IPRIORITYR + u64::from(id), PRIORITY);
        write8(GICD_ITARGETSR + u64::from(id), 1);
        let register = GICD_ICFGR + u64::from(id / 16) * 4;
        write32(register, read32(register) | 2 << (id % 16 * 2));
    }
    write32(GICD_CTLR, 1);
}

/// Configures this core's interface, SGIs and timer.
pub fn init_core() {
    for id in (0..CORE_KINDS).chain([TIMER]) {
        write8(GICD_IPRIORITYR + u64::from(id), PRIORITY);
        enable(id);
    }
    write32(GICC_PMR, 0xff);
    write32(GICC_CTLR, 1);
}

pub fn enable(id: u32) {
    write32(GICD_ISENABLER + u64::from(id / 32) * 4, 1 << (id % 32));
}

/// Masks `id`; it stays pending.
pub fn disable(id: u32) {
    write32(GICD_ICENABLER + u64::from(id / 32) * 4, 1 << (id % 32));
}

pub fn send(core: u8, kind: u8) {
    write32(GICD_SGIR, 1 << (16 + u32::from(core)) | u32::from(kind));
}

/// Acknowledges the interrupt of this core, ends it and returns its kind. The timer's line is
/// level-triggered, so `stop_timer` lowers it before the end of interrupt.
pub fn acknowledge(stop_timer: fn()) -> Interrupt {
    let word = read32(GICC_IAR);
    let id = word & 0x3ff;
    if id >= 1020 {
        return Interrupt::None;
    }
    if id == TIMER {
        stop_timer();
    }
    write32(GICC_EOIR, word);
    match id {
        TIMER => Interrupt::Timer,
        0..CORE_KINDS => Interrupt::Core(id as u8),
        DOORBELLS.. if id - DOORBELLS < MAX_DOORBELLS => {
            Interrupt::Doorbell(Vector((id - DOORBELLS) as u8))
        }
        _ => Interrupt::None,
    }
}
