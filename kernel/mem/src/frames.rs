//! A buddy allocator of page frames.
//!
//! Blocks have `1 << order` frames, aligned to their size, up to 16 MiB. The free blocks of an
//! order form a doubly linked list through their first two words. One byte per frame (its *tag*)
//! says whether a free, an allocated or a cached block starts there, so that buddies are found and
//! a wrong `free` is an error:
//!
//! ```text
//!            allocate                 core's cache
//!   FREE|o ------------> USED|o  <------------------> CACHED
//!          <------------   |  0 = inside a block, or reserved (tags, image)
//!              free        v
//! ```
//! `MOVABLE` with `USED` says that the owner can move the block; such a frame is never cached.
//!
//! There are two kinds of zones, each with its own lists: *home*, all regions that always belong to
//! this kernel, and the 16 MiB blocks of the global region that belong to it for a while
//! ([`span`]). Movable blocks are allocated from the balloon's frontier, all others from home
//! first, so that blocks near the frontier can be given back.
//!
//! Tags are atomic because a core may read one without the lock; only the holder of the lock or the
//! owner of the block changes it.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use abi::boot::BLOCK;
use abi::memory::MAX_BLOCKS;
use arch::attend;
use arch::lock::{Lock, Once};
use base::addr::{PAGE, PhysAddr};
use base::port::order_of;

use crate::ranks;
use crate::raw::tags;
use crate::set::BlockSet;
use lists::{Lists, Region, set_tag};
use span::Global;

mod lists;
pub mod span;
pub mod zone;

/// The largest order: a 16 MiB block.
pub const MAX_ORDER: u8 = 12;
pub const ORDERS: usize = MAX_ORDER as usize + 1;
pub const MAX_REGIONS: usize = 8;

const _: () = assert!(PAGE << MAX_ORDER == BLOCK);

const FREE: u8 = 0x40;
const USED: u8 = 0x80;
const CACHED: u8 = 0xc0;
const MOVABLE: u8 = 0x20;

/// Whether an allocated block can be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// It cannot; it is placed far from the balloon's frontier.
    Fixed,
    /// It can: its owner implements [`span::Mover`]. It is placed near the frontier.
    Movable,
}

/// Why a region was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// The region is unaligned, empty, or has no room for its tags.
    Range,
    /// It overlaps another region.
    Overlap,
    /// There are already [`MAX_REGIONS`] regions.
    TooMany,
}

/// Why a block was not freed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// The frame does not belong to this allocator.
    Foreign,
    /// No allocated block of this order starts there, for example because it was freed already.
    NotAllocated,
}

/// Frame counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub total: usize,
    /// Free frames, without those in caches.
    pub free: usize,
    /// Reserved frames: image and tags.
    pub kept: usize,
    /// Number of free blocks by order.
    pub blocks: [usize; ORDERS],
}

/// State protected by the lock.
struct Inner {
    /// The regions that always belong to this kernel.
    home: Lists,
    /// The blocks of the global region.
    blocks: [Lists; MAX_BLOCKS],
    /// Blocks from which frames may be allocated.
    open: BlockSet,
    /// Blocks whose tags have been zeroed.
    known: BlockSet,
    /// Number of frames that can be allocated.
    free: usize,
    /// The pressure threshold in frames.
    low: usize,
    kept: usize,
    total: usize,
}

/// The allocator.
pub struct FrameAllocator {
    regions: [Once<Region<'static>>; MAX_REGIONS],
    count: AtomicUsize,
    global: Once<Global>,
    inner: Lock<Inner>,
    pressed: AtomicBool,
}

impl Default for FrameAllocator {
    fn default() -> Self {
        FrameAllocator::new()
    }
}

impl FrameAllocator {
    /// Creates an allocator without memory.
    pub const fn new() -> Self {
        FrameAllocator {
            regions: [const { Once::new() }; MAX_REGIONS],
            count: AtomicUsize::new(0),
            global: Once::new(),
            inner: Lock::new(ranks::FRAMES, Inner::new()),
            pressed: AtomicBool::new(false),
        }
    }

    /// Adds `[base, base + bytes)` without the `kept` ranges `(start, end)`. The caller promises
    /// that the region is in the linear map and has no other user (the checked blob says so), and
    /// that `kept` covers the image. The region's tags occupy its first frames outside `kept`.
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
        let mut inner = self.inner.lock();
        if self.regions().any(|r| base.0 < r.base + r.bytes && r.base < end) {
            return Err(RegionError::Overlap);
        }
        let index = self.count.load(Ordering::Relaxed);
        let slot = self.regions.get(index).ok_or(RegionError::TooMany)?;
        let tags = tags(PhysAddr(place), frames);
        tags.iter().for_each(|tag| tag.store(0, Ordering::Relaxed));
        let Ok(region) = slot.set(Region { base: base.0, bytes, tags }) else {
            return Err(RegionError::TooMany);
        };
        // Release: a core that sees the count sees the region.
        self.count.store(index + 1, Ordering::Release);
        let tags_range = (PhysAddr(place), PhysAddr(place + tag_bytes));
        let before = inner.home.free;
        inner.home.fill(region, kept, tags_range);
        let free = inner.home.free - before;
        inner.free += free;
        inner.total += frames;
        inner.kept += frames - free;
        Ok(())
    }

    #[inline]
    fn regions(&self) -> impl Iterator<Item = &Region<'static>> {
        let count = self.count.load(Ordering::Acquire);
        self.regions[..count].iter().filter_map(Once::get)
    }

    #[inline]
    fn find(&self, at: PhysAddr) -> Option<(&Region<'_>, &AtomicU8)> {
        let home = self.regions().find_map(|region| Some((region, region.tag(at.0)?)));
        home.or_else(|| self.global.get()?.find(at))
    }

    /// Allocates a block, aligned to its size, with undefined contents.
    pub fn allocate(&self, order: u8) -> Option<PhysAddr> {
        self.allocate_placed(order, Placing::Fixed)
    }

    /// Allocates a block that is fixed or movable.
    pub fn allocate_placed(&self, order: u8, placing: Placing) -> Option<PhysAddr> {
        let mut inner = self.inner.lock();
        let block = inner.take(self, order, placing);
        self.probe(&inner);
        block
    }

    /// Allocates `count` adjacent frames, aligned to the next power of two: a block whose last
    /// frames are free again. What stays is a block for each binary digit of `count`, the largest
    /// first ([`pieces`]).
    pub fn allocate_run(&self, count: usize) -> Option<PhysAddr> {
        let order = order_of(count).filter(|order| *order <= MAX_ORDER)?;
        let mut inner = self.inner.lock();
        let block = inner.take(self, order, Placing::Fixed);
        if let Some(block) = block
            && let Some((region, _)) = self.find(block)
        {
            inner.cut(self, region, block.0, count);
        }
        self.probe(&inner);
        block
    }

    /// Frees what [`FrameAllocator::allocate_run`] returned for the same count.
    pub fn free_run(&self, run: PhysAddr, count: usize) -> Result<(), FreeError> {
        let mut inner = self.inner.lock();
        let is_run = |(at, order)| match self.find(PhysAddr(at)) {
            None => Err(FreeError::Foreign),
            Some((_, tag)) if tag.load(Ordering::Relaxed) == USED | order => Ok(()),
            Some(_) => Err(FreeError::NotAllocated),
        };
        let all = || pieces(run.0, count);
        all().try_for_each(is_run)?;
        all().try_for_each(|(at, order)| self.free_locked(&mut inner, PhysAddr(at), order))
    }

    /// Records memory pressure; called after every allocation from the lists.
    #[inline]
    fn probe(&self, inner: &Inner) {
        if inner.free < inner.low && !self.pressed.swap(true, Ordering::Relaxed) {
            attend::set_reason(attend::Reason::Memory, true);
        }
    }

    /// Sets the number of free frames below which there is memory pressure.
    pub fn set_low(&self, frames: usize) {
        let mut inner = self.inner.lock();
        inner.low = frames;
        self.probe(&inner);
    }

    /// Returns whether there has been memory pressure since the last call.
    #[inline]
    pub fn was_pressed(&self) -> bool {
        self.pressed.swap(false, Ordering::Relaxed)
    }

    /// Allocates single frames under one lock until `into` is full or memory is exhausted, and
    /// marks them as cached. Returns their number.
    pub(crate) fn refill(&self, into: &mut [PhysAddr]) -> usize {
        let mut inner = self.inner.lock();
        let mut taken = 0;
        while taken < into.len() {
            let Some(frame) = inner.take(self, 0, Placing::Fixed) else { break };
            into[taken] = frame;
            self.mark(frame, CACHED);
            taken += 1;
        }
        self.probe(&inner);
        taken
    }

    /// Frees cached frames under one lock.
    pub(crate) fn drain(&self, from: &[PhysAddr]) {
        let mut inner = self.inner.lock();
        for &frame in from {
            if let Some((region, tag)) = self.find(frame) {
                tag.store(USED, Ordering::Relaxed);
                inner.give(self, region, frame.0, 0);
            }
        }
    }

    fn mark(&self, frame: PhysAddr, value: u8) {
        if let Some((_, tag)) = self.find(frame) {
            tag.store(value, Ordering::Relaxed);
        }
    }

    /// Marks an allocated single frame as cached. Returns false if it must not be cached, because
    /// it is movable or its block is being emptied.
    #[inline]
    pub(crate) fn put_cached(&self, frame: PhysAddr) -> Result<bool, FreeError> {
        let (region, tag) = self.find(frame).ok_or(FreeError::Foreign)?;
        let marks = tag.load(Ordering::Relaxed);
        if !frame.is_aligned(PAGE) || marks & !MOVABLE != USED {
            return Err(FreeError::NotAllocated);
        }
        let isolated = || self.global.get().is_some_and(|g| g.is_isolated(region, frame.0));
        let refused = marks != USED || isolated();
        if !refused {
            tag.store(CACHED, Ordering::Relaxed);
        }
        Ok(!refused)
    }

    /// Marks a cached frame as allocated.
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

    /// Frees a block. `order` must be the one it was allocated with.
    pub fn free(&self, block: PhysAddr, order: u8) -> Result<(), FreeError> {
        self.free_locked(&mut self.inner.lock(), block, order)
    }

    fn free_locked(&self, inner: &mut Inner, block: PhysAddr, order: u8) -> Result<(), FreeError> {
        let (region, tag) = self.find(block).ok_or(FreeError::Foreign)?;
        let allocated = order <= MAX_ORDER
            && block.is_aligned(PAGE << order)
            && tag.load(Ordering::Relaxed) & !MOVABLE == USED | order;
        if !allocated {
            return Err(FreeError::NotAllocated);
        }
        inner.give(self, region, block.0, order);
        Ok(())
    }

    /// Returns the number of frames that can be allocated now, without those in caches.
    pub fn free_frames(&self) -> usize {
        self.inner.lock().free
    }

    /// Does the same as [`FrameAllocator::free_frames`].
    pub fn free_count(&self) -> usize {
        self.inner.lock().free
    }

    pub fn statistics(&self) -> Statistics {
        let inner = self.inner.lock();
        let mut blocks = [0; ORDERS];
        for lists in [&inner.home].into_iter().chain(&inner.blocks) {
            for (sum, &count) in blocks.iter_mut().zip(&lists.counts) {
                *sum += count as usize;
            }
        }
        Statistics { total: inner.total, free: inner.free, kept: inner.kept, blocks }
    }
}

/// Iterates over the blocks that a run of `count` frames consists of, and their orders.
fn pieces(run: u64, count: usize) -> impl Iterator<Item = (u64, u8)> {
    let (mut at, mut left) = (run, count);
    core::iter::from_fn(move || {
        let order = left.checked_ilog2()?;
        let piece = at;
        (at, left) = (at + (PAGE << order), left - (1 << order));
        Some((piece, order as u8))
    })
}

/// Returns the first range of `bytes` in `[base, end)` that does not overlap `kept`.
fn place_tags(base: u64, end: u64, bytes: u64, kept: &[(PhysAddr, PhysAddr)]) -> Option<u64> {
    let mut at = base;
    // Each iteration passes at least one kept range.
    for _ in 0..=kept.len() {
        match kept.iter().find(|(start, stop)| at < stop.0 && start.0 < at + bytes) {
            Some((_, stop)) => at = stop.0.next_multiple_of(PAGE),
            None => return (at + bytes <= end).then_some(at),
        }
    }
    None
}

impl Inner {
    const fn new() -> Inner {
        Inner {
            home: Lists::new(),
            blocks: [const { Lists::new() }; MAX_BLOCKS],
            open: BlockSet::new(),
            known: BlockSet::new(),
            free: 0,
            low: 0,
            kept: 0,
            total: 0,
        }
    }

    fn take(&mut self, frames: &FrameAllocator, order: u8, placing: Placing) -> Option<PhysAddr> {
        let block = match placing {
            Placing::Fixed => self
                .take_home(frames, order, 0)
                .or_else(|| self.take_block(frames, order, 0, placing))?,
            Placing::Movable => self
                .take_block(frames, order, MOVABLE, placing)
                .or_else(|| self.take_home(frames, order, MOVABLE))?,
        };
        self.free -= 1 << order;
        Some(PhysAddr(block))
    }

    fn take_home(&mut self, frames: &FrameAllocator, order: u8, marks: u8) -> Option<u64> {
        let find = |at| Some(frames.find(PhysAddr(at))?.0);
        self.home.take(find, order, marks)
    }

    /// Takes fixed frames from the block farthest from the frontier, movable ones from the nearest.
    fn take_block(
        &mut self,
        frames: &FrameAllocator,
        order: u8,
        marks: u8,
        placing: Placing,
    ) -> Option<u64> {
        let global = frames.global.get()?;
        let end = match (placing, global.frontier) {
            (Placing::Movable, frontier) => frontier,
            (Placing::Fixed, frontier) => frontier.other(),
        };
        let index = self.open.from(end).find(|&index| self.blocks[index].has(order))?;
        self.blocks[index].take(|_| Some(&global.region), order, marks)
    }

    /// Frees all but the first `count` frames of an allocated block of the next power of two.
    fn cut(&mut self, frames: &FrameAllocator, region: &Region, block: u64, count: usize) {
        for (at, order) in pieces(block, count) {
            set_tag(region, at, USED | order);
        }
        let mut kept = count;
        while !kept.is_power_of_two() {
            let order = kept.trailing_zeros() as u8;
            self.give(frames, region, block + PAGE * kept as u64, order);
            kept += 1 << order;
        }
    }

    fn give(&mut self, frames: &FrameAllocator, region: &Region, at: u64, order: u8) {
        match frames.global.get().and_then(|global| global.index(region, at)) {
            None => self.home.give(region, at, order),
            Some(index) => {
                self.blocks[index].give(region, at, order);
                if !self.open.contains(index) {
                    return;
                }
            }
        }
        self.free += 1 << order;
    }
}

#[cfg(test)]
mod tests;
