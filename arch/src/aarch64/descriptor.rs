//! Translation table descriptors: bits, levels, and back to `Mapping`.

use base::addr::{PhysAddr, VirtAddr};

use crate::types::{Mapping, Memory, Rights};

/// Entries of a table.
pub const ENTRIES: usize = 512;
/// The level whose leaves are 4 KiB.
pub const LAST: usize = 3;
/// First address of the upper half.
pub const LOWEST: u64 = 0xffff_0000_0000_0000;
/// Last physical address (40 bits, as TCR says).
pub const LAST_PA: u64 = (1 << 40) - 1;

const VALID: u64 = 1;
/// A table, or at the last level a page.
const TABLE: u64 = 1 << 1;
const ATTRIBUTE: u32 = 2;
const READ_ONLY: u64 = 1 << 7;
const OUTER_SHAREABLE: u64 = 2 << 8;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESSED: u64 = 1 << 10;
/// Belongs to the current ASID only.
pub const NOT_GLOBAL: u64 = 1 << 11;
const NO_EXECUTE: u64 = 1 << 53;
const NO_USER_EXECUTE: u64 = 1 << 54;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// Bytes that an entry of `level` covers.
pub const fn span(level: usize) -> u64 {
    1 << (12 + 9 * (LAST - level))
}

/// Index of `virt` in its table of `level`.
pub const fn index(virt: VirtAddr, level: usize) -> usize {
    (virt.0 / span(level)) as usize % ENTRIES
}

/// Returns the operand of `tlbi` for a page, of any ASID.
pub const fn operand(page: u64) -> u64 {
    page & ((1 << 44) - 1)
}

/// Returns whether `entry` of `level` refers to a table.
pub const fn is_table(entry: u64, level: usize) -> bool {
    level < LAST && entry & (VALID | TABLE) == VALID | TABLE
}

/// Returns the entry that refers to a table.
pub const fn table(table: PhysAddr) -> u64 {
    table.0 | TABLE | VALID
}

/// Returns the address of the table or memory that an entry refers to.
pub const fn address(entry: u64) -> PhysAddr {
    PhysAddr(entry & ADDRESS)
}

/// Attributes of a leaf. Device memory never executes, whatever the rights.
pub const fn bits(memory: Memory, rights: Rights) -> u64 {
    let memory_bits = match memory {
        Memory::Cached => INNER_SHAREABLE,
        Memory::Uncached => 1 << ATTRIBUTE | OUTER_SHAREABLE,
        Memory::Device => 2 << ATTRIBUTE | OUTER_SHAREABLE | NO_EXECUTE,
    };
    let rights_bits = match rights {
        Rights::Read => READ_ONLY | NO_EXECUTE,
        Rights::ReadWrite => NO_EXECUTE,
        Rights::ReadExecute => READ_ONLY,
    };
    memory_bits | rights_bits | ACCESSED | NO_USER_EXECUTE | VALID
}

/// Bits of the boot table's own image block: readable, writable and executable until the kernel
/// switches to its own table.
pub const fn boot_image() -> u64 {
    INNER_SHAREABLE | ACCESSED | NOT_GLOBAL | NO_USER_EXECUTE | VALID
}

/// Entry of `level` that maps `phys` with [`bits`].
pub const fn leaf(phys: PhysAddr, bits: u64, level: usize) -> u64 {
    phys.0 | bits | if level == LAST { TABLE } else { 0 }
}

/// Entry of the last level for a frame that passes between pages.
pub const fn passing(phys: PhysAddr) -> u64 {
    leaf(phys, bits(Memory::Cached, Rights::ReadWrite), LAST)
}

/// Returns whether an entry of the last level is such a one.
pub const fn passes(entry: u64) -> bool {
    entry == passing(address(entry))
}

/// Decodes the leaf at `virt`.
pub const fn mapping(virt: VirtAddr, entry: u64, level: usize) -> Mapping {
    let memory = match entry >> ATTRIBUTE & 7 {
        0 => Memory::Cached,
        1 => Memory::Uncached,
        _ => Memory::Device,
    };
    let rights = match (entry & READ_ONLY != 0, entry & NO_EXECUTE != 0) {
        (false, _) => Rights::ReadWrite,
        (true, true) => Rights::Read,
        (true, false) => Rights::ReadExecute,
    };
    Mapping { virt, phys: address(entry), bytes: span(level), memory, rights }
}
