//! A hash table of blocks by number: the storage of the cache.
//!
//! ```text
//!   block --hash--> index: open addressing, linear probing --> slots: dense, in no order
//! ```
//! Contract: a block is in it at most once. Removing a slot moves the last one to its place.

use alloc::vec;
use alloc::vec::Vec;

/// An empty entry of the index.
const NONE: u32 = u32::MAX;
/// Minimum size of the index.
const LEAST: usize = 16;

/// A value with a block number as its key.
pub trait Numbered {
    /// Returns the number, which must not change.
    fn block(&self) -> u32;
}

#[derive(Debug)]
pub struct Slots<T> {
    slots: Vec<T>,
    /// Its size is a power of two, and at least half of it is [`NONE`].
    index: Vec<u32>,
}

impl<T: Numbered> Slots<T> {
    pub fn new() -> Slots<T> {
        Slots { slots: Vec::new(), index: vec![NONE; LEAST] }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    fn mask(&self) -> usize {
        self.index.len() - 1
    }

    /// Returns where the search for a block starts. Neighbouring blocks are far from each other.
    fn home(&self, block: u32) -> usize {
        (block.wrapping_mul(0x9e37_79b9) >> 7) as usize & self.mask()
    }

    /// Returns the index entry of a block and its slot, or the empty entry where its search ends.
    fn entry(&self, block: u32) -> (usize, Option<usize>) {
        let mut at = self.home(block);
        loop {
            let place = self.index[at];
            match self.slots.get(place as usize) {
                None => return (at, None),
                Some(slot) if slot.block() == block => return (at, Some(place as usize)),
                Some(_) => at = (at + 1) & self.mask(),
            }
        }
    }

    /// Returns the slot of a block.
    pub fn find(&self, block: u32) -> Option<usize> {
        self.entry(block).1
    }

    pub fn get(&self, block: u32) -> Option<&T> {
        self.slots.get(self.find(block)?)
    }

    pub fn get_mut(&mut self, block: u32) -> Option<&mut T> {
        let place = self.find(block)?;
        self.slots.get_mut(place)
    }

    /// Returns the value in a slot.
    pub fn at_mut(&mut self, place: usize) -> Option<&mut T> {
        self.slots.get_mut(place)
    }

    /// Adds a value whose block is not in the table.
    pub fn insert(&mut self, slot: T) {
        if 2 * (self.slots.len() + 1) > self.index.len() {
            self.grow();
        }
        let (at, found) = self.entry(slot.block());
        debug_assert!(found.is_none(), "once");
        self.index[at] = self.slots.len() as u32;
        self.slots.push(slot);
    }

    fn grow(&mut self) {
        self.index = vec![NONE; 2 * self.index.len()];
        for place in 0..self.slots.len() {
            let mut at = self.home(self.slots[place].block());
            while self.index[at] != NONE {
                at = (at + 1) & self.mask();
            }
            self.index[at] = place as u32;
        }
    }

    /// Removes and returns the value in a slot; the last value moves there.
    pub fn remove(&mut self, place: usize) -> Option<T> {
        let (slot, last) = (self.slots.get(place)?, self.slots.last()?.block());
        self.close(self.entry(slot.block()).0);
        if let (at, Some(_)) = self.entry(last) {
            self.index[at] = place as u32;
        }
        Some(self.slots.swap_remove(place))
    }

    /// Empties an entry of the index, and moves later entries whose search passes it.
    fn close(&mut self, mut hole: usize) {
        let (mask, mut at) = (self.mask(), hole);
        loop {
            at = (at + 1) & mask;
            let place = self.index[at];
            let Some(slot) = self.slots.get(place as usize) else { break };
            let way = at.wrapping_sub(self.home(slot.block())) & mask;
            if way >= at.wrapping_sub(hole) & mask {
                self.index[hole] = place;
                hole = at;
            }
        }
        self.index[hole] = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use base::prng::Prng;

    impl Numbered for (u32, u64) {
        fn block(&self) -> u32 {
            self.0
        }
    }

    #[test]
    fn it_agrees_with_a_map() {
        for seed in 0..50 {
            let mut random = Prng::new(seed);
            let (mut slots, mut map) = (Slots::<(u32, u64)>::new(), BTreeMap::new());
            let range = [40, 300, u64::from(u32::MAX)][seed as usize % 3];
            for step in 0..2000u64 {
                let block = random.below(range) as u32;
                if random.chance(1, 3) && slots.len() != 0 {
                    let place = random.below(slots.len() as u64) as usize;
                    let block = slots.at_mut(place).unwrap().0;
                    assert_eq!(slots.remove(place).unwrap().0, block);
                    map.remove(&block).unwrap();
                } else if let Some(slot) = slots.get_mut(block) {
                    slot.1 = step;
                    map.insert(block, step).unwrap();
                } else {
                    slots.insert((block, step));
                    assert_eq!(map.insert(block, step), None);
                }
                assert_eq!(slots.len(), map.len());
                assert_eq!(slots.get(block).map(|slot| slot.1), map.get(&block).copied());
            }
            assert!(map.iter().all(|(block, step)| slots.get(*block) == Some(&(*block, *step))));
        }
    }
}
