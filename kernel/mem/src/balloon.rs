//! The balloon of one kernel: moves blocks between the block table and the frame allocator.
//!
//! The global region has two ends. A kernel takes the free block nearest to its own end, and gives
//! back the one of its blocks that is farthest from it: its *frontier*. Movable frames are placed
//! at the frontier, so that giving usually works; when something in there cannot be moved, the
//! block behind it is tried.
//!
//! A transfer is [`crate::transfer`]; here are its steps. **One transfer at a time a kernel**: the
//! caller sees to it. Nothing here waits for another domain but for the lock of the table.
//!
//! What is cleaned: all parts of the block that were handed out or held the allocator's links since
//! it came, for nothing else was stored to; they are invalidated by the same instructions, so that
//! no line of it stays. Who takes a block invalidates nothing: see `transfer`.

use abi::boot::BLOCK;
use base::addr::PhysAddr;
use base::port::{Cache, Words};

use crate::blocks::{Blocks, ClaimError, End, Kind, Lives, Recovered, State};
use crate::frames::FrameAllocator;
use crate::frames::span::{BlockError, Mover, Touched};
use crate::set::BlockSet;
use crate::transfer::{self, Step, Transfer};

/// What a balloon needs of its kernel.
pub trait Machine: Cache {
    /// Maps a block cacheable.
    fn map(&self, block: PhysAddr) -> bool;
    /// Unmaps it on every core of the domain.
    fn unmap(&self, block: PhysAddr) -> bool;
    /// Empties the frame caches of all cores.
    fn empty_caches(&self);
    /// Runs `act` under the hardware spinlock of the block table.
    fn alone(&self, act: &mut dyn FnMut());
}

/// Why no block changed hands. Everything is as it was, but for frames that were moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No block is free.
    NoneFree,
    /// This kernel has no block.
    NoneMine,
    /// Others were quicker, each time.
    Contended,
    /// The page table refused.
    Map,
    /// The frame allocator refused.
    Frames(BlockError),
}

/// A block that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which.
    pub index: usize,
    /// Frames that were moved out of it.
    pub moved: usize,
    /// Bytes of it that were cleaned.
    pub cleaned: u64,
}

/// Most claims of one deflation, and most looks at one orphan.
const TRIES: usize = 8;

/// The balloon of one kernel.
#[derive(Clone, Copy, Debug)]
pub struct Balloon<W> {
    blocks: Blocks<W>,
    base: PhysAddr,
    end: End,
}

impl<W: Words> Balloon<W> {
    /// Over the block table of a global region at `base`, from `end` on.
    pub fn new(blocks: Blocks<W>, base: PhysAddr, end: End) -> Self {
        Balloon { blocks, base, end }
    }

    /// The end that its frontier is turned to: what [`FrameAllocator::adopt_global`] wants.
    pub fn frontier(&self) -> End {
        self.end.other()
    }

    /// The table.
    pub fn blocks(&self) -> &Blocks<W> {
        &self.blocks
    }

    /// This kernel's blocks that are cacheable here.
    pub fn local(&self) -> BlockSet {
        let mut set = BlockSet::new();
        let mine = |index: &usize| self.blocks.mine(*index) == Some(Kind::Local);
        (0..self.blocks.count()).filter(mine).for_each(|index| set.insert(index));
        set
    }

    /// First byte of a block.
    pub fn address(&self, index: usize) -> PhysAddr {
        self.base.plus(index as u64 * BLOCK)
    }

    /// Gives what dead kernels had back to the pool, and this kernel's own former life's; how many
    /// blocks.
    pub fn recover(&self, lives: &impl Lives, machine: &impl Machine) -> usize {
        let orphan = |index: &usize| {
            matches!(self.blocks.state(*index, lives), State::Orphan(..) | State::Contended)
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

    /// Takes a block from the pool; which one.
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
            Step::Map => noted(&mut why, machine.map(at).then_some(()).ok_or(Refusal::Map)),
            Step::Add => noted(&mut why, frames.add_block(index).map_err(Refusal::Frames)),
            Step::Unmap => machine.unmap(at),
            Step::Release => self.blocks.release(index).is_ok(),
            _ => false,
        });
        if end == transfer::End::Done { Ok(()) } else { Err(why) }
    }

    /// Gives a block back to the pool: the one at the frontier, or the nearest to it that can be
    /// emptied.
    pub fn inflate(
        &self,
        frames: &FrameAllocator,
        machine: &impl Machine,
        mover: &mut dyn Mover,
    ) -> Result<Given, Refusal> {
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

    /// Gives this block back.
    pub fn give(
        &self,
        index: usize,
        frames: &FrameAllocator,
        machine: &impl Machine,
        mover: &mut dyn Mover,
    ) -> Result<Given, Refusal> {
        let at = self.address(index);
        let mut why = Refusal::NoneMine;
        let (mut moved, mut touched) = (0, Touched(0));
        let end = transfer::run(Transfer::give(), |step| match step {
            Step::Isolate => {
                let isolated = frames.isolate(index).map_err(Refusal::Frames);
                machine.empty_caches();
                noted(&mut why, isolated)
            }
            Step::Evacuate => {
                let evacuated = frames.evacuate(index, mover).map_err(Refusal::Frames);
                noted(&mut why, evacuated.map(|count| moved = count))
            }
            Step::Remove => {
                let removed = frames.remove_block(index).map_err(Refusal::Frames);
                noted(&mut why, removed.map(|parts| touched = parts))
            }
            Step::Clean => {
                clean(at, touched, machine);
                true
            }
            Step::Unmap => noted(&mut why, machine.unmap(at).then_some(()).ok_or(Refusal::Map)),
            Step::Release => self.blocks.release(index).is_ok(),
            Step::Restore => frames.restore(index).is_ok(),
            Step::Add => frames.add_block(index).is_ok(),
            _ => false,
        });
        let given = Given { index, moved, cleaned: touched.bytes() };
        if end == transfer::End::Done { Ok(given) } else { Err(why) }
    }
}

/// Did it work? The first reason why not is kept.
fn noted(why: &mut Refusal, result: Result<(), Refusal>) -> bool {
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
