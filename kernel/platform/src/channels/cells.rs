//! Memory for the fields of messages that are queued, for the names of their blocks, and for short
//! blocks: cells of 64 bytes, all taken at the start.
//!
//! Contract: the caller queues no more than [`Cells::new`] was given, so a message that may be
//! queued has cells. A [`Payload`] is freed exactly once.

use alloc::boxed::Box;
use alloc::vec;

/// Bytes of a cell.
pub const CELL: usize = 64;
/// The end of a list.
const NONE: u16 = u16::MAX;

/// The bytes of one message.
#[derive(Debug, PartialEq, Eq)]
pub struct Payload {
    first: u16,
    length: u16,
    /// With a block: its name comes before the fields, and so many of its bytes after them.
    pub block: Option<u16>,
}

impl Payload {
    /// Returns the number of bytes.
    pub fn length(&self) -> usize {
        self.length.into()
    }
}

/// Returns the number of cells for so many bytes.
pub const fn cells_for(bytes: usize) -> usize {
    bytes.div_ceil(CELL)
}

/// All cells.
pub struct Cells {
    cells: Box<[[u8; CELL]]>,
    /// The next cell of the same message, or the next free one.
    next: Box<[u16]>,
    free: u16,
    left: usize,
}

impl Cells {
    /// Takes memory for `count` cells, at most 65,535.
    pub fn new(count: usize) -> Cells {
        let count = count.min(NONE.into());
        let next = (1..count as u16).chain([NONE]).take(count).collect();
        let free = if count == 0 { NONE } else { 0 };
        Cells { cells: vec![[0; CELL]; count].into_boxed_slice(), next, free, left: count }
    }

    /// Copies bytes to cells. Returns `None` if there are too few, or `bytes` is too long.
    pub fn put(&mut self, bytes: &[u8], block: Option<u16>) -> Option<Payload> {
        let length = u16::try_from(bytes.len()).ok()?;
        // As most are. Without a free cell, there is none at `free`.
        if (1..=CELL).contains(&bytes.len()) {
            let first = self.free;
            let cell = self.cells.get_mut(first as usize)?;
            self.free = core::mem::replace(self.next.get_mut(first as usize)?, NONE);
            self.left -= 1;
            cell.get_mut(..bytes.len())?.copy_from_slice(bytes);
            return Some(Payload { first, length, block });
        }
        let needed = cells_for(bytes.len());
        if needed > self.left {
            return None;
        }
        self.left -= needed;
        let mut first = NONE;
        for piece in bytes.chunks(CELL).rev() {
            let at = self.free;
            let (cell, next) = (self.cells.get_mut(at as usize)?, self.next.get_mut(at as usize)?);
            self.free = core::mem::replace(next, first);
            cell.get_mut(..piece.len())?.copy_from_slice(piece);
            first = at;
        }
        Some(Payload { first, length, block })
    }

    /// Copies the bytes of a message to the start of `into`. Returns how many, or `None` if there
    /// is no room for all.
    pub fn get(&self, payload: &Payload, into: &mut [u8]) -> Option<usize> {
        let (length, into) = (payload.length(), into.get_mut(..payload.length())?);
        if (1..=CELL).contains(&length) {
            into.copy_from_slice(self.cells.get(payload.first as usize)?.get(..length)?);
        } else {
            self.get_from(payload, 0, into)?;
        }
        Some(length)
    }

    /// Fills `into` with bytes of a message. Returns `None` if there are fewer.
    pub fn get_from(&self, payload: &Payload, from: usize, into: &mut [u8]) -> Option<()> {
        if from + into.len() > payload.length() {
            return None;
        }
        let (mut cell, mut skipped, mut rest) = (payload.first, from, into);
        while skipped >= CELL && !rest.is_empty() {
            (cell, skipped) = (*self.next.get(cell as usize)?, skipped - CELL);
        }
        while !rest.is_empty() {
            let bytes = self.cells.get(cell as usize)?.get(skipped..)?;
            let (piece, after) = rest.split_at_mut(bytes.len().min(rest.len()));
            piece.copy_from_slice(bytes.get(..piece.len())?);
            (cell, skipped, rest) = (*self.next.get(cell as usize)?, 0, after);
        }
        Some(())
    }

    /// Frees the cells of a message.
    pub fn free(&mut self, payload: Payload) {
        let mut at = payload.first;
        for _ in 0..cells_for(payload.length()) {
            let Some(next) = self.next.get_mut(at as usize) else { return };
            let following = core::mem::replace(next, self.free);
            (self.free, self.left) = (at, self.left + 1);
            at = following;
        }
    }

    /// Returns the number of free cells.
    pub fn left(&self) -> usize {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::vec::Vec;

    #[test]
    fn what_is_put_is_got_until_it_is_freed() {
        let (mut cells, mut random) = (Cells::new(40), Prng::new(5));
        let mut held: Vec<(Payload, Vec<u8>)> = Vec::new();
        for _ in 0..20_000 {
            let length = random.below(300) as usize;
            let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            let left = cells.left();
            match cells.put(&bytes, None) {
                Some(payload) => {
                    assert_eq!(left - cells.left(), cells_for(length));
                    held.push((payload, bytes));
                }
                None => assert!(cells_for(length) > left),
            }
            for (payload, bytes) in &held {
                let mut got = [0; 300];
                assert_eq!(cells.get(payload, &mut got), Some(bytes.len()));
                assert_eq!(&got[..bytes.len()], &bytes[..]);
                assert_eq!(
                    cells.get(payload, &mut got[..bytes.len().saturating_sub(1)]).is_none(),
                    !bytes.is_empty()
                );
                let from = random.below(bytes.len() as u64 + 1) as usize;
                let part = &mut got[..random.below((bytes.len() - from) as u64 + 1) as usize];
                assert_eq!(cells.get_from(payload, from, part), Some(()));
                assert_eq!(part, &bytes[from..from + part.len()]);
            }
            while !held.is_empty() && random.below(2) == 0 {
                let at = random.below(held.len() as u64) as usize;
                cells.free(held.swap_remove(at).0);
            }
        }
        held.into_iter().for_each(|(payload, _)| cells.free(payload));
        assert_eq!(cells.left(), 40);
    }
}
