//! This domain's own interrupt controller, in the words of the contract.

use abi::boot::{Blob, MAX_CORES};
use base::id::{CoreId, DomainId, Vector};

use super::gic;

/// On core 0, cold or warm: the controller, all doorbells masked, and core 0's own part.
pub fn init(blob: &Blob, _domain: DomainId) {
    gic::init(blob.vectors);
    gic::init_core();
}

/// On every other core.
pub fn init_core() {
    gic::init_core();
}

/// Lets `vector` interrupt core 0; an edge that was kept does so now.
pub fn unmask(vector: Vector) {
    if u32::from(vector.0) < gic::MAX_DOORBELLS {
        gic::enable(gic::DOORBELLS + u32::from(vector.0));
    }
}

/// Keeps `vector` from interrupting; edges are kept.
pub fn mask(vector: Vector) {
    if u32::from(vector.0) < gic::MAX_DOORBELLS {
        gic::disable(gic::DOORBELLS + u32::from(vector.0));
    }
}

/// Interrupts `core` (which may be this one) with `kind`, 0 to 3; stores before it are seen there.
pub fn send_core(core: CoreId, kind: u8) {
    if core.index() >= MAX_CORES || u32::from(kind) >= gic::CORE_KINDS {
        return;
    }
    // SAFETY: a barrier. The SGI must not overtake what it announces.
    unsafe { core::arch::asm!("dsb ishst", options(nostack)) };
    gic::send(core.0, kind);
}
