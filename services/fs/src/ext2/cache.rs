//! Blocks in memory.
//!
//! Contract: at most `most` blocks, unless more are dirty or pinned than that, which who writes
//! prevents by bounds of its own. A block that is dirty stays. A block that belongs to the
//! generation being written (`closing`) keeps what it was when that closed: a later change goes
//! beside it. Which clean block goes is the clock's choice: one that nobody used since the hand
//! came by.

use super::slots::{Numbered, Slots};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// When a dirty block is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// At first: data, and whatever nothing on the device leads to yet.
    First,
    /// Then: pointers, inodes, bitmaps, counts.
    Meta,
    /// At last: names.
    Names,
}

#[derive(Debug)]
struct Slot {
    block: u32,
    data: Box<[u8]>,
    used: bool,
    dirty: Option<Class>,
    closing: bool,
    frozen: Option<Box<[u8]>>,
}

impl Numbered for Slot {
    fn block(&self) -> u32 {
        self.block
    }
}

/// Most pieces of memory that are kept for the next blocks.
const SPARE: usize = 32;

/// The cache.
#[derive(Debug)]
pub struct Cache {
    most: usize,
    slots: Slots<Slot>,
    /// Each once, in no order.
    dirty: Vec<u32>,
    pinned: BTreeSet<u32>,
    /// Memory of blocks that went, each of a block's size.
    spare: Vec<Box<[u8]>>,
    /// The place at which the search for room goes on.
    hand: usize,
}

impl Cache {
    /// An empty one.
    pub fn new(most: usize) -> Cache {
        Cache {
            most,
            slots: Slots::new(),
            dirty: Vec::new(),
            pinned: BTreeSet::new(),
            spare: Vec::new(),
            hand: 0,
        }
    }

    /// Memory for a block, of any contents, if there is some to spare.
    pub fn spare(&mut self) -> Option<Box<[u8]>> {
        self.spare.pop()
    }

    fn keep(&mut self, data: Box<[u8]>) {
        if self.spare.len() < SPARE {
            self.spare.push(data);
        }
    }

    /// Most blocks.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Blocks that changed since the last generation closed.
    pub fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// Is it here?
    pub fn has(&self, block: u32) -> bool {
        self.slots.find(block).is_some()
    }

    /// What is in a block.
    pub fn get(&mut self, block: u32) -> Option<&[u8]> {
        let slot = self.slots.get_mut(block)?;
        slot.used = true;
        Some(&slot.data)
    }

    /// What the device has, unless there is something newer.
    pub fn fill(&mut self, block: u32, data: Box<[u8]>) {
        if self.has(block) {
            return;
        }
        self.insert(block, data, None);
    }

    /// A block that is not here.
    fn insert(&mut self, block: u32, data: Box<[u8]>, dirty: Option<Class>) {
        self.make_room();
        self.slots.insert(Slot { block, data, used: true, dirty, closing: false, frozen: None });
    }

    /// A change.
    pub fn store(&mut self, block: u32, data: Box<[u8]>, class: Class) {
        let Some(slot) = self.slots.get_mut(block) else {
            self.insert(block, data, Some(class));
            return self.dirty.push(block);
        };
        let before = core::mem::replace(&mut slot.data, data);
        slot.used = true;
        if slot.dirty.is_none() {
            self.dirty.push(block);
        }
        slot.dirty = Some(slot.dirty.map_or(class, |old| old.min(class)));
        if slot.closing && slot.frozen.is_none() {
            slot.frozen = Some(before);
        } else {
            self.keep(before);
        }
    }

    /// What is dirty is the generation that closes.
    pub fn close(&mut self) -> Vec<(u32, Class)> {
        let mut all = Vec::with_capacity(self.dirty.len());
        self.dirty.sort_unstable();
        for block in self.dirty.drain(..) {
            if let Some(slot) = self.slots.get_mut(block)
                && let Some(class) = slot.dirty.take()
            {
                slot.closing = true;
                all.push((block, class));
            }
        }
        all
    }

    /// What a block of that generation was when it closed.
    pub fn closing(&self, block: u32) -> Option<&[u8]> {
        let slot = self.slots.get(block)?;
        Some(slot.frozen.as_ref().unwrap_or(&slot.data))
    }

    /// That generation is on the device.
    pub fn closed(&mut self, block: u32) {
        if let Some(slot) = self.slots.get_mut(block) {
            (slot.closing, slot.frozen) = (false, None);
        }
    }

    /// These stay until others are pinned, as far as they are here or come.
    pub fn pin(&mut self, blocks: BTreeSet<u32>) {
        self.pinned = blocks;
    }

    /// Those that stay.
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
            let stays = slot.dirty.is_some() || slot.closing || self.pinned.contains(&slot.block);
            if stays || core::mem::take(&mut slot.used) {
                self.hand += 1;
            } else if let Some(slot) = self.slots.remove(self.hand) {
                self.keep(slot.data);
            }
        }
    }
}
