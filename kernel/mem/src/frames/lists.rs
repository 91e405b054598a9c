//! The free lists of one zone: all regions that always belong to this kernel, or one 16 MiB block
//! of the global region. Callers hold the allocator's lock.

use core::sync::atomic::{AtomicU8, Ordering};

use abi::boot::BLOCK;
use base::addr::{PAGE, PhysAddr};

use super::{FREE, MAX_ORDER, ORDERS, USED};
use crate::raw::Word;

/// No block: the end of a list.
const NONE: u64 = u64::MAX;

/// A range of frames and its tags.
pub(super) struct Region<'t> {
    pub(super) base: u64,
    pub(super) bytes: u64,
    pub(super) tags: &'t [AtomicU8],
}

impl Region<'_> {
    #[inline]
    pub(super) fn tag(&self, at: u64) -> Option<&AtomicU8> {
        let offset = at.wrapping_sub(self.base);
        if offset >= self.bytes { None } else { self.tags.get((offset / PAGE) as usize) }
    }
}

/// Heads and sizes of the free lists.
pub(super) struct Lists {
    /// Inverted, so that empty lists are zeros.
    heads: [u64; ORDERS],
    pub(super) counts: [u32; ORDERS],
    /// Bit `o` is set if list `o` is not empty.
    filled: u32,
    /// Frames in all lists.
    pub(super) free: usize,
    /// Within a block: one bit per [`PART`] that was handed out or holds links.
    pub(super) touched: u64,
}

/// Bytes per bit of [`Lists::touched`].
pub const PART: u64 = BLOCK / 64;

/// Returns the bits that a chunk covers.
fn parts(at: u64, order: u8) -> u64 {
    let (first, bytes) = (at % BLOCK / PART, PAGE << order);
    let ones = if bytes >= BLOCK { u64::MAX } else { (1 << bytes.div_ceil(PART)) - 1 };
    ones << first
}

impl Lists {
    pub(super) const fn new() -> Lists {
        Lists { heads: [0; ORDERS], counts: [0; ORDERS], filled: 0, free: 0, touched: 0 }
    }

    /// Returns whether there is a free block of at least this order.
    #[inline]
    pub(super) fn has(&self, order: u8) -> bool {
        self.filled.checked_shr(u32::from(order)).unwrap_or(0) != 0
    }

    fn head(&self, order: u8) -> u64 {
        !self.heads[order as usize]
    }

    /// Frees all of a new region outside `kept` and `tags`.
    pub(super) fn fill(&mut self, region: &Region, kept: &[(PhysAddr, PhysAddr)], tags: Kept) {
        let end = region.base + region.bytes;
        let mut at = region.base;
        while at < end {
            let ranges = || kept.iter().chain([&tags]);
            if let Some((_, stop)) = ranges().find(|(start, stop)| (start.0..stop.0).contains(&at))
            {
                at = stop.0.next_multiple_of(PAGE);
                continue;
            }
            let next = ranges().map(|(start, _)| start.0 & !(PAGE - 1)).filter(|&s| s > at).min();
            let stop = next.unwrap_or(end).min(end);
            while at < stop {
                let fits = (stop - at).ilog2() - PAGE.ilog2();
                let aligned = (at | BLOCK).trailing_zeros() - PAGE.ilog2();
                let order = fits.min(aligned) as u8;
                self.push(region, at, order);
                at += PAGE << order;
            }
        }
    }

    /// Inserts a free block into its list.
    pub(super) fn push(&mut self, region: &Region, block: u64, order: u8) {
        let head = self.head(order);
        link(block, 0).set(head);
        link(block, 1).set(NONE);
        if head != NONE {
            link(head, 1).set(block);
        }
        self.heads[order as usize] = !block;
        self.counts[order as usize] += 1;
        self.free += 1 << order;
        self.filled |= 1 << order;
        self.touched |= parts(block, 0);
        set_tag(region, block, FREE | order);
    }

    /// Removes a free block from its list, without changing its tag.
    pub(super) fn unlink(&mut self, block: u64, order: u8) {
        let (next, before) = (link(block, 0).get(), link(block, 1).get());
        if before == NONE {
            self.heads[order as usize] = !next;
        } else {
            link(before, 0).set(next);
        }
        if next != NONE {
            link(next, 1).set(before);
        }
        self.counts[order as usize] -= 1;
        self.free -= 1 << order;
        if self.head(order) == NONE {
            self.filled &= !(1 << order);
        }
    }

    /// Allocates a block of `order`. `find` returns the region of an address; `marks` are added to
    /// the block's tag.
    pub(super) fn take<'r>(
        &mut self,
        find: impl FnOnce(u64) -> Option<&'r Region<'r>>,
        order: u8,
        marks: u8,
    ) -> Option<u64> {
        let enough = self.filled.checked_shr(u32::from(order)).unwrap_or(0);
        if enough == 0 {
            return None;
        }
        let mut have = order + enough.trailing_zeros() as u8;
        let block = self.head(have);
        let region = find(block)?;
        self.unlink(block, have);
        while have > order {
            have -= 1;
            self.push(region, block + (PAGE << have), have);
        }
        self.touched |= parts(block, order);
        set_tag(region, block, USED | marks | order);
        Some(block)
    }

    /// Frees a block and joins it with its buddies.
    pub(super) fn give(&mut self, region: &Region, mut block: u64, mut order: u8) {
        while order < MAX_ORDER {
            let buddy = block ^ (PAGE << order);
            let tag = region.tag(buddy).map(|tag| tag.load(Ordering::Relaxed));
            if tag != Some(FREE | order) {
                break;
            }
            self.unlink(buddy, order);
            set_tag(region, block, 0);
            set_tag(region, buddy, 0);
            block = block.min(buddy);
            order += 1;
        }
        self.push(region, block, order);
    }
}

/// A range that is never handed out.
pub(super) type Kept = (PhysAddr, PhysAddr);

/// Returns link `which` (0 next, 1 previous) of a free block.
#[inline]
fn link(block: u64, which: usize) -> Word {
    Word::at(PhysAddr(block).to_virt().0 as usize + 8 * which)
}

#[inline]
pub(super) fn set_tag(region: &Region, block: u64, value: u8) {
    if let Some(tag) = region.tag(block) {
        tag.store(value, Ordering::Relaxed);
    }
}
