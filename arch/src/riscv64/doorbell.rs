//! The doorbell device: ivshmem-doorbell on PCI bus 0. Firmware does not place its BARs, and every
//! reset clears the configuration.

use core::sync::atomic::{AtomicBool, Ordering};

use abi::boot::Blob;

use super::irq::{self, MAX_VECTORS};
use super::mmio::{self, WINDOW};
use super::pci::Device;
use crate::types::DoorbellError;

/// Vendor 1af4, device 1110.
const IDENTITY: u32 = 0x1110_1af4;
/// BAR 0: registers. Writing `peer << 16 | vector` rings.
const REGISTERS: u64 = WINDOW;
const RING: u64 = REGISTERS + 0xc;
/// BAR 1: the MSI-X table, 16 bytes per vector.
const TABLE: u64 = WINDOW + 0x1000;
/// PCI capability of MSI-X; its control word is at offset 2.
const MSIX: u8 = 0x11;
const MSIX_ENABLE: u16 = 1 << 15;
const MSIX_MASK_ALL: u16 = 1 << 14;

static READY: AtomicBool = AtomicBool::new(false);

pub fn init(blob: &Blob) -> Result<(), DoorbellError> {
    let device = Device::find(IDENTITY).ok_or(DoorbellError::NotFound)?;
    device.disable();
    let (registers, table, memory) = (device.bar_size(0), device.bar_size(1), device.bar_size(2));
    if registers == 0 || registers > 0x1000 || table == 0 || table > 0x1000 {
        return Err(DoorbellError::NotFound);
    }
    device.set_bar(0, REGISTERS);
    device.set_bar(1, TABLE);
    // The shared page is not used, but must decode somewhere: at the next natural boundary.
    device.set_bar(2, (WINDOW + 0x2000).next_multiple_of(memory.max(1)));
    device.enable();
    let control = device.capability(MSIX).ok_or(DoorbellError::Vectors)? + 2;
    let vectors = u32::from(mmio::read16(control) & 0x7ff) + 1;
    if blob.vectors > vectors.min(MAX_VECTORS) {
        return Err(DoorbellError::Vectors);
    }
    mmio::write16(control, MSIX_ENABLE | MSIX_MASK_ALL);
    (0..blob.vectors).for_each(set_vector);
    mmio::write16(control, MSIX_ENABLE);
    READY.store(true, Ordering::Release);
    Ok(())
}

/// Routes `vector` to core 0's interrupt file.
fn set_vector(vector: u32) {
    let (address, data) = irq::message_of(vector);
    let entry = TABLE + 16 * u64::from(vector);
    mmio::write32(entry, address as u32);
    mmio::write32(entry + 4, (address >> 32) as u32);
    mmio::write32(entry + 8, data);
    mmio::write32(entry + 12, 0);
}

pub fn ring(slot: u32, vector: u32) {
    if READY.load(Ordering::Acquire) {
        mmio::fence();
        mmio::write32(RING, slot << 16 | vector & 0xffff);
    }
}
