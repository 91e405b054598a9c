//! The global region's side of the frame allocator: 16 MiB blocks that come and go.
//!
//! ```text
//!            add: one free chunk of 4096 frames
//!   +--------+ -------------> +------+ --- isolate ---> +----------+
//!   | absent |                | open |                  | isolated |--+ evacuate, frees
//!   +--------+                +------+ <-- restore ---- +----------+<-+
//!        ^                                                    |
//!        +------------- remove: all of it is free ------------+
//! ```
//! An open block is allocated from, an isolated one only freed into; a frame of an absent block is
//! no frame of ours. Blocks have free lists of their own and chunks do not join across them, so
//! that `add`, `isolate` and `remove` cost the same whatever is in the block. Its tags lie in
//! memory that is always ours, and are zeroed when a block comes for the first time: a block that
//! goes is one free chunk, and leaves no tags behind.
//!
//! A block is left with the parts of it that were touched, for only these can be in a cache.

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
/// Frames of a block.
pub const FRAMES: usize = (BLOCK / PAGE) as usize;

/// The global region as the allocator sees it.
pub(super) struct Global {
    pub(super) region: Region<'static>,
    states: [AtomicU8; MAX_BLOCKS],
    /// Where the balloon begins: which of our blocks are the next to go.
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

    /// The block of an address in `region`, when that is the global one.
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

/// The owner of movable frames.
pub trait Mover {
    /// Copies `1 << order` frames and lets all who use them use the new ones. Called without a
    /// lock; the owner may allocate and free meanwhile.
    fn move_page(&mut self, from: PhysAddr, to: PhysAddr, order: u8) -> Moved;

    /// The same for up to [`BATCH`] chunks, each with its answer. An owner that locks does better
    /// once for all: releasing a lock is a look at all rings of messages.
    fn move_all(&mut self, moves: &mut [Move]) {
        for one in moves {
            one.moved = self.move_page(one.from, one.to, one.order);
        }
    }
}

/// Most chunks that an owner is asked to move at once.
pub const BATCH: usize = 16;

/// A chunk on its way.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Where it is.
    pub from: PhysAddr,
    /// Where it goes.
    pub to: PhysAddr,
    /// `1 << order` frames.
    pub order: u8,
    /// What became of it; until the owner says so it stays.
    pub moved: Moved,
}

/// What became of frames that were to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// `to` is the owner's now, and `from` is not any more: nobody frees it but who moved it.
    Done,
    /// The owner is freeing `from`, or has freed it; it does not want `to`.
    Gone,
    /// Not now. `from` stays the owner's.
    Pinned,
}

/// Why a block was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// There is no such block, or it is not in the state that this needs.
    State,
    /// A frame in it cannot be moved.
    Unmovable(PhysAddr),
    /// A frame of it is in a core's cache.
    Cached(PhysAddr),
    /// No room elsewhere for what is in it.
    NoMemory,
    /// Frames of it are in use.
    InUse,
}

/// Which parts of a block may be in this domain's caches: a bit for each [`PART`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched(pub u64);

impl Touched {
    /// Bytes.
    pub fn bytes(self) -> u64 {
        u64::from(self.0.count_ones()) * PART
    }

    /// The parts, by their offset in the block.
    pub fn parts(self) -> impl Iterator<Item = u64> {
        (0..64).filter(move |bit| self.0 >> bit & 1 == 1).map(|bit| bit * PART)
    }
}

/// Frames of a block, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// Free.
    pub free: usize,
    /// Allocated, and may be moved.
    pub movable: usize,
    /// Allocated for good, or in a core's cache.
    pub fixed: usize,
}

/// What starts at a frame, from its tag.
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
    /// Blocks of `[base, base + count * 16 MiB)` may come from now on, the last of them at the end
    /// that `frontier` names. Their tags lie at `tags`: `count` frames, never handed out. Once.
    pub fn adopt_global(&self, base: PhysAddr, count: usize, tags: PhysAddr, frontier: End) {
        let count = count.min(MAX_BLOCKS);
        let tags = raw::tags(tags, count * FRAMES);
        let region = Region { base: base.0, bytes: count as u64 * BLOCK, tags };
        let states = [const { AtomicU8::new(ABSENT) }; MAX_BLOCKS];
        // The first one stays.
        let _ = self.global.set(Global { region, states, frontier });
    }

    /// Frames that [`FrameAllocator::adopt_global`] needs for the tags of `count` blocks.
    pub const fn tag_frames(count: usize) -> u64 {
        count as u64
    }

    fn checked(&self, index: usize, wanted: u8) -> Result<&Global, BlockError> {
        let global = self.global.get().ok_or(BlockError::State)?;
        let inside = index < (global.region.bytes / BLOCK) as usize;
        let state = global.states.get(index).map(|state| state.load(Ordering::Relaxed));
        if inside && state == Some(wanted) { Ok(global) } else { Err(BlockError::State) }
    }

    /// Takes over a block, which is mapped in the linear map and nobody else's.
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

    /// Hands nothing out of a block any more. Frames of it that are in caches stay there until each
    /// core has emptied its own; later frees pass the caches by.
    pub fn isolate(&self, index: usize) -> Result<(), BlockError> {
        let mut inner = self.inner.lock();
        let global = self.checked(index, OPEN)?;
        global.states[index].store(ISOLATED, Ordering::Release);
        inner.open.remove(index);
        inner.free -= inner.blocks[index].free;
        self.probe(&inner);
        Ok(())
    }

    /// Opens an isolated block again.
    pub fn restore(&self, index: usize) -> Result<(), BlockError> {
        let mut inner = self.inner.lock();
        let global = self.checked(index, ISOLATED)?;
        global.states[index].store(OPEN, Ordering::Release);
        inner.open.insert(index);
        inner.free += inner.blocks[index].free;
        Ok(())
    }

    /// Moves all out of an isolated block. After an error everything is in use where it was, or
    /// was moved: nothing is lost.
    pub fn evacuate(&self, index: usize, mover: &mut dyn Mover) -> Result<usize, BlockError> {
        let inside = self.look_inside(index)?;
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

    /// Counts what is in an isolated block; an error when it cannot be emptied.
    fn look_inside(&self, index: usize) -> Result<Inside, BlockError> {
        let _still = self.inner.lock();
        let global = self.checked(index, ISOLATED)?;
        let mut inside = Inside::default();
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

    /// The next movable chunks from frame `from` on, each with a place to go: how many, and the
    /// frame behind the last.
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

    /// Frees what nobody uses behind a batch of moves; how many frames were moved.
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

    /// Lets go of an isolated block that is all free: what of it may be in caches.
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

    /// What is in one of our blocks.
    pub fn inside(&self, index: usize) -> Option<Inside> {
        let _still = self.inner.lock();
        let global = self.checked(index, OPEN).or_else(|_| self.checked(index, ISOLATED)).ok()?;
        let mut inside = Inside::default();
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

/// What a block consists of, from frame `from` on, at which a chunk starts or did.
fn chunks(global: &Global, index: usize, from: usize) -> impl Iterator<Item = (u64, Chunk)> {
    let tags = &global.region.tags[index * FRAMES..(index + 1) * FRAMES];
    let mut at = from;
    core::iter::from_fn(move || {
        // What started here may have joined with what is before it.
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
