//! Device registers through the linear map, and where this board's devices are.

use base::addr::PhysAddr;

/// 16550 UART.
pub(super) const UART: u64 = 0x1000_0000;
/// S-mode interrupt files of the IMSICs, one page a hart.
pub(super) const IMSIC: u64 = 0x2800_0000;
/// PCI configuration space of bus 0.
pub(super) const ECAM: u64 = 0x3000_0000;
/// PCI memory window; the doorbell's BAR 0 and 1 are its first two pages.
pub(super) const WINDOW: u64 = 0x4000_0000;

/// What the kernel's table must map as Device, for the accesses below.
pub(super) const RANGES: &[(u64, u64)] = &[
    (UART, 0x1000),
    (IMSIC, 0x1000 * abi::boot::MAX_CORES as u64),
    (ECAM, 0x10_0000),
    (WINDOW, 0x2000),
];

/// Is the register inside of [`RANGES`]? Every access asks in debug builds.
fn is_device(pa: u64) -> bool {
    RANGES.iter().any(|&(start, bytes)| pa.wrapping_sub(start) < bytes)
}

macro_rules! access {
    ($read:ident, $write:ident, $word:ty) => {
        /// Reads an aligned register of [`RANGES`].
        #[inline]
        pub(super) fn $read(pa: u64) -> $word {
            debug_assert!(is_device(pa));
            // SAFETY: a register of this board, mapped as Device by the boot table or the kernel's.
            unsafe { (PhysAddr(pa).to_virt().0 as *const $word).read_volatile() }
        }

        /// Writes an aligned register of [`RANGES`].
        #[inline]
        pub(super) fn $write(pa: u64, value: $word) {
            debug_assert!(is_device(pa));
            // SAFETY: as above; the callers own the devices they write.
            unsafe { (PhysAddr(pa).to_virt().0 as *mut $word).write_volatile(value) };
        }
    };
}

access!(read8, write8, u8);
access!(read16, write16, u16);
access!(read32, write32, u32);

/// Memory written before is seen by whoever acts on a register written after.
#[inline]
pub(super) fn fence() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("fence iorw, iorw", options(nostack)) };
}
