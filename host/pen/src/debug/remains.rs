//! The memory of a board after the end of a kernel: its RAM file, read by virtual address; and the
//! registers of the panicking frame, reconstructed from the addresses in the log.

use abi::boot::VA_OFFSET;
use anyhow::Context;
use board::{Board, Domain};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE: u64 = 4096;
/// A page of zeroes, like most of the memory.
const NOTHING: [u8; PAGE as usize] = [0; PAGE as usize];

/// Registers of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Address within the call that did not return. (The next instruction may belong to another
    /// function.)
    pub pc: u64,
    /// The frame pointer.
    pub fp: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame's return address.
    pub ra: u64,
}

/// A RAM file. There are no caches: in this emulator every store reached it.
pub struct Memory {
    file: File,
    base: u64,
    size: u64,
    stack: Option<Stack>,
}

/// A thread's stack, mapped contiguously outside the linear map: its first virtual and its first
/// physical address.
#[derive(Clone, Copy)]
struct Stack {
    va: u64,
    pa: u64,
}

/// Maximum pages of a stack, including the guard below it (`kernel_mem::stacks`).
const STACK_PAGES: u64 = 9;
/// Alignment of a stack's first address.
const SLOT: u64 = 64 << 10;

impl Memory {
    pub fn open(path: &Path, board: &Board) -> anyhow::Result<Memory> {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        Ok(Memory { file, base: board.ram.base, size: board.ram.size, stack: None })
    }

    /// Reads bytes at a virtual address of the kernel; `None` if no mapping is known.
    pub fn read(&self, va: u64, length: usize) -> Option<Vec<u8>> {
        let inside = |stack: &Stack| va.checked_sub(stack.va).filter(|&at| at < STACK_PAGES * PAGE);
        let on_stack = self.stack.and_then(|stack| Some(stack.pa + inside(&stack)?));
        self.at(on_stack.or(va.checked_sub(VA_OFFSET))?, length)
    }

    /// Reads bytes at a physical address.
    fn at(&self, pa: u64, length: usize) -> Option<Vec<u8>> {
        let offset = pa.checked_sub(self.base)?;
        let inside = offset.checked_add(length as u64)? <= self.size;
        let mut bytes = vec![0; if inside { length } else { return None }];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    /// Finds the frame with the first of `addresses`: its record contains the next frame's frame
    /// pointer and the return address into it, and so on. Two records must match, because one value
    /// may occur anywhere. From then on, addresses on that stack can be read.
    pub fn frame(&mut self, domain: &Domain, addresses: &[u64]) -> Option<Frame> {
        let &[first, second, ..] = addresses else { return None };
        let align = if domain.isa == board::Isa::Riscv64 { 2 } else { 4 };
        let pc = first - first % align;
        // An address in the log is one byte less than the return address.
        let (first, second) = (first + 1, second + 1);
        // RV64's frame pointers point after their record, AArch64's at it.
        let back = if domain.isa == board::Isa::Riscv64 { 16 } else { 0 };
        for page in (domain.image.base..domain.ram.base + domain.ram.size).step_by(PAGE as usize) {
            let bytes = self.at(page, PAGE as usize)?;
            let whole = if bytes == NOTHING { &bytes[..0] } else { &bytes[..] };
            for (index, words) in whole.windows(16).step_by(8).enumerate() {
                let [next, ra] = pair_of(words);
                let pa = page + 8 * index as u64;
                let found =
                    (ra == first).then(|| self.caller(page, next.wrapping_sub(back), second));
                let Some(shift) = found.flatten() else { continue };
                let va = pa.wrapping_add(shift);
                let start = va - va % SLOT;
                self.stack = Some(Stack { va: start, pa: start.wrapping_sub(shift) });
                return Some(Frame { pc, fp: next, sp: va + 16, ra: second });
            }
        }
        None
    }

    /// Searches the record at virtual address `record`, whose return address is `ra`, on the stack
    /// that contains `page`. Returns the offset of virtual addresses there.
    fn caller(&self, page: u64, record: u64, ra: u64) -> Option<u64> {
        (0..STACK_PAGES)
            .map(|further| page + further * PAGE + record % PAGE)
            .find(|&pa| self.at(pa, 16).is_some_and(|bytes| pair_of(&bytes)[1] == ra))
            .map(|pa| record.wrapping_sub(pa))
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
        // A thread's stack on two pages.
        let thread = 0xffff_c000_0001_0000;
        put(pa + 0x8f80, [thread + 0x2010, 0x5001]);
        put(pa + 0x9010, [0, 0x6001]);
        let mut memory = Memory::open(&path, &board).unwrap();
        let frame = memory.frame(domain, &[0x1000, 0x2000, 0x3000]).unwrap();
        let at = VA_OFFSET + pa;
        assert_eq!(frame, Frame { pc: 0x1000, fp: at + 0x2040, sp: at + 0x2020, ra: 0x2001 });
        assert_eq!(memory.frame(domain, &[0x1000]), None);
        assert_eq!(memory.read(thread + 0x2010, 16), None);
        let frame = memory.frame(domain, &[0x5000, 0x6000]).unwrap();
        assert_eq!((frame.fp, frame.sp), (thread + 0x2010, thread + 0x1f90));
        assert_eq!(pair_of(&memory.read(thread + 0x2010, 16).unwrap()), [0, 0x6001]);
        assert_eq!(memory.read(VA_OFFSET + board.ram.base + board.ram.size - 8, 16), None);
        assert_eq!(memory.read(0, 8), None);
    }
}
