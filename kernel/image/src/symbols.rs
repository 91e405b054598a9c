//! The symbol table of the running image, as the host staged it, and the console's way to name
//! an address. A home of `unsafe`: it reads the staging area as bytes.

#![allow(unsafe_code, reason = "a home of unsafe: staged bytes are read in place")]

use abi::boot::{ImageHeader, Symbol};
use core::fmt;
use rustc_demangle::demangle;
use zerocopy::FromBytes;

/// Bounds against a damaged staging area.
const MAX_SYMBOLS: u32 = 1 << 16;
const MAX_NAMES: u32 = 16 << 20;

/// Sorted symbols and their names.
#[derive(Clone, Copy)]
pub struct Symbols {
    start: u64,
    symbols: &'static [Symbol],
    names: &'static [u8],
}

impl Symbols {
    /// The table behind the image staged at `staging_pa`; `None` where there is none.
    ///
    /// The staging area must be mapped, which it is from entry on, and nobody writes it while a
    /// kernel of it runs.
    pub fn staged(staging_pa: u64, staging_size: u64) -> Option<Symbols> {
        let area = mapped_bytes(staging_pa, staging_size);
        let (header, _) = ImageHeader::read_from_prefix(area).ok()?;
        let table = usize::try_from(header.symbols).ok().filter(|&offset| offset != 0)?;
        if header.symbol_count > MAX_SYMBOLS || header.names_size > MAX_NAMES {
            return None;
        }
        let count = header.symbol_count as usize;
        let (symbols, rest) =
            <[Symbol]>::ref_from_prefix_with_elems(area.get(table..)?, count).ok()?;
        let names = rest.get(..header.names_size as usize)?;
        let start = header.load_pa.wrapping_add(abi::boot::VA_OFFSET);
        Some(Symbols { start, symbols, names })
    }

    /// The function that holds `address`, and the offset in it.
    pub fn find(&self, address: u64) -> Option<(&'static str, u64)> {
        let offset = u32::try_from(address.checked_sub(self.start)?).ok()?;
        let after = self.symbols.partition_point(|s| s.address <= offset);
        let symbol = self.symbols[..after].last()?;
        if offset - symbol.address >= symbol.size.max(4) {
            return None;
        }
        let from = symbol.name as usize;
        let name = self.names.get(from..from.checked_add(symbol.name_size as usize)?)?;
        Some((core::str::from_utf8(name).ok()?, u64::from(offset - symbol.address)))
    }
}

/// Physical memory as bytes: this domain's staging area, or the blob while booting.
pub fn mapped_bytes(pa: u64, size: u64) -> &'static [u8] {
    let va = base::addr::PhysAddr(pa).to_virt().0 as *const u8;
    // SAFETY: callers pass this domain's staging area, which `entry` and `kernel_table` map
    // readable for ever, or the blob, which they map too; the soc writes both only while this
    // domain is off.
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
