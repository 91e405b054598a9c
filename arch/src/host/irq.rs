//! Interrupts of the simulated chip.

use abi::boot::Blob;
use base::id::{CoreId, DomainId, Vector};

use super::machine::here;

/// Nothing to set up.
pub fn init(_blob: &Blob, _domain: DomainId) {}

/// Nothing to set up.
pub fn init_core() {}

/// Lets a doorbell through.
pub fn unmask(vector: Vector) {
    here().mask(vector, true);
}

/// Holds a doorbell back; it stays pending.
pub fn mask(vector: Vector) {
    here().mask(vector, false);
}

/// A core-to-core interrupt.
pub fn send_core(core: CoreId, kind: u8) {
    here().send(core, kind);
}
