//! Page table entries of Sv48 with Svpbmt. A and D are set here because our harts do not set them.

use crate::types::{Access, Memory, Rights};

const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const GLOBAL: u64 = 1 << 5;
const ACCESSED: u64 = 1 << 6;
const DIRTY: u64 = 1 << 7;
const MEMORY_SHIFT: u32 = 61;
const FRAME: u64 = ((1 << 44) - 1) << 10;

pub(super) const ENTRIES: usize = 512;
/// End of the physical addresses that an entry can hold.
pub(super) const PHYSICAL_END: u64 = 1 << 56;

/// Readable, writable and executable: only for the image, in the boot table.
pub(super) const fn boot_image_leaf(pa: u64) -> u64 {
    pa >> 2 | VALID | READ | WRITE | EXECUTE | GLOBAL | ACCESSED | DIRTY
}

pub(super) const fn leaf(pa: u64, memory: Memory, rights: Rights) -> u64 {
    let memory = match memory {
        Memory::Cached => 0,
        Memory::Uncached => 1,
        Memory::Device => 2,
    };
    let rights = match rights {
        Rights::Read => READ,
        Rights::ReadWrite => READ | WRITE | DIRTY,
        Rights::ReadExecute => READ | EXECUTE,
    };
    pa >> 2 | VALID | GLOBAL | ACCESSED | rights | memory << MEMORY_SHIFT
}

pub(super) const fn table(pa: u64) -> u64 {
    pa >> 2 | VALID
}

/// Leaf of the last level for a frame that passes between pages.
pub(super) const fn passing(pa: u64) -> u64 {
    leaf(pa, Memory::Cached, Rights::ReadWrite)
}

/// Returns whether an entry of the last level is such a leaf.
pub(super) const fn passes(entry: u64) -> bool {
    entry == passing(address(entry))
}

/// Returns whether the entry is a leaf or links to a table.
pub(super) const fn is_valid(entry: u64) -> bool {
    entry & VALID != 0
}

pub(super) const fn is_leaf(entry: u64) -> bool {
    is_valid(entry) && entry & (READ | WRITE | EXECUTE) != 0
}

/// Returns whether the entry is a leaf with the right for this access.
pub(super) const fn allows(entry: u64, access: Access) -> bool {
    let right = match access {
        Access::Read => READ,
        Access::Write => WRITE,
        Access::Execute => EXECUTE,
    };
    is_valid(entry) && entry & right != 0
}

/// Returns the address that the entry maps or links to.
pub(super) const fn address(entry: u64) -> u64 {
    (entry & FRAME) << 2
}

pub(super) const fn memory(entry: u64) -> Memory {
    match entry >> MEMORY_SHIFT & 3 {
        0 => Memory::Cached,
        1 => Memory::Uncached,
        _ => Memory::Device,
    }
}

pub(super) const fn rights(entry: u64) -> Rights {
    if entry & WRITE != 0 {
        Rights::ReadWrite
    } else if entry & EXECUTE != 0 {
        Rights::ReadExecute
    } else {
        Rights::Read
    }
}

/// Returns the satp for a root at `pa`: Sv48, ASID 0.
pub(super) const fn satp(pa: u64) -> u64 {
    9 << 60 | pa >> 12
}

/// Returns the root in `satp`.
pub(super) const fn root_of(satp: u64) -> u64 {
    (satp & ((1 << 44) - 1)) << 12
}
