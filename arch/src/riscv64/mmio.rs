//! Device registers, accessed through the linear map, and this board's device addresses.

use base::addr::PhysAddr;

/// 16550 UART.
pub(super) const UART: u64 = 0x1000_0000;
/// S-mode interrupt files of the IMSICs, one page per hart.
pub(super) const IMSIC: u64 = 0x2800_0000;
/// PCI configuration space of bus 0.
pub(super) const ECAM: u64 = 0x3000_0000;
/// PCI memory window; BAR 0 and 1 of the doorbell are its first two pages.
pub(super) const WINDOW: u64 = 0x4000_0000;

/// Ranges that the kernel maps as Device, for the accesses below.
pub(super) const RANGES: &[(u64, u64)] = &[
    (UART, 0x1000),
    (IMSIC, 0x1000 * abi::boot::MAX_CORES as u64),
    (ECAM, 0x10_0000),
    (WINDOW, 0x2000),
];

/// Returns whether a register is inside [`RANGES`]; debug builds check every access.
fn is_device(pa: u64) -> bool {
    RANGES.iter().any(|&(start, bytes)| pa.wrapping_sub(start) < bytes)
}

macro_rules! access {
    ($read:ident, $write:ident, $word:ty) => {
        #[inline]
        pub(super) fn $read(pa: u64) -> $word {
            debug_assert!(is_device(pa));
            // SAFETY: a register of this board, mapped as Device by the boot table or the kernel's.
            unsafe { (PhysAddr(pa).to_virt().0 as *const $word).read_volatile() }
        }

        #[inline]
        pub(super) fn $write(pa: u64, value: $word) {
            debug_assert!(is_device(pa));
            // SAFETY: as above; the callers own the devices that they write.
            unsafe { (PhysAddr(pa).to_virt().0 as *mut $word).write_volatile(value) };
        }
    };
}

access!(read8, write8, u8);
access!(read16, write16, u16);
access!(read32, write32, u32);

/// Orders earlier memory writes before later register writes.
#[inline]
pub(super) fn fence() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("fence iorw, iorw", options(nostack)) };
}
