//! Interrupts of the simulated chip.

use abi::boot::Blob;
use base::id::{CoreId, DomainId, Vector};

use super::chip::chip;
use super::machine::here;

pub fn init(_blob: &Blob, _domain: DomainId) {}

pub fn init_core() {}

pub fn unmask(vector: Vector) {
    match chip() {
        Some(chip) => chip.mask(vector.0, true),
        None => here().mask(vector, true),
    }
}

pub fn mask(vector: Vector) {
    match chip() {
        Some(chip) => chip.mask(vector.0, false),
        None => here().mask(vector, false),
    }
}

pub fn send_core(core: CoreId, kind: u8) {
    match chip() {
        Some(chip) => chip.send(kind),
        None => here().send(core, kind),
    }
}
