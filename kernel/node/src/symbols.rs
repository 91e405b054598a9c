//! Symbol tables of kernel images, in the staging areas where the host puts the images: the running
//! image's, to print addresses, and those of other kernels, on boards with twins. A home of
//! `unsafe`: it reads staging areas as bytes.

#![allow(unsafe_code, reason = "a home of unsafe: staged bytes are read in place")]

use abi::boot::{IMAGE_MAGIC, ImageHeader, Symbol, VA_OFFSET, VERSION};
use core::fmt;
use rustc_demangle::demangle;
use zerocopy::FromBytes;

/// Limits, in case a staging area is damaged.
const MAX_SYMBOLS: u32 = 1 << 16;
const MAX_NAMES: u32 = 16 << 20;

/// A symbol table, sorted by address. The default is empty.
#[derive(Clone, Copy, Default)]
pub struct Symbols {
    start: u64,
    symbols: &'static [Symbol],
    names: &'static [u8],
}

impl Symbols {
    /// Reads the symbol table that follows the image staged at `staging_pa`. Returns `None` if
    /// there is none, or if it is damaged. The staging area must be mapped.
    pub fn staged(staging_pa: u64, staging_size: u64) -> Option<Symbols> {
        let header = header(staging_pa, staging_size)?;
        let area = mapped_bytes(staging_pa, staging_size);
        let table = usize::try_from(header.symbols).ok().filter(|&offset| offset != 0)?;
        if header.symbol_count > MAX_SYMBOLS || header.names_size > MAX_NAMES {
            return None;
        }
        let count = header.symbol_count as usize;
        let (symbols, rest) =
            <[Symbol]>::ref_from_prefix_with_elems(area.get(table..)?, count).ok()?;
        let names = rest.get(..header.names_size as usize)?;
        let start = header.load_pa.wrapping_add(VA_OFFSET);
        Some(Symbols { start, symbols, names })
    }

    /// Returns the function that contains `address`, and the offset in it.
    pub fn find(&self, address: u64) -> Option<(&'static str, u64)> {
        let offset = u32::try_from(address.checked_sub(self.start)?).ok()?;
        let after = self.symbols.partition_point(|s| s.address <= offset);
        let symbol = self.symbols.get(..after)?.last()?;
        if offset.checked_sub(symbol.address)? >= symbol.size.max(4) {
            return None;
        }
        Some((self.name(symbol)?, u64::from(offset - symbol.address)))
    }

    /// Returns offset and name of each function in the first `bytes` bytes of the image.
    pub fn within(&self, bytes: u64) -> impl Iterator<Item = (u32, &'static str)> {
        let inside = move |s: &&Symbol| u64::from(s.address) < bytes;
        self.symbols.iter().filter(inside).filter_map(|s| Some((s.address, self.name(s)?)))
    }

    fn name(&self, symbol: &Symbol) -> Option<&'static str> {
        let from = symbol.name as usize;
        let name = self.names.get(from..from.checked_add(symbol.name_size as usize)?)?;
        core::str::from_utf8(name).ok()
    }
}

/// Returns the header of the image staged at `staging_pa`, if it is valid. The staging area must be
/// mapped.
pub fn header(staging_pa: u64, staging_size: u64) -> Option<ImageHeader> {
    let (header, _) = ImageHeader::read_from_prefix(mapped_bytes(staging_pa, staging_size)).ok()?;
    (header.magic == IMAGE_MAGIC && header.version == VERSION).then_some(header)
}

/// Returns `size` bytes of physical memory at `pa`: a mapped staging area, or the blob at boot.
pub fn mapped_bytes(pa: u64, size: u64) -> &'static [u8] {
    let va = base::addr::PhysAddr(pa).to_virt().0 as *const u8;
    // SAFETY: callers pass this domain's staging area, which `entry` and `kernel_table` map
    // readable and never unmap; another domain's, which they have mapped in the same way; or the
    // blob, which is mapped at boot. The soc writes a staging area only while its domain is off,
    // and then with the same bytes.
    unsafe { core::slice::from_raw_parts(va, size as usize) }
}

/// Prints an address as `function + offset`.
pub struct Named(pub Option<Symbols>, pub u64);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.and_then(|symbols| symbols.find(self.1)) {
            Some((name, offset)) => {
                write!(f, "{:#018x} {:#}+{:#x}", self.1, demangle(name), offset)
            }
            None => write!(f, "{:#018x}", self.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static NAMES: &[u8] = b"entryloop\xff";
    static SYMBOLS: [Symbol; 3] = [
        Symbol { address: 0x10, size: 0x20, name: 0, name_size: 5 },
        Symbol { address: 0x40, size: 0, name: 5, name_size: 4 },
        Symbol { address: 0x80, size: 8, name: 9, name_size: 1 },
    ];

    fn table() -> Symbols {
        Symbols { start: 0x1000, symbols: &SYMBOLS, names: NAMES }
    }

    #[test]
    fn an_address_is_found_in_the_function_that_contains_it() {
        assert_eq!(table().find(0x1010), Some(("entry", 0)));
        assert_eq!(table().find(0x102f), Some(("entry", 0x1f)));
        assert_eq!(table().find(0x1030), None, "between two functions");
        assert_eq!(table().find(0x100f), None, "before the first");
        assert_eq!(table().find(0xfff), None, "before the image");
        // A function of unknown size has at least one instruction.
        assert_eq!(table().find(0x1043), Some(("loop", 3)));
        assert_eq!(table().find(0x1044), None);
    }

    #[test]
    fn a_damaged_name_is_no_name() {
        assert_eq!(table().find(0x1080), None);
        let beyond = Symbols { names: &NAMES[..3], ..table() };
        assert_eq!(beyond.find(0x1010), None);
        assert_eq!(table().within(0x100).count(), 2);
    }

    #[test]
    fn an_address_without_a_name_is_shown_as_a_number() {
        let named = |at| format!("{}", Named(Some(table()), at));
        assert_eq!(named(0x1012), "0x0000000000001012 entry+0x2");
        assert_eq!(named(0x1030), "0x0000000000001030");
        assert_eq!(format!("{}", Named(None, 0x1012)), "0x0000000000001012");
    }
}
