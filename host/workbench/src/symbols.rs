//! Functions of the staged images in a run folder, by physical address.

use abi::boot::{IMAGE_MAGIC, ImageHeader, Symbol};
use rustc_demangle::demangle;
use std::path::Path;
use zerocopy::FromBytes;

/// The functions of a staged image.
pub struct Image {
    load: u64,
    size: u64,
    symbols: Vec<Symbol>,
    names: Vec<u8>,
}

impl Image {
    /// Reads the image of the domain `name` in a run folder.
    pub fn of(folder: &Path, name: &str) -> Option<Image> {
        Image::read(&std::fs::read(folder.join(format!("{name}.img"))).ok()?)
    }

    fn read(staged: &[u8]) -> Option<Image> {
        let (header, _) = ImageHeader::read_from_prefix(staged).ok()?;
        if header.magic != IMAGE_MAGIC {
            return None;
        }
        let mut rest = staged.get(header.symbols as usize..)?;
        let mut symbols = Vec::new();
        for _ in 0..header.symbol_count {
            let (symbol, behind) = Symbol::read_from_prefix(rest).ok()?;
            symbols.push(symbol);
            rest = behind;
        }
        let names = rest.get(..header.names_size as usize)?.to_vec();
        Some(Image { load: header.load_pa, size: header.memory_size, symbols, names })
    }

    /// Returns whether `physical` is in the image.
    pub fn contains(&self, physical: u64) -> bool {
        physical.wrapping_sub(self.load) < self.size
    }

    /// Returns the name of the function at `physical`, without a hash, and the offset in it.
    pub fn function(&self, physical: u64) -> Option<(String, u32)> {
        let at = u32::try_from(physical.checked_sub(self.load)?).ok()?;
        let index = self.symbols.partition_point(|symbol| symbol.address <= at).checked_sub(1)?;
        let symbol = &self.symbols[index];
        let offset = at - symbol.address;
        let (from, size) = (symbol.name as usize, symbol.name_size as usize);
        let name = self.names.get(from..from.checked_add(size)?);
        let name = name.filter(|_| offset < symbol.size)?;
        Some((format!("{:#}", demangle(std::str::from_utf8(name).ok()?)), offset))
    }
}
