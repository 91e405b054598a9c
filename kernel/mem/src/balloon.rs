//! The balloon of one kernel: it moves blocks between the block table and the frame allocator.
//!
//! The global region has two ends. A kernel takes the free block nearest to its own end, and gives
//! back the one of its blocks farthest from that end, at its *frontier*. Movable frames are placed
//! near the frontier, so giving a block back usually succeeds; if something in it cannot be moved,
//! the next block is tried.
//!
//! [`crate::transfer`] defines the steps of a transfer. **One transfer at a time per kernel**: the
//! caller ensures that. The only wait for another domain is for the block table's lock.
//!
//! Before a block is released, the parts of it that were allocated or held the allocator's links
//! since it was taken are cleaned and invalidated; no other part was stored to. The kernel that
//! takes the block need not invalidate anything: see [`crate::transfer`].

use abi::boot::BLOCK;
use base::addr::PhysAddr;
use base::port::{Cache, Words};

use crate::blocks::{Blocks, ClaimError, End, Kind, Lives, Recovered, State};
use crate::frames::FrameAllocator;
use crate::frames::span::{BlockError, Mover, Touched};
use crate::set::BlockSet;
use crate::transfer::{self, Step, Transfer};

/// What a balloon needs from its kernel.
pub trait Machine: Cache {
    /// Maps a block as cacheable; false if the page table has no memory for it.
    fn map(&self, block: PhysAddr) -> bool;
    /// Unmaps a block on every core of the domain.
    fn unmap(&self, block: PhysAddr) -> bool;
    /// Empties the frame caches of all cores.
    fn empty_caches(&self);
    /// Runs `act` while holding the lock between domains of the block table.
    fn alone(&self, act: &mut dyn FnMut());
}

/// Why no block changed hands. Nothing has changed, except that frames may have been moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No block is free.
    NoneFree,
    /// This kernel has no block to give.
    NoneMine,
    /// Other kernels won the race for a block in each attempt.
    Contended,
    /// The page table could not be changed.
    Map,
    /// The frame allocator refused the block.
    Frames(BlockError),
}

/// A block that was returned to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnedBlock {
    pub index: usize,
    /// Number of frames that were moved out of it.
    pub moved: usize,
    /// Bytes that were cleaned.
    pub cleaned: u64,
}

/// Limit on claims per deflation, and on attempts to recover one orphan.
const TRIES: usize = 8;

/// The balloon of one kernel.
#[derive(Clone, Copy, Debug)]
pub struct Balloon<W> {
    blocks: Blocks<W>,
    base: PhysAddr,
    end: End,
}

impl<W: Words> Balloon<W> {
    /// Creates the balloon for a global region at `base`, filled from `end`.
    pub fn new(blocks: Blocks<W>, base: PhysAddr, end: End) -> Self {
        Balloon { blocks, base, end }
    }

    /// Returns the end of the region that the frontier faces; see [`FrameAllocator::adopt_global`].
    pub fn frontier(&self) -> End {
        self.end.other()
    }

    pub fn blocks(&self) -> &Blocks<W> {
        &self.blocks
    }

    /// Returns this kernel's local blocks.
    pub fn local(&self) -> BlockSet {
        let mut set = BlockSet::new();
        let mine = |index: &usize| self.blocks.mine(*index) == Some(Kind::Local);
        (0..self.blocks.count()).filter(mine).for_each(|index| set.insert(index));
        set
    }

    /// Returns the address of a block.
    pub fn address(&self, index: usize) -> PhysAddr {
        self.base.plus(index as u64 * BLOCK)
    }

    /// Returns the blocks of ended epochs to the pool: those of dead kernels, and those of earlier
    /// boots of this kernel. Returns their number. A coherent block stays: other kernels may have
    /// frames of it mapped.
    pub fn recover(&self, lives: &impl Lives, machine: &impl Machine) -> usize {
        let orphan = |index: &usize| {
            let found = self.blocks.state(*index, lives);
            let is_orphan = matches!(found, State::Orphan(..) | State::Contended);
            is_orphan && !matches!(found, State::Orphan(_, Kind::Coherent))
        };
        let orphans = (0..self.blocks.count()).filter(orphan);
        orphans.filter(|&index| self.recover_one(index, lives, machine)).count()
    }

    fn recover_one(&self, index: usize, lives: &impl Lives, machine: &impl Machine) -> bool {
        let mut found = Recovered::Contended;
        for _ in 0..TRIES {
            machine.alone(&mut || found = self.blocks.recover(index, lives));
            if found != Recovered::Contended {
                break;
            }
        }
        found == Recovered::Freed
    }

    /// Takes a block from the pool and returns its index.
    pub fn deflate(
        &self,
        frames: &FrameAllocator,
        machine: &impl Machine,
    ) -> Result<usize, Refusal> {
        for _ in 0..TRIES {
            let index = self.blocks.find_free(self.end).ok_or(Refusal::NoneFree)?;
            match self.take(index, frames, machine) {
                Err(Refusal::Contended) => {}
                other => return other.map(|()| index),
            }
        }
        Err(Refusal::Contended)
    }

    fn take(
        &self,
        index: usize,
        frames: &FrameAllocator,
        machine: &impl Machine,
    ) -> Result<(), Refusal> {
        let at = self.address(index);
        let mut why = Refusal::Contended;
        let end = transfer::run(Transfer::take(), |step| match step {
            Step::Claim => {
                let mut claimed = Err(ClaimError::Contended);
                machine.alone(&mut || claimed = self.blocks.claim(index, Kind::Local));
                claimed.is_ok()
            }
            Step::Map => note_failure(&mut why, machine.map(at).then_some(()).ok_or(Refusal::Map)),
            Step::Add => note_failure(&mut why, frames.add_block(index).map_err(Refusal::Frames)),
            Step::Unmap => machine.unmap(at),
            Step::Release => self.blocks.release(index).is_ok(),
            _ => false,
        });
        if end == transfer::End::Done { Ok(()) } else { Err(why) }
    }

    /// Returns a block to the pool: the one at the frontier, or the nearest to it that can be
    /// emptied.
    pub fn inflate(
        &self,
        frames: &FrameAllocator,
        machine: &impl Machine,
        mover: &mut dyn Mover,
    ) -> Result<ReturnedBlock, Refusal> {
        let mut first = Err(Refusal::NoneMine);
        for index in self.local().from(self.frontier()) {
            let given = self.give(index, frames, machine, mover);
            if given.is_ok() || first == Err(Refusal::NoneMine) {
                first = given;
            }
            let elsewhere = matches!(
                given,
                Err(Refusal::Frames(BlockError::Unmovable(_) | BlockError::Cached(_)))
            );
            if !elsewhere {
                break;
            }
        }
        first
    }

    /// Returns this block to the pool.
    pub fn give(
        &self,
        index: usize,
        frames: &FrameAllocator,
        machine: &impl Machine,
        mover: &mut dyn Mover,
    ) -> Result<ReturnedBlock, Refusal> {
        let at = self.address(index);
        let mut why = Refusal::NoneMine;
        let (mut moved, mut touched) = (0, Touched(0));
        let end = transfer::run(Transfer::give(), |step| match step {
            Step::Isolate => {
                let isolated = frames.isolate(index).map_err(Refusal::Frames);
                machine.empty_caches();
                note_failure(&mut why, isolated)
            }
            Step::Evacuate => {
                let evacuated = frames.evacuate(index, mover).map_err(Refusal::Frames);
                note_failure(&mut why, evacuated.map(|count| moved = count))
            }
            Step::Remove => {
                let removed = frames.remove_block(index).map_err(Refusal::Frames);
                note_failure(&mut why, removed.map(|parts| touched = parts))
            }
            Step::Clean => {
                clean(at, touched, machine);
                true
            }
            Step::Unmap => {
                note_failure(&mut why, machine.unmap(at).then_some(()).ok_or(Refusal::Map))
            }
            Step::Release => self.blocks.release(index).is_ok(),
            Step::Restore => frames.restore(index).is_ok(),
            Step::Add => frames.add_block(index).is_ok(),
            _ => false,
        });
        let given = ReturnedBlock { index, moved, cleaned: touched.bytes() };
        if end == transfer::End::Done { Ok(given) } else { Err(why) }
    }
}

/// Returns whether `result` is success; otherwise stores its reason.
fn note_failure(why: &mut Refusal, result: Result<(), Refusal>) -> bool {
    match result {
        Ok(()) => true,
        Err(reason) => {
            *why = reason;
            false
        }
    }
}

fn clean(at: PhysAddr, touched: Touched, cache: &impl Cache) {
    for part in touched.parts() {
        let start = at.plus(part).to_virt().0 as usize;
        cache.clean_invalidate(start, crate::frames::span::PART as usize);
    }
}

#[cfg(test)]
mod tests;
