//! Page table entries of both ISAs as the model compares them.

/// Entries of a table.
pub const ENTRIES: usize = 512;
/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Level of the root; leaves of level 0 are pages.
pub const ROOT: u32 = 3;

/// An instruction set, with the page table format of its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Four levels of 4 KiB granules, upper half.
    Aarch64,
    /// Sv48 with Svpbmt.
    Riscv64,
}

/// A kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Execute,
}

/// A mapping of a page or a larger range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Physical address of its first byte.
    pub pa: u64,
    /// Memory type and shareability, as encoded.
    pub memory: u8,
    /// Rights to read, write and execute, from bit 0.
    pub rights: u8,
}

impl Leaf {
    /// Returns whether it permits the access.
    pub fn allows(&self, access: Access) -> bool {
        self.rights & 1 << access as u8 != 0
    }
}

/// What an entry means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// No mapping.
    Invalid,
    /// The table at this physical address.
    Table(u64),
    /// A mapping.
    Leaf(Leaf),
}

/// Returns the bytes that an entry of `level` covers.
pub const fn size(level: u32) -> u64 {
    PAGE << (9 * level)
}

/// Returns the index of `va` in its table of `level`.
pub const fn index(va: u64, level: u32) -> usize {
    (va / size(level)) as usize % ENTRIES
}

/// Returns the first address of the entry of `level` that covers `va`.
pub const fn start(va: u64, level: u32) -> u64 {
    va & !(size(level) - 1)
}

/// Decodes the entry `raw` of a table of `level`.
pub fn decode(isa: Isa, level: u32, raw: u64) -> Entry {
    match isa {
        _ if raw & 1 == 0 => Entry::Invalid,
        Isa::Aarch64 => aarch64(level, raw),
        Isa::Riscv64 => riscv64(level, raw),
    }
}

fn aarch64(level: u32, raw: u64) -> Entry {
    const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
    match (level, raw & 2 != 0) {
        (1.., true) => Entry::Table(raw & ADDRESS),
        (0, true) | (1 | 2, false) => {
            let (write, accessed) = (raw & 1 << 7 == 0, raw & 1 << 10 != 0);
            // SCTLR.WXN is on: nothing writable executes.
            let execute = !write && raw & 1 << 53 == 0;
            let rights = 1 | u8::from(write) << 1 | u8::from(execute) << 2;
            Entry::Leaf(Leaf {
                pa: start(raw & ADDRESS, level),
                memory: (raw >> 2 & 7 | (raw >> 8 & 3) << 3) as u8,
                rights: if accessed { rights } else { 0 },
            })
        }
        _ => Entry::Invalid,
    }
}

fn riscv64(level: u32, raw: u64) -> Entry {
    const FRAME: u64 = ((1 << 44) - 1) << 10;
    let address = (raw & FRAME) << 2;
    let [read, write, execute, accessed, dirty] = [1, 2, 3, 6, 7].map(|bit| raw >> bit & 1 != 0);
    match (read || write || execute, level) {
        (false, 0) => Entry::Invalid,
        (false, _) => Entry::Table(address),
        (true, _) => {
            let rights = u8::from(read) | u8::from(write && dirty) << 1 | u8::from(execute) << 2;
            Entry::Leaf(Leaf {
                pa: start(address, level),
                memory: (raw >> 61 & 3) as u8,
                rights: if accessed { rights } else { 0 },
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_aarch64() {
        let page = 0x8400_0000 | 3 | 3 << 8 | 1 << 10 | 1 << 53 | 1 << 54;
        let leaf = |rights| Entry::Leaf(Leaf { pa: 0x8400_0000, memory: 0o30, rights });
        assert_eq!(decode(Isa::Aarch64, 0, page), leaf(0b011));
        assert_eq!(decode(Isa::Aarch64, 0, page | 1 << 7), leaf(0b001));
        assert_eq!(decode(Isa::Aarch64, 0, (page | 1 << 7) & !(1 << 53)), leaf(0b101));
        assert_eq!(decode(Isa::Aarch64, 0, page & !(1 << 10)), leaf(0), "not accessed");
        assert_eq!(decode(Isa::Aarch64, 1, page & !2), leaf(0b011), "a block");
        assert_eq!(decode(Isa::Aarch64, 1, 0x8400_1003), Entry::Table(0x8400_1000));
        assert_eq!(decode(Isa::Aarch64, 0, page & !1), Entry::Invalid);
        assert_eq!(decode(Isa::Aarch64, 0, page & !2), Entry::Invalid);
    }

    #[test]
    fn entries_of_riscv64() {
        let page = 0x8400_0000u64 >> 2 | 0xe7;
        let leaf = |rights| Entry::Leaf(Leaf { pa: 0x8400_0000, memory: 0, rights });
        assert_eq!(decode(Isa::Riscv64, 0, page), leaf(0b011));
        assert_eq!(decode(Isa::Riscv64, 0, page & !0x84), leaf(0b001));
        assert_eq!(decode(Isa::Riscv64, 0, page & !0x84 | 8), leaf(0b101));
        assert_eq!(decode(Isa::Riscv64, 2, 0x8400_1000 >> 2 | 1), Entry::Table(0x8400_1000));
        assert_eq!(decode(Isa::Riscv64, 0, page & !1), Entry::Invalid);
    }
}
