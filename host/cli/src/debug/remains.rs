//! The memory of a board after the end of a kernel: its RAM file, read by virtual address; and the
//! registers of the frame that panicked, found again by the addresses that the log has.

use abi::boot::VA_OFFSET;
use anyhow::Context;
use board::{Board, Domain};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are searched at once.
const CHUNK: usize = 4096;
/// Most of the memory was never written.
const NOTHING: [u8; CHUNK] = [0; CHUNK];

/// Registers of a frame: where it was, and how it goes on outwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub pc: u64,
    /// The frame pointer.
    pub fp: u64,
    /// The stack pointer.
    pub sp: u64,
    /// Where this frame returns to.
    pub ra: u64,
}

/// A RAM file. No caches: in this emulator every store reached it.
pub struct Memory {
    file: File,
    base: u64,
    size: u64,
}

impl Memory {
    pub fn open(path: &Path, board: &Board) -> anyhow::Result<Memory> {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        Ok(Memory { file, base: board.ram.base, size: board.ram.size })
    }

    /// Bytes at a virtual address of any kernel; None where nothing is mapped.
    pub fn read(&self, va: u64, length: usize) -> Option<Vec<u8>> {
        let offset = va.checked_sub(VA_OFFSET)?.checked_sub(self.base)?;
        let inside = offset.checked_add(length as u64)? <= self.size;
        let mut bytes = vec![0; if inside { length } else { return None }];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    fn pair(&self, va: u64) -> Option<[u64; 2]> {
        Some(pair_of(&self.read(va, 16)?))
    }

    /// The frame with the first of `addresses`: its record holds the frame pointer of the next one
    /// and the address it was called from, and so on for each. Two must agree, since one value can
    /// be anywhere.
    pub fn frame(&self, domain: &Domain, addresses: &[u64]) -> Option<Frame> {
        let &[first, second, ..] = addresses else { return None };
        // The log says one byte less than the return address.
        let (first, second) = (first + 1, second + 1);
        // RV64's frame pointers point after their record, AArch64's at it.
        let back = if domain.isa == board::Isa::Riscv64 { 16 } else { 0 };
        let start = VA_OFFSET + domain.image.base;
        let end = VA_OFFSET + domain.ram.base + domain.ram.size;
        let mut va = start;
        while va < end {
            let bytes = self.read(va, CHUNK)?;
            let whole = if bytes == NOTHING { &bytes[..0] } else { &bytes[..] };
            for (at, words) in whole.windows(16).step_by(8).enumerate() {
                let [next, ra] = pair_of(words);
                let follows = || {
                    let next = self.pair(next.checked_sub(back)?)?;
                    (next[1] == second).then_some(())
                };
                if ra == first && follows().is_some() {
                    let sp = va + at as u64 * 8 + 16;
                    return Some(Frame { pc: first, fp: next, sp, ra: second });
                }
            }
            va += CHUNK as u64;
        }
        None
    }
}

fn pair_of(bytes: &[u8]) -> [u64; 2] {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    [word(0), word(8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_frames_is_found_and_a_single_value_is_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let board = board::read(&root.join("boards/solo.toml")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ram");
        let file = File::create(&path).unwrap();
        file.set_len(board.ram.size).unwrap();
        let domain = &board.domains[0];
        let pa = domain.image.base;
        let put = |pa: u64, words: [u64; 2]| {
            let bytes = words.map(u64::to_le_bytes).concat();
            file.write_all_at(&bytes, pa - board.ram.base).unwrap();
        };
        put(pa + 0x100, [VA_OFFSET + pa + 0x900, 0x1001]);
        put(pa + 0x2010, [VA_OFFSET + pa + 0x2040, 0x1001]);
        put(pa + 0x2040, [0, 0x2001]);
        let memory = Memory::open(&path, &board).unwrap();
        let frame = memory.frame(domain, &[0x1000, 0x2000, 0x3000]).unwrap();
        let at = VA_OFFSET + pa;
        assert_eq!(frame, Frame { pc: 0x1001, fp: at + 0x2040, sp: at + 0x2020, ra: 0x2001 });
        assert_eq!(memory.frame(domain, &[0x1000]), None);
        assert_eq!(memory.read(VA_OFFSET + board.ram.base + board.ram.size - 8, 16), None);
        assert_eq!(memory.read(0, 8), None);
    }
}
