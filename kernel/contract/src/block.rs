//! The block of a message, as a kernel keeps it.

use alloc::vec::Vec;
use core::ops::Range;

/// Bytes of a piece.
const PIECE: usize = 64 << 10;

/// Bytes in pieces, so that a large block needs no large gap in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Block {
    pieces: Vec<Vec<u8>>,
    length: usize,
}

impl Block {
    /// Returns a block whose pieces `fill` has filled, each with the bytes of this range; or `None`
    /// without memory.
    fn filled(length: usize, fill: impl Fn(&mut Vec<u8>, Range<usize>)) -> Option<Block> {
        let mut pieces = Vec::new();
        pieces.try_reserve_exact(length.div_ceil(PIECE)).ok()?;
        for at in (0..length).step_by(PIECE) {
            let range = at..length.min(at + PIECE);
            let mut piece = Vec::new();
            piece.try_reserve_exact(range.len()).ok()?;
            fill(&mut piece, range);
            pieces.push(piece);
        }
        Some(Block { pieces, length })
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

    #[expect(clippy::len_without_is_empty, reason = "an empty block is a block")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns the pieces in order, each with its offset.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, &[u8])> {
        (0..).step_by(PIECE).zip(self.pieces.iter().map(Vec::as_slice))
    }

    /// Returns the bytes from an offset on, at most so many, and at least one unless that is the
    /// end.
    pub fn part(&self, at: usize, most: usize) -> &[u8] {
        let piece = self.pieces.get(at / PIECE).map_or(&[][..], Vec::as_slice);
        let rest = piece.get(at % PIECE..).unwrap_or_default();
        rest.get(..most).unwrap_or(rest)
    }

    /// Writes bytes at an offset. Returns false if they are outside of the block, or in two pieces.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> bool {
        let piece = self.pieces.get_mut(at / PIECE);
        let room = piece.and_then(|piece| piece.get_mut(at % PIECE..)?.get_mut(..bytes.len()));
        room.is_some_and(|room| {
            room.copy_from_slice(bytes);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_copied_part_by_part() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let from = Block::of(&bytes).unwrap();
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

    #[test]
    fn nothing_is_outside_of_a_block() {
        let mut block = Block::zeroed(PIECE + 2).unwrap();
        assert!(!block.write(PIECE + 1, &[0; 2]) && !block.write(PIECE - 1, &[0; 2]));
        assert!(!block.write(usize::MAX, &[0]) && !block.write(2 * PIECE, &[0]));
        assert_eq!(block.part(usize::MAX, 1), []);
        assert_eq!(block.part(PIECE, usize::MAX).len(), 2);
    }
}
