//! A table of at most so many things, named by a place and a generation.
//!
//! Contract: a place that was given back is the last one to be taken again, and then has another
//! generation, so that an old name leads to nothing (until 2^20 generations later).

use abi::fs::Errno;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bits of a place.
pub const PLACE_BITS: u32 = 20;
/// Bits of a generation; never 0.
pub const GENERATION_BITS: u32 = 20;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// The table.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    most: u32,
}

impl<T> Table<T> {
    /// An empty one for at most `most`.
    pub const fn new(most: u32) -> Table<T> {
        assert!(most <= 1 << PLACE_BITS);
        Table { slots: Vec::new(), free: VecDeque::new(), most }
    }

    /// Makes room for `more`, so that the next so many [`Table::insert`] will not fail.
    pub fn room(&mut self, more: u32, full: Errno) -> Result<(), Errno> {
        let missing = (more as usize).saturating_sub(self.free.len());
        if self.slots.len() + missing > self.most as usize {
            return Err(full);
        }
        self.slots.try_reserve(missing).map_err(|_| Errno::Nomem)?;
        // Every slot can be given back without asking for memory.
        let spare = self.slots.len() + missing - self.free.len();
        self.free.try_reserve(spare).map_err(|_| Errno::Nomem)
    }

    /// Puts it in, and says where.
    pub fn insert(&mut self, value: T, full: Errno) -> Result<u32, Errno> {
        self.room(1, full)?;
        if let Some(place) = self.free.pop_front() {
            self.slots[place as usize].value = Some(value);
            return Ok(place);
        }
        self.slots.push(Slot { generation: 1, value: Some(value) });
        Ok(self.slots.len() as u32 - 1)
    }

    /// What is at a place.
    pub fn get(&self, place: u32) -> Option<&T> {
        self.slots.get(place as usize)?.value.as_ref()
    }

    /// What is at a place, to change it.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.slots.get_mut(place as usize)?.value.as_mut()
    }

    /// Takes it out.
    pub fn remove(&mut self, place: u32) -> Option<T> {
        let slot = self.slots.get_mut(place as usize)?;
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & ((1 << GENERATION_BITS) - 1);
        slot.generation = slot.generation.max(1);
        self.free.push_back(place);
        Some(value)
    }

    /// The generation of a place.
    pub fn generation(&self, place: u32) -> Option<u32> {
        Some(self.slots.get(place as usize)?.generation)
    }

    /// Places there are, taken or not.
    pub fn places(&self) -> u32 {
        self.slots.len() as u32
    }

    /// How many are taken.
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
