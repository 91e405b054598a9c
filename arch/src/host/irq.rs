//! Interrupts of the simulated chip.

use abi::boot::Blob;
use base::id::{CoreId, DomainId, Vector};

use super::machine::here;

pub fn init(_blob: &Blob, _domain: DomainId) {}

pub fn init_core() {}

pub fn unmask(vector: Vector) {
    here().mask(vector, true);
}

pub fn mask(vector: Vector) {
    here().mask(vector, false);
}

pub fn send_core(core: CoreId, kind: u8) {
    here().send(core, kind);
}
