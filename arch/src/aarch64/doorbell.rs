//! The doorbell device: ivshmem on PCI bus 0, its MSI-X vectors routed as SPIs through the GICv2m
//! frame.
//!
//! Firmware does not configure it and every reset clears it, so `init` assigns the BARs and fills
//! the vector table at cold and warm boot.

use core::sync::atomic::{AtomicBool, Ordering};

use abi::boot::Blob;

use super::gic::{DOORBELLS, MAX_DOORBELLS};
use super::mmio::{BARS, BARS_SIZE, ECAM, GICV2M, read32, write32};
use crate::types::DoorbellError;

/// Device and vendor, 1110:1af4.
const IDENTITY: u32 = 0x1110_1af4;
const DEVICES: u64 = 32;
const MSIX: u32 = 0x11;
/// Maximum entries of the capability list.
const MAX_CAPABILITIES: usize = 48;

const REGISTERS: u64 = BARS;
const TABLE: u64 = BARS + 0x1000;
/// BAR0 has 256 bytes, BAR1 4 KiB. BAR2, a shared page that is never mapped, is placed after the
/// part of the window that is.
const SHARED: u64 = BARS + BARS_SIZE;
const WINDOW_END: u64 = 0x3eff_0000;

/// Register: ring `peer << 16 | vector`.
const RING: u64 = REGISTERS + 0xc;
const MSI_ADDRESS: u64 = GICV2M + 0x40;

static READY: AtomicBool = AtomicBool::new(false);

pub fn init(blob: &Blob) -> Result<(), DoorbellError> {
    READY.store(false, Ordering::Relaxed);
    let config = find().ok_or(DoorbellError::NotFound)?;
    let msix = msix_of(config).ok_or(DoorbellError::Vectors)?;
    let control = read32(msix) >> 16;
    let vectors = control & 0x7ff;
    if blob.vectors > vectors + 1 || blob.vectors > MAX_DOORBELLS {
        return Err(DoorbellError::Vectors);
    }
    place(config).ok_or(DoorbellError::NotFound)?;
    route(msix, blob.vectors);
    READY.store(true, Ordering::Release);
    Ok(())
}

pub fn ring(slot: u32, vector: u32) {
    if !READY.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: a barrier: every domain sees earlier stores before the edge arrives.
    unsafe { core::arch::asm!("dsb sy", options(nostack)) };
    write32(RING, slot << 16 | vector & 0xffff);
}

fn find() -> Option<u64> {
    (0..DEVICES).map(|device| ECAM + (device << 15)).find(|&config| read32(config) == IDENTITY)
}

fn msix_of(config: u64) -> Option<u64> {
    let mut at = read32(config + 0x34) & 0xfc;
    for _ in 0..MAX_CAPABILITIES {
        if at == 0 {
            return None;
        }
        let head = read32(config + u64::from(at));
        if head & 0xff == MSIX {
            return Some(config + u64::from(at));
        }
        at = head >> 8 & 0xfc;
    }
    None
}

/// Assigns the BARs, then enables decoding and bus mastering.
fn place(config: u64) -> Option<()> {
    let command = config + 4;
    write32(command, 0);
    write32(config + 0x10, REGISTERS as u32);
    write32(config + 0x14, TABLE as u32);
    let shared = config + 0x18;
    write32(shared, u32::MAX);
    write32(shared + 4, u32::MAX);
    let mask = u64::from(read32(shared + 4)) << 32 | u64::from(read32(shared) & !0xf);
    let size = mask.wrapping_neg();
    let base = SHARED.checked_next_multiple_of(size.max(1))?;
    if base.checked_add(size)? > WINDOW_END {
        return None;
    }
    write32(shared, base as u32);
    write32(shared + 4, 0);
    write32(command, 6); // memory, bus master
    Some(())
}

/// Routes vector v as SPI `DOORBELLS` + v.
fn route(msix: u64, vectors: u32) {
    let control = |bits: u32| write32(msix, read32(msix) & 0x3fff_ffff | bits);
    control(0xc000_0000); // enabled, all masked
    for vector in 0..vectors {
        let entry = TABLE + u64::from(vector) * 16;
        write32(entry, MSI_ADDRESS as u32);
        write32(entry + 4, (MSI_ADDRESS >> 32) as u32);
        write32(entry + 8, DOORBELLS + vector);
        write32(entry + 12, 0);
    }
    control(0x8000_0000);
}
