//! The owners that are charged for slots, so that a kernel can limit how many one of them uses.
//!
//! Contract: an owner is a number of the caller's. The table counts, and refuses nothing itself.

use crate::channels::Channels;
use crate::end::Slot;
use crate::name::EndId;

impl<B> Channels<B> {
    /// Charges the slot of an end to `owner`, until another one is charged or the slot is free: so
    /// also while the end is in a queue, and then while the slot is a stand-in. An end that arrives
    /// is charged to the owner of the end that it is for. 0: no owner.
    pub fn charge(&mut self, end: EndId, owner: u32) {
        if let Some(end) = self.table.held(end).and_then(|index| self.table.get_mut(index)) {
            end.owner = owner;
        }
    }

    /// Returns how many slots are charged to `owner`.
    pub fn charged_to(&self, owner: u32) -> usize {
        self.table.iter().filter(|end| end.owner == owner).count()
    }

    /// Returns how many ends the next message to `end` carries that `owner` is not charged for.
    pub fn new_ends(&self, end: EndId, owner: u32) -> usize {
        let end = self.table.held(end).and_then(|index| self.table.get(index));
        let front = end.and_then(|end| end.queue.front());
        let slots = front.into_iter().flat_map(|entry| entry.carried);
        let is_new = |slot: &Slot| match slot {
            Slot::End(index) => self.table.get(*index).is_some_and(|end| end.owner != owner),
            _ => false,
        };
        slots.filter(is_new).count()
    }
}
