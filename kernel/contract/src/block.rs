//! The block of a message, as a kernel keeps it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// Bytes of a piece.
const PIECE: usize = 64 << 10;
/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Bytes of a window that are copied at once.
const COPIED: usize = 512;

/// Memory that other kernels can read. Its contents do not change; it is free when this is dropped.
pub trait Lent: Send + fmt::Debug {
    fn bytes(&self) -> &[u8];
    /// Offset in the memory that its kernel lends.
    fn place(&self) -> u64;
    /// Whether it was written back, so that other kernels can read it as it is.
    fn is_clean(&self) -> bool;
}

/// Pages of a program that pass to another one. Their contents do not change; they are free when
/// this is dropped.
pub trait Passed: Send + fmt::Debug {
    /// Returns the bytes of a page, [`PAGE`] of them.
    fn page(&self, number: usize) -> &[u8];

    /// Puts the pages in the place of those of `into`, whole pages of a program, as many as there
    /// are. The range then has their bytes. On failure nothing has changed.
    fn put(self: Box<Self>, into: &mut [u8]) -> Result<(), Box<dyn Passed>>;
}

/// Memory of a window: programs and the kernel access it at the same time, so no Rust reference to
/// its bytes exists. Whole pages; it is free when this is dropped and no program shows it.
pub trait Shared: Send + Sync + fmt::Debug {
    fn length(&self) -> usize;

    /// Offset in the memory that its kernel lends, if it is there.
    fn place(&self) -> Option<u64>;

    /// Copies bytes out of it, or into it: of each word, what was stored there before or after.
    fn load(&self, at: usize, into: &mut [u8]);
    fn store(&self, at: usize, from: &[u8]);

    /// Writes a range back, so that other kernels can read what was stored there.
    fn flush(&self, at: usize, bytes: usize);

    /// Shows it to a program, in a range that was reserved under this number. Returns false if none
    /// is.
    fn show(self: Arc<Self>, reserved: u64) -> bool;
}

#[derive(Debug)]
enum Memory {
    /// In pieces, so that a large block needs no large gap in memory.
    Own(Vec<Vec<u8>>),
    Lent(Box<dyn Lent>),
    Passed(Box<dyn Passed>),
    Shared(Arc<dyn Shared>),
    /// Where its receiver wants it.
    Placed,
}

#[derive(Debug)]
pub struct Block {
    memory: Memory,
    length: usize,
}

impl Block {
    /// Returns a block whose pieces `fill` has filled, each with the bytes of this range; or `None`
    /// without memory, or if `fill` has added less.
    pub fn filled(
        length: usize,
        mut fill: impl FnMut(&mut Vec<u8>, Range<usize>),
    ) -> Option<Block> {
        let mut pieces = Vec::new();
        pieces.try_reserve_exact(length.div_ceil(PIECE)).ok()?;
        for at in (0..length).step_by(PIECE) {
            let range = at..length.min(at + PIECE);
            let bytes = range.len();
            let mut piece = Vec::new();
            piece.try_reserve_exact(bytes).ok()?;
            fill(&mut piece, range);
            if piece.len() != bytes {
                return None;
            }
            pieces.push(piece);
        }
        Some(Block { memory: Memory::Own(pieces), length })
    }

    /// Returns a block of zeros, or `None` without memory.
    pub fn zeroed(length: usize) -> Option<Block> {
        Block::filled(length, |piece, range| piece.resize(range.len(), 0))
    }

    /// Returns a block with these bytes, or `None` without memory.
    pub fn of(bytes: &[u8]) -> Option<Block> {
        let part = |range| bytes.get(range).unwrap_or_default();
        Block::filled(bytes.len(), |piece, range| piece.extend_from_slice(part(range)))
    }

    /// Returns a block in memory that other kernels can read.
    pub fn lent(memory: Box<dyn Lent>) -> Block {
        Block { length: memory.bytes().len(), memory: Memory::Lent(memory) }
    }

    /// Returns a block of this length in pages of a program.
    pub fn passed(memory: Box<dyn Passed>, length: usize) -> Block {
        Block { memory: Memory::Passed(memory), length }
    }

    /// Returns a block that is a window.
    pub fn shared(memory: Arc<dyn Shared>) -> Block {
        Block { length: memory.length(), memory: Memory::Shared(memory) }
    }

    /// Returns its memory if it is a window.
    pub fn window(&self) -> Option<&Arc<dyn Shared>> {
        match &self.memory {
            Memory::Shared(memory) => Some(memory),
            _ => None,
        }
    }

    /// Returns a block whose bytes are where its receiver wants them, and nowhere else.
    pub fn placed(length: usize) -> Block {
        Block { memory: Memory::Placed, length }
    }

    /// Returns whether it is so.
    pub fn is_placed(&self) -> bool {
        matches!(self.memory, Memory::Placed)
    }

    /// Returns whether it is in pages of a program, which can be [put](Block::put) elsewhere.
    pub fn passes(&self) -> bool {
        matches!(self.memory, Memory::Passed(_))
    }

    /// Puts its pages in the place of those of `into`: whole pages, of which there may be fewer. On
    /// failure nothing has changed.
    pub fn put(self, into: &mut [u8]) -> Result<(), Block> {
        let Block { memory, length } = self;
        match memory {
            Memory::Passed(pages) if into.len().is_multiple_of(PAGE) => {
                pages.put(into).map_err(|pages| Block::passed(pages, length))
            }
            memory => Err(Block { memory, length }),
        }
    }

    #[expect(clippy::len_without_is_empty, reason = "an empty block is a block")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns where other kernels can read it, if they can: its offset in what its kernel lends.
    pub fn place(&self) -> Option<u64> {
        match &self.memory {
            Memory::Own(_) | Memory::Passed(_) | Memory::Placed => None,
            Memory::Lent(memory) => Some(memory.place()),
            Memory::Shared(memory) => memory.place(),
        }
    }

    /// Returns the same if other kernels can read it there as it is.
    pub fn clean_place(&self) -> Option<u64> {
        match &self.memory {
            Memory::Lent(memory) if memory.is_clean() => Some(memory.place()),
            // Its sender flushes what it stores there.
            Memory::Shared(memory) => memory.place(),
            _ => None,
        }
    }

    /// Returns piece `number`; without one, no bytes.
    fn piece(&self, number: usize) -> &[u8] {
        match &self.memory {
            Memory::Own(pieces) => pieces.get(number).map_or(&[], Vec::as_slice),
            Memory::Lent(memory) => memory.bytes().chunks(PIECE).nth(number).unwrap_or_default(),
            Memory::Passed(pages) => {
                match self.length.saturating_sub(number.saturating_mul(PAGE)).min(PAGE) {
                    0 => &[],
                    bytes => pages.page(number).get(..bytes).unwrap_or_default(),
                }
            }
            Memory::Placed | Memory::Shared(_) => &[],
        }
    }

    /// Bytes of each of its pieces but the last.
    fn size_of_piece(&self) -> usize {
        if self.passes() { PAGE } else { PIECE }
    }

    /// Returns the pieces in order, each with its offset. One that is placed has no bytes, and
    /// neither has a window.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let size = self.size_of_piece();
        (0..self.length.div_ceil(size)).map(move |number| (number * size, self.piece(number)))
    }

    /// Returns the bytes from an offset on, at most so many, and at least one unless that is the
    /// end.
    fn part(&self, at: usize, most: usize) -> &[u8] {
        let size = self.size_of_piece();
        let rest = self.piece(at / size).get(at % size..).unwrap_or_default();
        rest.get(..most).unwrap_or(rest)
    }

    /// Calls `work` for its bytes in order, with their offsets, and stops at an error. A window is
    /// copied as it is meanwhile.
    pub fn each<E>(&self, mut work: impl FnMut(usize, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let Memory::Shared(memory) = &self.memory else {
            return self.pieces().try_for_each(|(at, piece)| work(at, piece));
        };
        let mut copy = [0; COPIED];
        (0..self.length).step_by(COPIED).try_for_each(|at| {
            let part = &mut copy[..COPIED.min(self.length - at)];
            memory.load(at, part);
            work(at, part)
        })
    }

    /// Appends the bytes from an offset on to a vector that has room for so many, likewise. At
    /// least one, unless that is the end.
    pub fn append_part(&self, at: usize, most: usize, to: &mut Vec<u8>) {
        match &self.memory {
            Memory::Shared(memory) => {
                let bytes = self.length.saturating_sub(at).min(most);
                let before = to.len();
                to.resize(before + bytes, 0);
                memory.load(at, &mut to[before..]);
            }
            _ => to.extend_from_slice(self.part(at, most)),
        }
    }

    /// Writes bytes at an offset. Returns false if they are outside of the block, or in two pieces,
    /// or other kernels can read the block, or it passes.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> bool {
        let Memory::Own(pieces) = &mut self.memory else { return false };
        let piece = pieces.get_mut(at / PIECE);
        let room = piece.and_then(|piece| piece.get_mut(at % PIECE..)?.get_mut(..bytes.len()));
        room.is_some_and(|room| {
            room.copy_from_slice(bytes);
            true
        })
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Block) -> bool {
        if let (Some(mine), Some(its)) = (self.window(), other.window()) {
            return Arc::ptr_eq(mine, its);
        }
        self.length == other.length
            && (0..self.length).step_by(PAGE).all(|at| self.part(at, PAGE) == other.part(at, PAGE))
    }
}

impl Eq for Block {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Elsewhere(Vec<u8>, bool);

    impl Lent for Elsewhere {
        fn bytes(&self) -> &[u8] {
            &self.0
        }

        fn place(&self) -> u64 {
            4096
        }

        fn is_clean(&self) -> bool {
            self.1
        }
    }

    #[derive(Debug)]
    struct Pages(Vec<u8>);

    impl Passed for Pages {
        fn page(&self, number: usize) -> &[u8] {
            &self.0[number * PAGE..][..PAGE]
        }

        fn put(self: Box<Self>, into: &mut [u8]) -> Result<(), Box<dyn Passed>> {
            if into.is_empty() {
                return Err(self);
            }
            let count = into.len().min(self.0.len());
            into[..count].copy_from_slice(&self.0[..count]);
            Ok(())
        }
    }

    /// A block of pages with garbage after its end.
    fn passed(bytes: &[u8]) -> Block {
        let mut pages = bytes.to_vec();
        pages.resize(bytes.len().next_multiple_of(PAGE), 0xee);
        Block::passed(Box::new(Pages(pages)), bytes.len())
    }

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn a_block_is_copied_part_by_part_from_wherever_it_is() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            let bytes = pattern(length);
            let own = Block::of(&bytes).unwrap();
            let lent = Block::lent(Box::new(Elsewhere(bytes.clone(), length > 1)));
            assert_eq!((own.place(), lent.place()), (None, Some(4096)));
            assert_eq!(
                (own.clean_place(), lent.clean_place()),
                (None, (length > 1).then_some(4096))
            );
            for from in [own, lent, passed(&bytes)] {
                let mut to = Block::zeroed(length).unwrap();
                let mut at = 0;
                loop {
                    let part = from.part(at, 4096);
                    if part.is_empty() {
                        break;
                    }
                    assert!(to.write(at, part));
                    at += part.len();
                }
                assert_eq!((at, to.len()), (length, length));
                assert_eq!(from, to);
                let whole: Vec<u8> = to.pieces().flat_map(|(_, piece)| piece.to_vec()).collect();
                assert_eq!(whole, bytes);
            }
        }
    }

    #[test]
    fn nothing_is_outside_of_a_block() {
        let mut block = Block::zeroed(PIECE + 2).unwrap();
        assert!(!block.write(PIECE + 1, &[0; 2]) && !block.write(PIECE - 1, &[0; 2]));
        assert!(!block.write(usize::MAX, &[0]) && !block.write(2 * PIECE, &[0]));
        assert_eq!(block.part(usize::MAX, 1), []);
        assert_eq!(block.part(PIECE, usize::MAX).len(), 2);
        let mut lent = Block::lent(Box::new(Elsewhere(pattern(8), false)));
        assert!(!lent.write(0, &[1]));
    }

    #[test]
    fn only_pages_are_put_into_whole_pages() {
        let bytes = pattern(PAGE + 5);
        let mut into = std::vec![1; 3 * PAGE];
        for (block, pages) in [(Block::of(&bytes).unwrap(), 2), (passed(&bytes), 0)] {
            let back = block.put(&mut into[..pages * PAGE]).unwrap_err();
            assert_eq!(back, passed(&bytes));
        }
        assert_eq!(passed(&bytes).put(&mut into[1..PAGE]).map_err(drop), Err(()));
        assert!(into.iter().all(|byte| *byte == 1));
        passed(&bytes).put(&mut into).unwrap();
        assert_eq!((&into[..bytes.len()], into[2 * PAGE]), (&bytes[..], 1));
    }

    #[test]
    fn a_block_that_is_not_filled_is_none() {
        assert_eq!(Block::filled(PIECE + 1, |piece, _| piece.resize(PIECE, 0)), None);
    }
}
