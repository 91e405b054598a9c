//! Where the simulation's memory is, in every process at the same addresses.

use abi::boot::{BLOCK, Blob, FNV_START, MAX_DOMAINS, fnv};
use base::addr::{PhysAddr, VA_OFFSET};
use zerocopy::IntoBytes;

/// Address of physical address 0 of the board file.
pub const HIGH: u64 = 0x1000_0000_0000;
/// End of the simulated memory.
pub const HIGH_END: u64 = HIGH + (4 << 30);
/// The shared block as memory holds it; kernels reach it through their caches only.
pub const MEMORY: u64 = 0x1300_0000_0000;
/// The caches of all domains, as the chip reaches them.
const CACHES: u64 = 0x1400_0000_0000;
/// [`crate::turn::Control`].
pub const CONTROL: u64 = 0x1500_0000_0000;
/// What [`crate::report`] shares.
pub const TOTALS: u64 = 0x1600_0000_0000;
/// [`crate::history`].
pub const HISTORY: u64 = 0x1700_0000_0000;

/// Added to a board file's physical address, gives the one that maps to [`HIGH`] in the kernels'
/// linear map.
const SHIFT: u64 = HIGH.wrapping_sub(VA_OFFSET);

/// Returns what the cache of domain `d` holds of the shared block.
pub fn cache(d: usize) -> u64 {
    assert!(d < MAX_DOMAINS);
    CACHES + d as u64 * BLOCK
}

/// Returns the address at which every process sees a physical address.
pub fn at(pa: u64) -> u64 {
    PhysAddr(pa).to_virt().0
}

/// Moves the board to the addresses of this simulation. It has no devices.
pub fn relocate(blob: &mut Blob) {
    let moved = |pa: &mut u64| *pa = pa.wrapping_add(SHIFT);
    for domain in &mut blob.domains[..blob.domain_count as usize] {
        for word in [&mut domain.ram_base, &mut domain.image_pa, &mut domain.staging_pa] {
            moved(word);
        }
        // No image is staged, so there are no symbols and no twins.
        domain.staging_size = 0;
    }
    for region in &mut blob.regions[..blob.region_count as usize] {
        moved(&mut region.base);
    }
    let window = &mut blob.window;
    moved(&mut window.base);
    for word in [
        &mut window.chip,
        &mut window.domains,
        &mut window.blocks,
        &mut window.links,
        &mut window.dsm,
    ] {
        moved(word);
    }
    assert!(blob.devices().is_empty(), "the simulated chip has no devices");
    blob.checksum = 0;
    blob.checksum = fnv(FNV_START, blob.as_bytes());
}
