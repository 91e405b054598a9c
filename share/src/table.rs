//! Bounded tables whose entries are named by a place (the index of a slot) and a generation.
//!
//! Contract: a freed place goes to the end of the free queue and gets a new generation, so a handle
//! to its former entry does not match (until the generation wraps after 2^20 uses of the place).
//!
//! A service gives out *handles*: life of the service (24 bits), generation (20), place (20);
//! never 0.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

const PLACE_BITS: u32 = 20;
/// The generation is never 0.
const GENERATION_BITS: u32 = 20;

/// Why a handle is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// Closed, or never given out.
    Unknown,
    /// From another life of the service.
    Restarted,
}

/// Truncates a service's life to the bits that a handle holds.
pub const fn life(lives: u32) -> u64 {
    lives as u64 & 0xff_ffff
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// A bounded table.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    most: u32,
}

impl<T> Table<T> {
    /// Creates an empty table for at most `most` entries.
    pub const fn new(most: u32) -> Table<T> {
        assert!(most <= 1 << PLACE_BITS);
        Table { slots: Vec::new(), free: VecDeque::new(), most }
    }

    /// Reserves room, so that the next `more` calls of [`Table::insert`] succeed. Returns `None` if
    /// that exceeds the table's limit or the memory.
    pub fn room(&mut self, more: u32) -> Option<()> {
        let missing = (more as usize).saturating_sub(self.free.len());
        if self.slots.len() + missing > self.most as usize {
            return None;
        }
        self.slots.try_reserve(missing).ok()?;
        // Every slot can be freed without an allocation.
        let spare = self.slots.len() + missing - self.free.len();
        self.free.try_reserve(spare).ok()
    }

    /// Inserts `value` and returns its place, or `None` when there is no room.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        self.room(1)?;
        if let Some(place) = self.free.pop_front() {
            self.slots[place as usize].value = Some(value);
            return Some(place);
        }
        self.slots.push(Slot { generation: 1, value: Some(value) });
        Some(self.slots.len() as u32 - 1)
    }

    pub fn get(&self, place: u32) -> Option<&T> {
        self.slots.get(place as usize)?.value.as_ref()
    }

    pub fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.slots.get_mut(place as usize)?.value.as_mut()
    }

    pub fn remove(&mut self, place: u32) -> Option<T> {
        let slot = self.slots.get_mut(place as usize)?;
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & ((1 << GENERATION_BITS) - 1);
        slot.generation = slot.generation.max(1);
        self.free.push_back(place);
        Some(value)
    }

    /// Returns the handle for a place in this [`life`].
    pub fn handle(&self, life: u64, place: u32) -> Option<u64> {
        let generation = u64::from(self.slots.get(place as usize)?.generation);
        let life = life << (PLACE_BITS + GENERATION_BITS);
        Some(life | generation << PLACE_BITS | u64::from(place))
    }

    /// Returns the place that a handle names, whether or not it is in use.
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

    /// Returns the number of places, in use or not.
    pub fn places(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the number of entries.
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
