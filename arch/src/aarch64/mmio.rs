//! Device registers, accessed at `VA_OFFSET` + physical address. The kernel's table maps every
//! range of [`super::mmu::DEVICE_RANGES`] there as Device.

use abi::boot::VA_OFFSET;

/// PL011.
pub const UART: u64 = 0x0900_0000;
/// GIC distributor.
pub const GICD: u64 = 0x0800_0000;
/// GIC CPU interface of the executing core.
pub const GICC: u64 = 0x0801_0000;
/// GICv2m frame; writes to it become SPIs.
pub const GICV2M: u64 = 0x0802_0000;
/// PCI configuration space, bus 0.
pub const ECAM: u64 = 0x40_1000_0000;
/// PCI memory window, the part that is mapped; BAR2 lies after it, unused.
pub const BARS: u64 = 0x1000_0000;
/// Size of [`BARS`] in bytes.
pub const BARS_SIZE: u64 = 2 << 20;

pub fn read32(pa: u64) -> u32 {
    // SAFETY: callers are in this directory and name a register of a mapped device range.
    unsafe { ((VA_OFFSET + pa) as *const u32).read_volatile() }
}

pub fn write32(pa: u64, value: u32) {
    // SAFETY: as in `read32`.
    unsafe { ((VA_OFFSET + pa) as *mut u32).write_volatile(value) }
}

pub fn write8(pa: u64, value: u8) {
    // SAFETY: as in `read32`.
    unsafe { ((VA_OFFSET + pa) as *mut u8).write_volatile(value) }
}
