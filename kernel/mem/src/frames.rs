//! A buddy allocator of page frames.
//!
//! Blocks of `1 << order` frames, aligned to their size, from single frames up to a 16 MiB block.
//! Free blocks of an order are a doubly linked list through their own first two words. One byte a
//! frame (its *tag*) says whether a free, an allocated or a cached block starts there, so that
//! a wrong `free` is an error value, and buddies find each other:
//!
//! ```text
//!            allocate                 core's cache
//!   FREE|o ------------> USED|o  <------------------> CACHED
//!          <------------   |  0 = inside of a block, or kept (tags, image)
//!              free        v
//! ```
//!
//! Tags are atomics because a core may look at a tag without the lock; only who holds the lock or
//! owns the block changes its tag.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use abi::boot::BLOCK;
use arch::lock::{Lock, Once};
use base::addr::{PAGE, PhysAddr};

use crate::ranks;
use crate::raw::{Word, tags};

/// Largest order: a 16 MiB block.
pub const MAX_ORDER: u8 = 12;
/// Number of orders.
pub const ORDERS: usize = MAX_ORDER as usize + 1;
/// Most regions.
pub const MAX_REGIONS: usize = 8;

const _: () = assert!(PAGE << MAX_ORDER == BLOCK);

const FREE: u8 = 0x40;
const USED: u8 = 0x80;
const CACHED: u8 = 0xc0;
/// No block: the end of a list.
const NONE: u64 = u64::MAX;

/// Why a region was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// Not page aligned, empty, or without room for its tags.
    Range,
    /// It overlaps another one.
    Overlap,
    /// There are [`MAX_REGIONS`] already.
    TooMany,
}

/// Why a block was not freed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// No frame of this allocator.
    Foreign,
    /// No allocated block of that order starts there: freed already, or never handed out so.
    NotAllocated,
}

/// Frames, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// All frames of all regions.
    pub total: usize,
    /// Free, not counting those in caches.
    pub free: usize,
    /// Never handed out: the image and the tags.
    pub kept: usize,
    /// Free blocks by order.
    pub blocks: [usize; ORDERS],
}

struct Region {
    base: u64,
    bytes: u64,
    tags: &'static [AtomicU8],
}

impl Region {
    #[inline]
    fn tag(&self, at: u64) -> Option<&AtomicU8> {
        let offset = at.wrapping_sub(self.base);
        if offset >= self.bytes { None } else { self.tags.get((offset / PAGE) as usize) }
    }
}

/// Heads and sizes of the free lists.
struct Lists {
    heads: [u64; ORDERS],
    counts: [usize; ORDERS],
    /// Bit `o`: list `o` is not empty.
    filled: u32,
    kept: usize,
    total: usize,
}

/// The allocator.
pub struct FrameAllocator {
    regions: [Once<Region>; MAX_REGIONS],
    count: AtomicUsize,
    lists: Lock<Lists>,
}

impl Default for FrameAllocator {
    fn default() -> Self {
        FrameAllocator::new()
    }
}

impl FrameAllocator {
    /// Without memory.
    pub const fn new() -> Self {
        FrameAllocator {
            regions: [const { Once::new() }; MAX_REGIONS],
            count: AtomicUsize::new(0),
            lists: Lock::new(
                ranks::FRAMES,
                Lists { heads: [NONE; ORDERS], counts: [0; ORDERS], filled: 0, kept: 0, total: 0 },
            ),
        }
    }

    /// Takes over `[base, base + bytes)` but for the `kept` ranges `(start, end)`. The region is
    /// mapped in the linear map and nobody else's: by the blob that passed its check, and `kept`
    /// by the image's layout. Its tags are put into its first frames that are not kept.
    pub fn add_region(
        &self,
        base: PhysAddr,
        bytes: u64,
        kept: &[(PhysAddr, PhysAddr)],
    ) -> Result<(), RegionError> {
        let end = base.0.checked_add(bytes).ok_or(RegionError::Range)?;
        if bytes == 0 || !base.is_aligned(PAGE) || !bytes.is_multiple_of(PAGE) {
            return Err(RegionError::Range);
        }
        let frames = (bytes / PAGE) as usize;
        let tag_bytes = (frames as u64).next_multiple_of(PAGE);
        let place = place_tags(base.0, end, tag_bytes, kept).ok_or(RegionError::Range)?;
        let mut lists = self.lists.lock();
        if self.regions().any(|r| base.0 < r.base + r.bytes && r.base < end) {
            return Err(RegionError::Overlap);
        }
        let index = self.count.load(Ordering::Relaxed);
        let slot = self.regions.get(index).ok_or(RegionError::TooMany)?;
        let tags = tags(PhysAddr(place), frames);
        let Ok(region) = slot.set(Region { base: base.0, bytes, tags }) else {
            return Err(RegionError::TooMany);
        };
        // Release: who sees the count sees the region.
        self.count.store(index + 1, Ordering::Release);
        let tags_range = (PhysAddr(place), PhysAddr(place + tag_bytes));
        let free = lists.fill(region, kept, tags_range);
        lists.total += frames;
        lists.kept += frames - free;
        Ok(())
    }

    fn regions(&self) -> impl Iterator<Item = &Region> {
        let count = self.count.load(Ordering::Acquire);
        self.regions[..count].iter().filter_map(Once::get)
    }

    #[inline]
    fn find(&self, at: PhysAddr) -> Option<(&Region, &AtomicU8)> {
        self.regions().find_map(|region| Some((region, region.tag(at.0)?)))
    }

    /// A block, aligned to its size; what is in it is undefined.
    pub fn allocate(&self, order: u8) -> Option<PhysAddr> {
        self.lists.lock().take(self, order)
    }

    /// Takes single frames until `into` is full or there are none, under one lock, and marks them
    /// cached. How many it took.
    pub(crate) fn refill(&self, into: &mut [PhysAddr]) -> usize {
        let mut lists = self.lists.lock();
        for (taken, slot) in into.iter_mut().enumerate() {
            let Some(frame) = lists.take(self, 0) else { return taken };
            *slot = frame;
            self.mark(frame, CACHED);
        }
        into.len()
    }

    /// Gives cached frames back, under one lock.
    pub(crate) fn drain(&self, from: &[PhysAddr]) {
        let mut lists = self.lists.lock();
        for &frame in from {
            if let Some((region, tag)) = self.find(frame) {
                tag.store(USED, Ordering::Relaxed);
                lists.give(region, frame.0, 0);
            }
        }
    }

    fn mark(&self, frame: PhysAddr, value: u8) {
        if let Some((_, tag)) = self.find(frame) {
            tag.store(value, Ordering::Relaxed);
        }
    }

    /// An allocated single frame becomes a cached one.
    #[inline]
    pub(crate) fn put_cached(&self, frame: PhysAddr) -> Result<(), FreeError> {
        self.change(frame, USED, CACHED)
    }

    /// And the other way.
    #[inline]
    pub(crate) fn take_cached(&self, frame: PhysAddr) {
        let changed = self.change(frame, CACHED, USED);
        debug_assert!(changed.is_ok(), "{frame:?} was in a cache but is not marked so");
    }

    #[inline]
    fn change(&self, frame: PhysAddr, from: u8, to: u8) -> Result<(), FreeError> {
        let (_, tag) = self.find(frame).ok_or(FreeError::Foreign)?;
        if !frame.is_aligned(PAGE) || tag.load(Ordering::Relaxed) != from {
            return Err(FreeError::NotAllocated);
        }
        tag.store(to, Ordering::Relaxed);
        Ok(())
    }

    /// Gives a block back, with the order it was allocated with.
    pub fn free(&self, block: PhysAddr, order: u8) -> Result<(), FreeError> {
        let (region, tag) = self.find(block).ok_or(FreeError::Foreign)?;
        let mut lists = self.lists.lock();
        let allocated = order <= MAX_ORDER
            && block.is_aligned(PAGE << order)
            && tag.load(Ordering::Relaxed) == USED | order;
        if !allocated {
            return Err(FreeError::NotAllocated);
        }
        lists.give(region, block.0, order);
        Ok(())
    }

    /// Now.
    pub fn statistics(&self) -> Statistics {
        let lists = self.lists.lock();
        let frames = |(order, count): (usize, &usize)| count << order;
        Statistics {
            total: lists.total,
            free: lists.counts.iter().enumerate().map(frames).sum(),
            kept: lists.kept,
            blocks: lists.counts,
        }
    }
}

/// The first range of `bytes` in `[base, end)` that misses all of `kept`.
fn place_tags(base: u64, end: u64, bytes: u64, kept: &[(PhysAddr, PhysAddr)]) -> Option<u64> {
    let mut at = base;
    // Each round passes one kept range at least.
    for _ in 0..=kept.len() {
        match kept.iter().find(|(start, stop)| at < stop.0 && start.0 < at + bytes) {
            Some((_, stop)) => at = stop.0.next_multiple_of(PAGE),
            None => return (at + bytes <= end).then_some(at),
        }
    }
    None
}

impl Lists {
    /// Frees all of a fresh region but for what is kept; how many frames that is.
    fn fill(
        &mut self,
        region: &Region,
        kept: &[(PhysAddr, PhysAddr)],
        tags: (PhysAddr, PhysAddr),
    ) -> usize {
        let end = region.base + region.bytes;
        let (mut at, mut free) = (region.base, 0);
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
                free += 1 << order;
            }
        }
        free
    }

    fn push(&mut self, region: &Region, block: u64, order: u8) {
        let head = &mut self.heads[order as usize];
        link(block, 0).set(*head);
        link(block, 1).set(NONE);
        if *head != NONE {
            link(*head, 1).set(block);
        }
        *head = block;
        self.counts[order as usize] += 1;
        self.filled |= 1 << order;
        set_tag(region, block, FREE | order);
    }

    fn unlink(&mut self, block: u64, order: u8) {
        let (next, before) = (link(block, 0).get(), link(block, 1).get());
        if before == NONE {
            self.heads[order as usize] = next;
        } else {
            link(before, 0).set(next);
        }
        if next != NONE {
            link(next, 1).set(before);
        }
        self.counts[order as usize] -= 1;
        if self.heads[order as usize] == NONE {
            self.filled &= !(1 << order);
        }
    }

    fn take(&mut self, frames: &FrameAllocator, order: u8) -> Option<PhysAddr> {
        let enough = self.filled.checked_shr(u32::from(order)).unwrap_or(0);
        if enough == 0 {
            return None;
        }
        let mut have = order + enough.trailing_zeros() as u8;
        let block = self.heads[have as usize];
        let (region, _) = frames.find(PhysAddr(block))?;
        self.unlink(block, have);
        while have > order {
            have -= 1;
            self.push(region, block + (PAGE << have), have);
        }
        set_tag(region, block, USED | order);
        Some(PhysAddr(block))
    }

    fn give(&mut self, region: &Region, mut block: u64, mut order: u8) {
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

/// Link `which` (0 next, 1 before) of a free block.
#[inline]
fn link(block: u64, which: usize) -> Word {
    Word::at(PhysAddr(block).to_virt().0 as usize + 8 * which)
}

#[inline]
fn set_tag(region: &Region, block: u64, value: u8) {
    if let Some(tag) = region.tag(block) {
        tag.store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
