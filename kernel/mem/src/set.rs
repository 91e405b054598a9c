//! Sets of blocks of the global region.

use abi::memory::MAX_BLOCKS;

use crate::blocks::End;

const WORDS: usize = MAX_BLOCKS / 64;

/// A set of block indices. Indices from [`MAX_BLOCKS`] on are never members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSet([u64; WORDS]);

impl BlockSet {
    pub const fn new() -> Self {
        BlockSet([0; WORDS])
    }

    pub fn insert(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    pub fn remove(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    pub fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the blocks, starting at `end`.
    pub fn from(self, end: End) -> impl Iterator<Item = usize> {
        let mut left = self;
        core::iter::from_fn(move || {
            let index = left.first(end)?;
            left.remove(index);
            Some(index)
        })
    }

    /// Returns the block nearest to `end`.
    pub fn first(&self, end: End) -> Option<usize> {
        let at = |index: usize, bit: u32| index * 64 + bit as usize;
        let mut words = self.0.iter().enumerate().filter(|(_, word)| **word != 0);
        match end {
            End::Low => words.next().map(|(index, word)| at(index, word.trailing_zeros())),
            End::High => words.next_back().map(|(index, word)| at(index, word.ilog2())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_set_is_iterated_from_both_ends() {
        let mut set = BlockSet::new();
        assert!(set.is_empty() && set.first(End::High).is_none());
        [0, 63, 64, 127, MAX_BLOCKS].into_iter().for_each(|index| set.insert(index));
        assert_eq!(set.from(End::Low).collect::<Vec<_>>(), [0, 63, 64, 127]);
        assert_eq!(set.from(End::High).collect::<Vec<_>>(), [127, 64, 63, 0]);
        set.remove(64);
        assert!(!set.contains(64) && !set.contains(MAX_BLOCKS) && set.contains(63));
        assert_eq!(set.len(), 3);
    }
}
