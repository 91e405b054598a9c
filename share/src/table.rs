//! A table of at most so many things, named by a place and a generation.
//!
//! Contract: a place that was given back is the last one to be taken again, and then has another
//! generation, so that an old name leads to nothing (until 2^20 generations later).
//!
//! What a table's service gives out is a *handle*: life of the service (24 bits), generation (20),
//! place (20); never 0.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bits of a place.
const PLACE_BITS: u32 = 20;
/// Bits of a generation; never 0.
const GENERATION_BITS: u32 = 20;

/// Why a handle leads to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// Closed, or never given.
    Unknown,
    /// Of another life of the service.
    Restarted,
}

/// A life of a service, as handles have it.
pub const fn life(lives: u32) -> u64 {
    lives as u64 & 0xff_ffff
}

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

    /// Makes room for `more`, so that the next so many [`Table::insert`] will not fail. `None`:
    /// that is too many, or more than there is memory for.
    pub fn room(&mut self, more: u32) -> Option<()> {
        let missing = (more as usize).saturating_sub(self.free.len());
        if self.slots.len() + missing > self.most as usize {
            return None;
        }
        self.slots.try_reserve(missing).ok()?;
        // Every slot can be given back without asking for memory.
        let spare = self.slots.len() + missing - self.free.len();
        self.free.try_reserve(spare).ok()
    }

    /// Puts it in, and says where; `None` when there is no room.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        self.room(1)?;
        if let Some(place) = self.free.pop_front() {
            self.slots[place as usize].value = Some(value);
            return Some(place);
        }
        self.slots.push(Slot { generation: 1, value: Some(value) });
        Some(self.slots.len() as u32 - 1)
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

    /// The handle of what is at a place, in this [`life`].
    pub fn handle(&self, life: u64, place: u32) -> Option<u64> {
        let generation = u64::from(self.slots.get(place as usize)?.generation);
        let life = life << (PLACE_BITS + GENERATION_BITS);
        Some(life | generation << PLACE_BITS | u64::from(place))
    }

    /// The place that a handle names, taken or not.
    pub fn find(&self, life: u64, handle: u64) -> Result<u32, Stale> {
        let place = (handle & ((1 << PLACE_BITS) - 1)) as u32;
        let generation = (handle >> PLACE_BITS) & ((1 << GENERATION_BITS) - 1);
        if generation == 0 {
            return Err(Stale::Unknown);
        }
        if handle >> (PLACE_BITS + GENERATION_BITS) != life {
            return Err(Stale::Restarted);
        }
        let slot = self.slots.get(place as usize);
        let same = slot.is_some_and(|slot| u64::from(slot.generation) == generation);
        if same { Ok(place) } else { Err(Stale::Unknown) }
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
