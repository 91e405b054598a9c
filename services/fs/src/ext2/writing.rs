//! How changes reach the device: in generations.
//!
//! ```text
//!   open --close--> closing: 0 mark | 1 First | 2 Meta | 3 Names | 4 Names lost --> on the device
//!    ^ changes        each phase: its blocks in any order, then a flush, then the next
//! ```
//!
//! Contract: a generation consists of whole operations and takes the device from one consistent
//! state to the next. After a power cut some of its phases are on the device, and any part of the
//! phase that was being written. In every such mixture, each file that existed before the
//! generation and is not removed by it has its old name, its new one, or both. e2fsck repairs
//! everything else without loss:
//!
//! 0. Before the first generation, the superblock is marked not clean. So a check follows a power
//!    cut, and bitmaps, counts and link counts need no order.
//! 1. Data, and blocks that were free when the previous generation was on the device. No pointer
//!    there leads to the latter, because a freed block becomes free in the bitmap only after the
//!    generation that cleared its pointer is on the device ([`super::tidy`]).
//! 2. Pointers and inodes. All that they lead to is on the device. An inode loses its last link,
//!    its blocks and its number only in a generation after the one that removed its last name, so
//!    no name ever leads to a free inode.
//! 3. Directory blocks, and so all new names; except blocks that lost a name of a file that stays.
//!    Now each file has its old name or both.
//! 4. Directory blocks that lost such names. A name that others rely on (of a link, a moved file, a
//!    new directory) is never added to a block of phase 4, and a block that gained one never
//!    becomes one of phase 4: the operation waits for the next generation. If both names are in the
//!    same block, that is one write.
//!
//! At most one directory moves to another directory in a generation. Otherwise, with old and new
//! names on the device at once, two directories could contain each other, and e2fsck would break
//! the cycle by removing names.
//!
//! A generation that could not be written is written again from phase 0, unchanged, when a caller
//! needs it; meanwhile further changes go to memory, up to the bound.

use super::cache::Class;
use super::device::{Done, Flight, Io, RUN, What, key};
use super::layout::{DESCRIPTOR, VALID, put16, put32, sb};
use super::{Ext2, Result};
use crate::filesystem::Stop;
use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Maximum number of blocks being written at a time.
const FLYING: usize = 32;

/// The generation that receives changes.
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

impl Ext2 {
    /// Starts writing the changes.
    pub fn write_back(&mut self) {
        match &self.closing {
            Some(closing) if closing.stalled => self.retry(),
            Some(_) => self.close_next |= self.cache.dirty() != 0,
            None if self.cache.dirty() != 0 => self.close(false),
            None => {}
        }
    }

    /// Closes the open generation. No other one may be closing.
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

    /// Puts the counts, and whether the file system is clean, into their blocks.
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

    /// A write of so many blocks, or a flush, has completed.
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

    /// The generation could not be written. Each waiting caller gets the error once.
    fn stall(&mut self) {
        let Some(closing) = &mut self.closing else { return };
        (closing.stalled, closing.failed) = (true, false);
        (closing.phase, closing.at) = (0, 0);
        // Later changes depend on this generation, so they cannot be written either.
        self.failed.extend(self.touched.keys());
        self.device.wake(key::WRITTEN);
        self.device.wake(key::TIDY);
    }

    fn retry(&mut self) {
        if let Some(closing) = &mut self.closing {
            closing.stalled = false;
        }
    }

    /// Returns whether a generation could not be written.
    pub(super) fn is_stalled(&self) -> bool {
        self.closing.as_ref().is_some_and(|closing| closing.stalled)
    }

    /// Closes the generation if too much is dirty; while one is being written, changes wait.
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

    /// Returns the result of an operation that must wait for the next generation. If one could not
    /// be written, that is tried again, and the operation fails.
    pub(super) fn next_generation(&mut self) -> Stop {
        let stalled = self.is_stalled();
        self.write_back();
        if stalled { Stop::Failed(Errno::Io) } else { Stop::Wait(key::WRITTEN) }
    }

    /// Starts writing the changes of an inode. Returns the generation that must be on the device,
    /// or 0 if all is there.
    pub(super) fn begin_sync(&mut self, inode: u32) -> Result<u64> {
        self.tell_failure(inode)?;
        if self.trims.contains_key(&inode) && !self.orphans.contains_key(&inode) {
            return self.reclaim();
        }
        let number = self.touched.get(&inode).copied().unwrap_or(0);
        self.hurry(number);
        Ok(number)
    }

    /// Waits until a generation is on the device. Fails for one that does not exist yet, such as
    /// one of an earlier mount.
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

    /// Returns, once, that changes of an inode could not be written.
    fn tell_failure(&mut self, inode: u32) -> Result<()> {
        if self.failed.remove(&inode) { Err(Errno::Io.into()) } else { Ok(()) }
    }

    /// Makes sure that a generation is being written, if it is not on the device.
    fn hurry(&mut self, number: u64) {
        let closing = self.closing.as_ref().is_some_and(|closing| closing.number == number);
        if number > self.durable && (!closing || self.is_stalled()) {
            self.write_back();
        }
    }

    /// Starts writing all changes; then settles unless more arrive. For a timer.
    pub fn begin_to_settle(&mut self) {
        self.write_back();
        self.settling = true;
    }

    pub(super) fn settle_on(&mut self) {
        if self.settling && !matches!(self.settle(), Err(Stop::Wait(_))) {
            self.settling = false;
        }
    }

    /// Returns whether everything is on the device except the mark that it is clean.
    pub fn is_unsettled(&self) -> bool {
        let ready = self.mounted().is_ok() && self.read_only.is_none();
        ready && !self.valid && !self.is_dirty() && self.orphans.is_empty()
    }

    /// Writes everything, does all tidying, and marks the file system clean, like an unmount after
    /// which it stays usable. Fails with [`Errno::Busy`] if removed files are open.
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
