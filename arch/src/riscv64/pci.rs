//! Configuration space of PCI bus 0: what it takes to place one device's BARs.

use super::mmio::{self, ECAM};

/// Command register: memory space and bus master.
const COMMAND: u64 = 0x04;
const MEMORY_AND_MASTER: u16 = 6;
const STATUS: u64 = 0x06;
const HAS_CAPABILITIES: u16 = 1 << 4;
const BAR0: u64 = 0x10;
const CAPABILITIES: u64 = 0x34;
/// Number of devices on a bus.
const DEVICES: u64 = 32;
/// Maximum capabilities that fit in 256 bytes.
const MAX_CAPABILITIES: usize = 48;

/// Function 0 of a device on bus 0: the address of its configuration space.
#[derive(Clone, Copy)]
pub(super) struct Device(u64);

impl Device {
    /// Finds the first device with this identity (device << 16 | vendor).
    pub fn find(identity: u32) -> Option<Device> {
        let mut all = (0..DEVICES).map(|slot| Device(ECAM + (slot << 15)));
        all.find(|device| mmio::read32(device.0) == identity)
    }

    /// Disables decoding and bus mastering.
    pub fn disable(self) {
        mmio::write16(self.0 + COMMAND, 0);
    }

    /// Enables decoding and bus mastering (for message interrupts).
    pub fn enable(self) {
        mmio::write16(self.0 + COMMAND, MEMORY_AND_MASTER);
    }

    /// Returns the bytes that BAR `index` decodes, 0 if it does not exist. The device must be
    /// disabled.
    pub fn bar_size(self, index: u64) -> u64 {
        let at = self.0 + BAR0 + 4 * index;
        mmio::write32(at, u32::MAX);
        let low = mmio::read32(at);
        let mut answer = u64::from(low & !15) | !0 << 32;
        if low & 6 == 4 {
            mmio::write32(at + 4, u32::MAX);
            answer = u64::from(low & !15) | u64::from(mmio::read32(at + 4)) << 32;
        }
        if low & !15 == 0 && low & 6 != 4 { 0 } else { answer.wrapping_neg() }
    }

    pub fn set_bar(self, index: u64, pa: u64) {
        let at = self.0 + BAR0 + 4 * index;
        mmio::write32(at, pa as u32);
        if mmio::read32(at) & 6 == 4 {
            mmio::write32(at + 4, (pa >> 32) as u32);
        }
    }

    /// Returns the address of the first capability of a kind.
    pub fn capability(self, kind: u8) -> Option<u64> {
        if mmio::read16(self.0 + STATUS) & HAS_CAPABILITIES == 0 {
            return None;
        }
        let mut at = u64::from(mmio::read8(self.0 + CAPABILITIES));
        for _ in 0..MAX_CAPABILITIES {
            if !(0x40..=0xfc).contains(&at) {
                return None;
            }
            let [id, next] = mmio::read16(self.0 + at).to_le_bytes();
            if id == kind {
                return Some(self.0 + at);
            }
            at = u64::from(next & !3);
        }
        None
    }
}
