//! Blocks in memory.
//!
//! Contract: the cache holds at most `most` blocks, unless more are dirty or pinned; the writers
//! bound those. A block of the generation being written (`closing`) keeps the contents that it had
//! when that generation closed; later changes go to a second copy. A block is *unplaced* if the log
//! has newer contents of it than its place on the device. Blocks that are neither dirty, closing,
//! pinned nor unplaced are evicted by the clock algorithm.

use super::slots::{Numbered, Slots};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// How a dirty block is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// To its place, before the transaction that refers to it is committed.
    Data,
    /// To the journal; to its place by a checkpoint after the commit.
    Meta,
}

#[derive(Debug)]
struct Slot {
    block: u32,
    data: Box<[u8]>,
    used: bool,
    dirty: Option<Class>,
    closing: bool,
    frozen: Option<Box<[u8]>>,
    unplaced: bool,
}

impl Slot {
    fn new(block: u32, data: Box<[u8]>, dirty: Option<Class>) -> Slot {
        Slot { block, data, used: true, dirty, closing: false, frozen: None, unplaced: false }
    }
}

impl Numbered for Slot {
    fn block(&self) -> u32 {
        self.block
    }
}

/// Maximum number of buffers kept for reuse.
const SPARE: usize = 32;

#[derive(Debug)]
pub struct Cache {
    most: usize,
    slots: Slots<Slot>,
    /// Without duplicates, in no order.
    dirty: Vec<u32>,
    /// How many of them are [`Class::Meta`].
    meta: usize,
    /// Blocks with [`Slot::unplaced`], in no order.
    unplaced: Vec<u32>,
    pinned: BTreeSet<u32>,
    /// Buffers of evicted blocks, for reuse.
    spare: Vec<Box<[u8]>>,
    /// Index at which the search for a block to evict continues.
    hand: usize,
}

impl Cache {
    pub fn new(most: usize) -> Cache {
        Cache {
            most,
            slots: Slots::new(),
            dirty: Vec::new(),
            meta: 0,
            unplaced: Vec::new(),
            pinned: BTreeSet::new(),
            spare: Vec::new(),
            hand: 0,
        }
    }

    /// Takes a buffer, with any contents, if there is one.
    pub fn spare(&mut self) -> Option<Box<[u8]>> {
        self.spare.pop()
    }

    fn keep(&mut self, data: Box<[u8]>) {
        if self.spare.len() < SPARE {
            self.spare.push(data);
        }
    }

    /// Returns the maximum number of blocks.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of blocks changed since the last generation closed.
    pub fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// Returns how many of them are [`Class::Meta`].
    pub fn meta(&self) -> usize {
        self.meta
    }

    /// Returns whether a block is in the cache.
    pub fn has(&self, block: u32) -> bool {
        self.slots.find(block).is_some()
    }

    /// Returns the contents of a block.
    pub fn get(&mut self, block: u32) -> Option<&[u8]> {
        let slot = self.slots.get_mut(block)?;
        slot.used = true;
        Some(&slot.data)
    }

    /// Adds what was read from the device, unless the block is in the cache already.
    pub fn fill(&mut self, block: u32, data: Box<[u8]>) {
        if self.has(block) {
            return;
        }
        self.insert(block, data, None);
    }

    /// Adds a block that is not in the cache.
    fn insert(&mut self, block: u32, data: Box<[u8]>, dirty: Option<Class>) {
        self.make_room();
        self.slots.insert(Slot::new(block, data, dirty));
    }

    /// Changes a block, or adds it.
    pub fn store(&mut self, block: u32, data: Box<[u8]>, class: Class) {
        let Some(slot) = self.slots.get_mut(block) else {
            self.insert(block, data, Some(class));
            self.meta += usize::from(class == Class::Meta);
            return self.dirty.push(block);
        };
        let before = core::mem::replace(&mut slot.data, data);
        slot.used = true;
        if slot.dirty.is_none() {
            self.dirty.push(block);
        }
        let was = slot.dirty;
        slot.dirty = was.max(Some(class));
        self.meta += usize::from(slot.dirty == Some(Class::Meta) && was != Some(Class::Meta));
        if slot.closing && slot.frozen.is_none() {
            slot.frozen = Some(before);
        } else {
            self.keep(before);
        }
    }

    /// Returns a block that has changed since the last generation closed, to change it further. No
    /// generation may be closing.
    pub fn dirtied(&mut self, block: u32) -> Option<&mut [u8]> {
        let slot = self.slots.get_mut(block)?;
        (slot.dirty.is_some() && !slot.closing).then_some(&mut slot.data)
    }

    /// Makes all dirty blocks the closing generation, except those that were freed: they need not
    /// be written, nor placed. Returns them, sorted.
    pub fn close(&mut self, freed: &BTreeSet<u32>) -> Vec<(u32, Class)> {
        let mut all = Vec::with_capacity(self.dirty.len());
        self.dirty.sort_unstable();
        for block in self.dirty.drain(..) {
            if let Some(slot) = self.slots.get_mut(block)
                && let Some(class) = slot.dirty.take()
                && !freed.contains(&block)
            {
                slot.closing = true;
                all.push((block, class));
            }
        }
        self.meta = 0;
        for block in freed {
            if let Some(slot) = self.slots.get_mut(*block) {
                slot.unplaced = false;
            }
        }
        self.forget_placed();
        all
    }

    /// Returns the number of unplaced blocks.
    pub fn unplaced(&self) -> usize {
        self.unplaced.len()
    }

    /// Returns the number of blocks that are unplaced or among these.
    pub fn unplaced_with(&self, blocks: &[u32]) -> usize {
        let is_other = |block: &&u32| self.slots.get(**block).is_some_and(|slot| !slot.unplaced);
        self.unplaced.len() + blocks.iter().filter(is_other).count()
    }

    /// Adds all unplaced blocks to the closing generation. Returns them. None may be dirty.
    pub fn place(&mut self) -> &[u32] {
        for block in &self.unplaced {
            if let Some(slot) = self.slots.get_mut(*block) {
                slot.closing = true;
            }
        }
        &self.unplaced
    }

    /// Notes that the log has this block as it was when the generation closed.
    pub fn logged(&mut self, block: u32) {
        if let Some(slot) = self.slots.get_mut(block)
            && !core::mem::replace(&mut slot.unplaced, true)
        {
            self.unplaced.push(block);
        }
    }

    /// Drops the blocks that are not unplaced any more from the list.
    fn forget_placed(&mut self) {
        let slots = &self.slots;
        self.unplaced.retain(|block| slots.get(*block).is_some_and(|slot| slot.unplaced));
    }

    /// Returns the contents that a block of the closing generation had when it closed.
    pub fn closing(&self, block: u32) -> Option<&[u8]> {
        let slot = self.slots.get(block)?;
        Some(slot.frozen.as_ref().unwrap_or(&slot.data))
    }

    /// Notes that the closing generation is on the device. It consists of these blocks, each with
    /// whether it was written to its place.
    pub fn closed(&mut self, blocks: impl Iterator<Item = (u32, bool)>) {
        for (block, placed) in blocks {
            if let Some(slot) = self.slots.get_mut(block) {
                (slot.closing, slot.frozen) = (false, None);
                slot.unplaced &= !placed;
            }
        }
        self.forget_placed();
    }

    /// Pins these blocks, which need not be in the cache yet, and unpins all others.
    pub fn pin(&mut self, blocks: BTreeSet<u32>) {
        self.pinned = blocks;
    }

    pub fn pinned(&self) -> &BTreeSet<u32> {
        &self.pinned
    }

    fn make_room(&mut self) {
        let mut looks = 2 * self.slots.len();
        while self.slots.len() >= self.most && looks > 0 {
            looks -= 1;
            let Some(slot) = self.slots.at_mut(self.hand) else {
                self.hand = 0;
                continue;
            };
            let written = slot.dirty.is_some() || slot.closing || slot.unplaced;
            let stays = written || self.pinned.contains(&slot.block);
            if stays || core::mem::take(&mut slot.used) {
                self.hand += 1;
            } else if let Some(slot) = self.slots.remove(self.hand) {
                self.keep(slot.data);
            }
        }
    }
}
