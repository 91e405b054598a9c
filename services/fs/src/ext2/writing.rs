//! How changes reach the device: in generations.
//!
//! ```text
//!   open --close--> closing: 0 mark | 1 First | 2 Meta | 3 Names | 4 Names lost --> on the device
//!    ^ changes        each phase: its blocks in any order, then a flush, then the next
//! ```
//!
//! Contract: the device's state S' follows from S by one generation, which is whole operations.
//! After a power cut some of its phases are there, and any part of the one under way. Whatever was
//! there when a generation began and is not removed by it can be reached by its old name or its
//! new one in every such mixture, and what is wrong otherwise e2fsck repairs without a loss:
//!
//! 0. Before the first generation the superblock says that the file system is not clean. So
//!    somebody checks it after a cut, and what only bitmaps, counts and link counts say does not
//!    need an order.
//! 1. Data, and blocks that were free when the last generation was on the device. Nothing there
//!    leads to the latter yet, for a block that is let go is free in the bitmap only when the
//!    generation that cleared the pointer is on the device ([`super::tidy`]).
//! 2. Pointers and inodes. All that they lead to is there. An inode loses its last link, its
//!    blocks and its number only in a generation behind the one that removed its last name: so no
//!    name leads to an inode that is gone, in no mixture.
//! 3. Directory blocks, and so all new names; but none of a block that lost a name of something
//!    that goes on to exist. So now everything has its old name or both.
//! 4. Directory blocks that lost such names. A name that others rely on (of a link, of what was
//!    moved, of a new directory) never comes into a block of phase 4, nor does such a block become
//!    one: who would do that waits for the next generation. Both in one block is one write.
//!
//! At most one directory goes to another directory in a generation: with old and new names there
//! at once, two could stand in each other, and a check that cuts such a knot cuts names.
//!
//! A generation that could not be written is written again from phase 0, unchanged, when somebody
//! asks; meanwhile changes go on in memory up to the bound.

use super::cache::Class;
use super::device::{Flight, Io, What, key};
use super::layout::{DESCRIPTOR, VALID, put16, put32, sb};
use super::{Ext2, Result};
use crate::filesystem::Stop;
use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Most blocks whose write is under way.
const FLYING: usize = 32;
/// Most blocks, one behind the other, that are one write.
pub const RUN: usize = 16;

/// The generation that takes changes.
#[derive(Debug, Default)]
pub struct Open {
    pub number: u64,
    pub added: BTreeSet<u32>,
    pub removed: BTreeMap<u32, u32>,
    pub moved: bool,
    pub frees: BTreeSet<u32>,
}

/// The generation that is being written.
#[derive(Debug)]
pub struct Closing {
    pub number: u64,
    pub frees: BTreeSet<u32>,
    phases: Vec<Vec<u32>>,
    phase: usize,
    at: usize,
    flying: usize,
    flushing: bool,
    failed: bool,
    /// It could not be written, and waits to be tried again.
    pub stalled: bool,
    clean: bool,
}

/// What became of a write or flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Written,
    Flushed,
    Failed,
}

impl Ext2 {
    /// Begins to write what changed.
    pub fn write_back(&mut self) {
        match &self.closing {
            Some(closing) if closing.stalled => self.retry(),
            Some(_) => self.close_next |= self.cache.dirty() != 0,
            None if self.cache.dirty() != 0 => self.close(false),
            None => {}
        }
    }

    /// The open generation is over. There must be none closing.
    fn close(&mut self, clean: bool) {
        self.close_next = false;
        self.write_counts(clean);
        let number = self.open.number;
        let next = Open { number: number + 1, ..Open::default() };
        let open = core::mem::replace(&mut self.open, next);
        let mut phases = Vec::from([const { Vec::new() }; 5]);
        for (block, class) in self.cache.close() {
            let lost = open.removed.contains_key(&block);
            let phase = match class {
                Class::First => 1,
                Class::Meta => 2,
                Class::Names if lost => 4,
                Class::Names => 3,
            };
            if let Some(phase) = phases.get_mut(phase) {
                phase.push(block);
            }
        }
        if self.valid && !clean {
            phases[0].push(self.super_at);
        }
        self.closing = Some(Closing {
            number,
            frees: open.frees,
            phases: phases.into_iter().filter(|phase: &Vec<u32>| !phase.is_empty()).collect(),
            phase: 0,
            at: 0,
            flying: 0,
            flushing: false,
            failed: false,
            stalled: false,
            clean,
        });
    }

    /// Counts, and whether it is clean, into their blocks.
    fn write_counts(&mut self, clean: bool) {
        let bytes = self.geometry.block;
        for table in core::mem::take(&mut self.tables_changed) {
            let from = table as usize * bytes;
            let first = from / DESCRIPTOR;
            let Some(block) = self.tables.get_mut(from..from + bytes) else { continue };
            for (place, group) in
                block.chunks_exact_mut(DESCRIPTOR).zip(self.groups.get(first..).unwrap_or_default())
            {
                group.write(place);
            }
            let data: Box<[u8]> = (&*block).into();
            self.cache.store(self.super_at + 1 + table, data, Class::Meta);
        }
        let at = self.super_offset;
        let block = &mut self.super_block;
        put32(block, at + sb::FREE_BLOCKS, self.free_blocks);
        put32(block, at + sb::FREE_INODES, self.free_inodes);
        put32(block, at + sb::RO_COMPAT, self.ro_compat);
        let state = if clean { self.state | VALID } else { self.state & !VALID };
        put16(block, at + sb::STATE, state);
        let data: Box<[u8]> = (&**block).into();
        self.cache.store(self.super_at, data, Class::Meta);
    }

    pub(super) fn next_write(&mut self) -> Option<Io> {
        let closing = self.closing.as_mut()?;
        if closing.stalled || closing.failed || closing.flushing {
            return None;
        }
        let phase = closing.phases.get(closing.phase)?;
        let Some(&block) = phase.get(closing.at) else {
            if closing.flying > 0 {
                return None;
            }
            closing.flushing = true;
            let id = self.device.start(Flight::Flush);
            return Some(Io { id, at: 0, what: What::Flush });
        };
        if closing.flying >= FLYING {
            return None;
        }
        let most = RUN.min(FLYING - closing.flying);
        let run = phase[closing.at..].iter().zip(block..).take(most);
        let run = run.take_while(|(next, wanted)| *next == wanted).count();
        closing.at += run;
        closing.flying += run;
        let id = self.device.start(Flight::Write(block, run));
        let size = self.geometry.block;
        Some(Io { id, at: u64::from(block) * size as u64, what: What::Write(run * size) })
    }

    /// A write of so many blocks, or a flush, came back.
    pub(super) fn written(&mut self, blocks: usize, done: Done) {
        let Some(closing) = &mut self.closing else { return };
        closing.failed |= done == Done::Failed;
        if closing.flushing {
            closing.flushing = false;
        } else {
            closing.flying = closing.flying.saturating_sub(blocks);
        }
        if closing.failed {
            if closing.flying == 0 {
                self.stall();
            }
        } else if done == Done::Flushed {
            (closing.phase, closing.at) = (closing.phase + 1, 0);
            if closing.phase == closing.phases.len() {
                self.finish();
            }
        }
    }

    fn finish(&mut self) {
        let Some(closing) = self.closing.take() else { return };
        for block in closing.phases.iter().flatten() {
            self.cache.closed(*block);
        }
        self.durable = closing.number;
        self.valid = closing.clean;
        self.freeable.extend(closing.frees);
        self.touched.retain(|_, number| *number > closing.number);
        self.failed.clear();
        self.device.wake(key::WRITTEN);
        self.device.wake(key::TIDY);
        if self.close_next {
            self.close(false);
        }
    }

    /// It could not be written. Whoever waits for it is told once.
    fn stall(&mut self) {
        let Some(closing) = &mut self.closing else { return };
        (closing.stalled, closing.failed) = (true, false);
        (closing.phase, closing.at) = (0, 0);
        // What changed later is behind it: that cannot be written either.
        self.failed.extend(self.touched.keys());
        self.device.wake(key::WRITTEN);
        self.device.wake(key::TIDY);
    }

    fn retry(&mut self) {
        if let Some(closing) = &mut self.closing {
            closing.stalled = false;
        }
    }

    /// Is there a generation that could not be written?
    pub(super) fn is_stalled(&self) -> bool {
        self.closing.as_ref().is_some_and(|closing| closing.stalled)
    }

    /// Too much is dirty: nothing more changes until some of it is written.
    pub(super) fn relieve(&mut self) -> Result<()> {
        if self.cache.dirty() < self.cache.most() / 4 {
            return Ok(());
        }
        match &self.closing {
            None => {
                self.close(false);
                Ok(())
            }
            Some(closing) if closing.stalled => {
                self.retry();
                Err(Errno::Io.into())
            }
            Some(_) => Err(self.next_generation()),
        }
    }

    /// Not in this generation: the next one is made to begin. One that could not be written is
    /// tried again, and is a failure of who asked.
    pub(super) fn next_generation(&mut self) -> Stop {
        let stalled = self.is_stalled();
        self.write_back();
        if stalled { Stop::Failed(Errno::Io) } else { Stop::Wait(key::WRITTEN) }
    }

    /// Begins to write what changed of an inode: the generation behind which it is on the device,
    /// or 0: it is.
    pub(super) fn begin_sync(&mut self, inode: u32) -> Result<u64> {
        self.tell_failure(inode)?;
        if self.trims.contains_key(&inode) && !self.orphans.contains_key(&inode) {
            return self.reclaim();
        }
        let number = self.touched.get(&inode).copied().unwrap_or(0);
        self.hurry(number);
        Ok(number)
    }

    /// Waits until a generation is on the device. Those of an earlier mount are not ours.
    pub(super) fn synced(&mut self, inode: u32, number: u64) -> Result<u64> {
        if number <= self.durable {
            return Ok(0);
        }
        self.tell_failure(inode)?;
        let newest = self.open.number - u64::from(self.cache.dirty() == 0);
        if number > newest {
            return Err(Errno::Io.into());
        }
        self.hurry(number);
        Self::wait(key::WRITTEN)
    }

    /// What of an inode could not be written is told once.
    fn tell_failure(&mut self, inode: u32) -> Result<()> {
        if self.failed.remove(&inode) { Err(Errno::Io.into()) } else { Ok(()) }
    }

    /// Sees to it that a generation is being written, if it is not on the device.
    fn hurry(&mut self, number: u64) {
        let closing = self.closing.as_ref().is_some_and(|closing| closing.number == number);
        if number > self.durable && (!closing || self.is_stalled()) {
            self.write_back();
        }
    }

    /// Begins to write what changed, and to settle unless more changes; for a timer.
    pub fn begin_to_settle(&mut self) {
        self.write_back();
        self.settling = true;
    }

    pub(super) fn settle_on(&mut self) {
        if self.settling && !matches!(self.settle(), Err(Stop::Wait(_))) {
            self.settling = false;
        }
    }

    /// Is everything on the device but that it is clean?
    pub fn is_unsettled(&self) -> bool {
        let ready = self.mounted().is_ok() && self.read_only.is_none();
        ready && !self.valid && !self.is_dirty() && self.orphans.is_empty()
    }

    /// Writes and tidies up everything, and marks the file system clean: an unmount, but that one
    /// may go on. Files without names that are open are [`Errno::Busy`].
    pub fn settle(&mut self) -> Result<()> {
        self.mounted()?;
        if self.read_only.is_some() {
            return Ok(());
        }
        if self.is_stalled() {
            self.retry();
            return Err(Errno::Io.into());
        }
        if self.closing.is_some() || self.cache.dirty() != 0 {
            return Err(self.next_generation());
        }
        if self.reclaims() {
            return Self::wait(key::TIDY);
        }
        if !self.orphans.is_empty() {
            return Err(Errno::Busy.into());
        }
        if self.valid {
            return Ok(());
        }
        self.close(true);
        Self::wait(key::WRITTEN)
    }
}
