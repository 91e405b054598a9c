//! Symbol tables of images, as the host staged them: the running image's, by which the console
//! names an address, and those of other kernels, where the board has twins. A home of `unsafe`: it
//! reads staging areas as bytes.

#![allow(unsafe_code, reason = "a home of unsafe: staged bytes are read in place")]

use abi::boot::{IMAGE_MAGIC, ImageHeader, Symbol, VA_OFFSET, VERSION};
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
    /// The staging area must be mapped, which this domain's is from entry on, and nobody writes it
    /// while a kernel of it runs.
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

    /// The function that holds `address`, and the offset in it.
    pub fn find(&self, address: u64) -> Option<(&'static str, u64)> {
        let offset = u32::try_from(address.checked_sub(self.start)?).ok()?;
        let after = self.symbols.partition_point(|s| s.address <= offset);
        let symbol = self.symbols.get(..after)?.last()?;
        if offset.checked_sub(symbol.address)? >= symbol.size.max(4) {
            return None;
        }
        Some((self.name(symbol)?, u64::from(offset - symbol.address)))
    }

    /// Functions within the first `bytes` bytes of the image: offset from there, and name.
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

/// The header of what is staged there, if it is an image; the area must be mapped.
pub fn header(staging_pa: u64, staging_size: u64) -> Option<ImageHeader> {
    let (header, _) = ImageHeader::read_from_prefix(mapped_bytes(staging_pa, staging_size)).ok()?;
    (header.magic == IMAGE_MAGIC && header.version == VERSION).then_some(header)
}

/// Physical memory as bytes: a staging area that is mapped, or the blob while booting.
pub fn mapped_bytes(pa: u64, size: u64) -> &'static [u8] {
    let va = base::addr::PhysAddr(pa).to_virt().0 as *const u8;
    // SAFETY: callers pass this domain's staging area, which `entry` and `kernel_table` map
    // readable for ever, another's that they have mapped so, or the blob, which is mapped too; the
    // soc writes them only while their domain is off, an image with the same bytes again.
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
