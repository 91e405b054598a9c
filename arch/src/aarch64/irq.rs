//! The interrupt controller of this domain.

use abi::boot::{Blob, MAX_CORES};
use base::id::{CoreId, DomainId, Vector};

use super::{gic, timer};

pub fn init(blob: &Blob, _domain: DomainId) {
    gic::init(blob.vectors);
    init_core();
}

pub fn init_core() {
    timer::init();
    gic::init_core();
}

pub fn unmask(vector: Vector) {
    if u32::from(vector.0) < gic::MAX_DOORBELLS {
        gic::enable(gic::DOORBELLS + u32::from(vector.0));
    }
}

pub fn mask(vector: Vector) {
    if u32::from(vector.0) < gic::MAX_DOORBELLS {
        gic::disable(gic::DOORBELLS + u32::from(vector.0));
    }
}

pub fn send_core(core: CoreId, kind: u8) {
    if core.index() >= MAX_CORES || u32::from(kind) >= gic::CORE_KINDS {
        return;
    }
    // SAFETY: a barrier: the SGI must not overtake earlier stores.
    unsafe { core::arch::asm!("dsb ishst", options(nostack)) };
    gic::send(core.0, kind);
}
