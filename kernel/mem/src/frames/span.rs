//! The frame allocator's side of the balloon: 16 MiB blocks of the global region that come and go.
//!
//! ```text
//!            add: one free chunk of 4096 frames
//!   +--------+ -------------> +------+ --- isolate ---> +----------+
//!   | absent |                | open |                  | isolated |--+ evacuate, frees
//!   +--------+                +------+ <-- restore ---- +----------+<-+
//!        ^                                                    |
//!        +------------- remove: all of it is free ------------+
//! ```
//! Frames are allocated from open blocks, and only freed into isolated ones; a frame of an absent
//! block does not belong to this kernel. Each block has its own free lists and chunks never join
//! across blocks, so `add`, `isolate` and `remove` take the same time whatever the block contains.
//! The tags lie in memory that always belongs to this kernel. They are zeroed when a block comes
//! for the first time; a block that is removed is one free chunk, so no other tags remain.
//!
//! Removing a block returns which parts of it were touched: only those can be cached.

use core::sync::atomic::{AtomicU8, Ordering};

use abi::boot::BLOCK;
use abi::memory::MAX_BLOCKS;
use base::addr::{PAGE, PhysAddr};

use super::lists::{Region, set_tag};
use super::{CACHED, FREE, FrameAllocator, MAX_ORDER, MOVABLE, Placing, USED};
use crate::blocks::End;
use crate::raw;

pub use super::lists::PART;

const ABSENT: u8 = 0;
const OPEN: u8 = 1;
const ISOLATED: u8 = 2;
/// Number of frames per block.
pub const FRAMES: usize = (BLOCK / PAGE) as usize;

/// The global region and the state of its blocks.
pub(super) struct Global {
    pub(super) region: Region<'static>,
    states: [AtomicU8; MAX_BLOCKS],
    /// The end of the region at which blocks are given back first.
    pub(super) frontier: End,
}

impl Global {
    #[inline]
    fn state(&self, at: u64) -> u8 {
        let index = (at.wrapping_sub(self.region.base) / BLOCK) as usize;
        self.states.get(index).map_or(ABSENT, |state| state.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn find(&self, at: PhysAddr) -> Option<(&Region<'_>, &AtomicU8)> {
        let tag = self.region.tag(at.0)?;
        (self.state(at.0) != ABSENT).then_some((&self.region, tag))
    }

    /// Returns the block of an address, if `region` is the global region.
    #[inline]
    pub(super) fn index(&self, region: &Region, at: u64) -> Option<usize> {
        core::ptr::eq(region, &self.region).then(|| ((at - self.region.base) / BLOCK) as usize)
    }

    #[inline]
    pub(super) fn is_isolated(&self, region: &Region, at: u64) -> bool {
        core::ptr::eq(region, &self.region) && self.state(at) == ISOLATED
    }

    fn base(&self, index: usize) -> u64 {
        self.region.base + index as u64 * BLOCK
    }
}

/// The owner of movable blocks.
pub trait Mover {
    /// Copies `1 << order` frames and redirects all users to the copy. Called without a lock; the
    /// owner may allocate and free meanwhile.
    fn move_page(&mut self, from: PhysAddr, to: PhysAddr, order: u8) -> Moved;

    /// Moves up to [`BATCH`] blocks and stores each result. Owners with a lock should override this
    /// and take the lock once: releasing a lock polls all message rings.
    fn move_all(&mut self, moves: &mut [Move]) {
        for one in moves {
            one.moved = self.move_page(one.from, one.to, one.order);
        }
    }
}

/// Limit on blocks moved in one call.
pub const BATCH: usize = 16;

/// A block to be moved.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub from: PhysAddr,
    pub to: PhysAddr,
    /// The block has `1 << order` frames.
    pub order: u8,
    /// The result; [`Moved::Pinned`] until the owner changes it.
    pub moved: Moved,
}

/// The result of moving a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The owner uses `to` and will not free `from`; the caller does.
    Done,
    /// The owner is freeing `from` or has freed it; it does not use `to`.
    Gone,
    /// The block cannot be moved now; the owner keeps `from`.
    Pinned,
}

/// Why an operation on a block failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// There is no such block, or it is in the wrong state.
    State,
    /// This frame of the block cannot be moved.
    Unmovable(PhysAddr),
    /// This frame of the block is in a core's cache.
    Cached(PhysAddr),
    /// There is no memory to move the block's frames to.
    NoMemory,
    /// Frames of the block are in use.
    InUse,
}

/// The parts of a block that may be in this domain's caches, one bit per [`PART`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched(pub u64);

impl Touched {
    pub fn bytes(self) -> u64 {
        u64::from(self.0.count_ones()) * PART
    }

    /// Iterates over the offsets of the parts.
    pub fn parts(self) -> impl Iterator<Item = u64> {
        (0..64).filter(move |bit| self.0 >> bit & 1 == 1).map(|bit| bit * PART)
    }
}

/// Numbers of frames in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockUsage {
    pub free: usize,
    /// Allocated frames that can be moved.
    pub movable: usize,
    /// Allocated frames that cannot be moved, and cached ones.
    pub fixed: usize,
}

/// A block of frames as its tag describes it.
enum Chunk {
    Free(u8),
    Used(u8),
    Movable(u8),
    Cached,
}

impl Chunk {
    fn read(tag: u8) -> Chunk {
        let order = (tag & 0x1f).min(MAX_ORDER);
        match tag & !0x1f {
            FREE => Chunk::Free(order),
            CACHED => Chunk::Cached,
            marks if marks == USED | MOVABLE => Chunk::Movable(order),
            _ => Chunk::Used(order),
        }
    }

    fn frames(&self) -> usize {
        match self {
            Chunk::Free(order) | Chunk::Used(order) | Chunk::Movable(order) => 1 << order,
            Chunk::Cached => 1,
        }
    }
}

impl FrameAllocator {
    /// Prepares for the blocks of `[base, base + count * 16 MiB)`, of which those at the end
    /// `frontier` are given back first. `tags` is memory for their tags: `count` frames that are
    /// never handed out. Only the first call has an effect.
    pub fn adopt_global(&self, base: PhysAddr, count: usize, tags: PhysAddr, frontier: End) {
        let count = count.min(MAX_BLOCKS);
        let tags = raw::tags(tags, count * FRAMES);
        let region = Region { base: base.0, bytes: count as u64 * BLOCK, tags };
        let states = [const { AtomicU8::new(ABSENT) }; MAX_BLOCKS];
        // Only the first call has an effect.
        let _ = self.global.set(Global { region, states, frontier });
    }

    /// Returns the number of frames that the tags of `count` blocks need.
    pub const fn tag_frames(count: usize) -> u64 {
        count as u64
    }

    fn checked(&self, index: usize, wanted: u8) -> Result<&Global, BlockError> {
        let global = self.global.get().ok_or(BlockError::State)?;
        let inside = index < (global.region.bytes / BLOCK) as usize;
        let state = global.states.get(index).map(|state| state.load(Ordering::Relaxed));
        if inside && state == Some(wanted) { Ok(global) } else { Err(BlockError::State) }
    }

    /// Adds a block, which must be in the linear map and have no other user.
    pub fn add_block(&self, index: usize) -> Result<(), BlockError> {
        let mut inner = self.inner.lock();
        let global = self.checked(index, ABSENT)?;
        if !inner.known.contains(index) {
            raw::zero_tags(&global.region.tags[index * FRAMES..(index + 1) * FRAMES]);
            inner.known.insert(index);
        }
        let lists = &mut inner.blocks[index];
        lists.touched = 0;
        lists.push(&global.region, global.base(index), MAX_ORDER);
        global.states[index].store(OPEN, Ordering::Release);
        inner.open.insert(index);
        inner.free += FRAMES;
        inner.total += FRAMES;
        Ok(())
    }

    /// Stops allocation from a block. Frames of it stay in caches until each core has emptied its
    /// own; frames freed later bypass the caches.
    pub fn isolate(&self, index: usize) -> Result<(), BlockError> {
        let mut inner = self.inner.lock();
        let global = self.checked(index, OPEN)?;
        global.states[index].store(ISOLATED, Ordering::Release);
        inner.open.remove(index);
        inner.free -= inner.blocks[index].free;
        self.probe(&inner);
        Ok(())
    }

    /// Resumes allocation from an isolated block.
    pub fn restore(&self, index: usize) -> Result<(), BlockError> {
        let mut inner = self.inner.lock();
        let global = self.checked(index, ISOLATED)?;
        global.states[index].store(OPEN, Ordering::Release);
        inner.open.insert(index);
        inner.free += inner.blocks[index].free;
        Ok(())
    }

    /// Moves all movable frames out of an isolated block and returns their number. After an error,
    /// every frame is in use either at its old place or at its new one.
    pub fn evacuate(&self, index: usize, mover: &mut dyn Mover) -> Result<usize, BlockError> {
        let inside = self.check_movable(index)?;
        if inside.movable > self.free_frames() {
            return Err(BlockError::NoMemory);
        }
        let (mut moved, mut at) = (0, 0);
        loop {
            let nothing =
                Move { from: PhysAddr(0), to: PhysAddr(0), order: 0, moved: Moved::Pinned };
            let mut moves = [nothing; BATCH];
            let (count, next) = self.plan(index, at, &mut moves)?;
            if count == 0 {
                return Ok(moved);
            }
            mover.move_all(&mut moves[..count]);
            moved += self.settle(&moves[..count])?;
            at = next;
        }
    }

    /// Counts the frames of an isolated block. Fails if the block cannot be emptied.
    fn check_movable(&self, index: usize) -> Result<BlockUsage, BlockError> {
        let _still = self.inner.lock();
        let global = self.checked(index, ISOLATED)?;
        let mut inside = BlockUsage::default();
        for (at, chunk) in chunks(global, index, 0) {
            match chunk {
                Chunk::Free(order) => inside.free += 1 << order,
                Chunk::Movable(order) => inside.movable += 1 << order,
                Chunk::Used(_) => return Err(BlockError::Unmovable(PhysAddr(at))),
                Chunk::Cached => return Err(BlockError::Cached(PhysAddr(at))),
            }
        }
        Ok(inside)
    }

    /// Allocates destinations for the next movable chunks from frame `from` on. Returns the number
    /// of chunks and the frame after the last.
    fn plan(
        &self,
        index: usize,
        from: usize,
        moves: &mut [Move; BATCH],
    ) -> Result<(usize, usize), BlockError> {
        let mut inner = self.inner.lock();
        let global = self.checked(index, ISOLATED)?;
        let (mut count, mut next) = (0, from);
        for (at, chunk) in chunks(global, index, from) {
            let Chunk::Movable(order) = chunk else { continue };
            let Some(slot) = moves.get_mut(count) else { break };
            let Some(to) = inner.take(self, order, Placing::Movable) else { break };
            *slot = Move { from: PhysAddr(at), to, order, moved: Moved::Pinned };
            next = ((at % BLOCK) / PAGE) as usize + (1 << order);
            count += 1;
            if count == BATCH {
                break;
            }
        }
        let more = || chunks(global, index, next).any(|(_, c)| matches!(c, Chunk::Movable(_)));
        if count == 0 && more() {
            return Err(BlockError::NoMemory);
        }
        self.probe(&inner);
        Ok((count, next))
    }

    /// Frees the unused side of each move. Returns the number of frames that were moved.
    fn settle(&self, moves: &[Move]) -> Result<usize, BlockError> {
        let mut inner = self.inner.lock();
        let (mut frames, mut why) = (0, Ok(()));
        for one in moves {
            let spare = match one.moved {
                Moved::Done => {
                    frames += 1 << one.order;
                    one.from
                }
                Moved::Gone => one.to,
                Moved::Pinned => {
                    why = why.and(Err(BlockError::Unmovable(one.from)));
                    one.to
                }
            };
            if self.free_locked(&mut inner, spare, one.order).is_err() {
                why = Err(BlockError::InUse);
            }
        }
        why.map(|()| frames)
    }

    /// Removes an isolated block that is completely free, and returns which parts may be cached.
    pub fn remove_block(&self, index: usize) -> Result<Touched, BlockError> {
        let mut inner = self.inner.lock();
        let global = self.checked(index, ISOLATED)?;
        let lists = &mut inner.blocks[index];
        if lists.counts[MAX_ORDER as usize] != 1 {
            return Err(BlockError::InUse);
        }
        lists.unlink(global.base(index), MAX_ORDER);
        let touched = Touched(lists.touched);
        set_tag(&global.region, global.base(index), 0);
        global.states[index].store(ABSENT, Ordering::Release);
        inner.total -= FRAMES;
        Ok(touched)
    }

    /// Counts the frames of a block that belongs to this kernel.
    pub fn block_usage(&self, index: usize) -> Option<BlockUsage> {
        let _still = self.inner.lock();
        let global = self.checked(index, OPEN).or_else(|_| self.checked(index, ISOLATED)).ok()?;
        let mut inside = BlockUsage::default();
        for (_, chunk) in chunks(global, index, 0) {
            *match chunk {
                Chunk::Free(_) => &mut inside.free,
                Chunk::Movable(_) => &mut inside.movable,
                Chunk::Used(_) | Chunk::Cached => &mut inside.fixed,
            } += chunk.frames();
        }
        Some(inside)
    }
}

/// Iterates over the chunks of a block from frame `from` on. A chunk starts there, or did so before
/// it was joined with the chunk before it.
fn chunks(global: &Global, index: usize, from: usize) -> impl Iterator<Item = (u64, Chunk)> {
    let tags = &global.region.tags[index * FRAMES..(index + 1) * FRAMES];
    let mut at = from;
    core::iter::from_fn(move || {
        // A chunk that started here may have joined with the one before it.
        let mut tag = tags.get(at)?.load(Ordering::Relaxed);
        while tag == 0 {
            at += 1;
            tag = tags.get(at)?.load(Ordering::Relaxed);
        }
        let chunk = Chunk::read(tag);
        let place = global.base(index) + at as u64 * PAGE;
        at += chunk.frames();
        Some((place, chunk))
    })
}

#[cfg(test)]
mod tests;
