//! How changes reach the device: in generations, each of which is a transaction of the journal.
//!
//! ```text
//!   open --close--> mark | data, copies in the log | commit --> durable [checkpoint] --> done
//!    ^ changes          flush                      flush   flush
//! ```
//!
//! Contract: a generation consists of whole operations and takes the device from one consistent
//! state to the next. After a power cut, a replay ([`super::replay`]) finds the whole generation or
//! nothing of its metadata:
//!
//! - If the device is marked clean, it is first marked as in need of a replay.
//! - Data go to their places before the commit. Nothing on the device refers to those blocks, or
//!   they are of a file that is overwritten: a freed block is used again in a later generation only
//!   ([`super::alloc`]).
//! - The commit is written when the copies and the data are durable. The metadata stay in the
//!   cache, unplaced: only the log has them.
//! - A checkpoint writes all unplaced blocks to their places. It follows the commit of the newest
//!   transaction, with the contents that the blocks have in it: a block that several changed is
//!   written once, and no place ever has contents that are not committed. Changes by then go to
//!   copies in the cache. The next transaction's flush makes the places durable.
//! - A freed block that the log has a copy of is revoked, so a replay does not write the copy over
//!   data that the block holds by then. For the same reason no checkpoint writes it: it is unplaced
//!   no longer. The tail does not move with the transaction that frees it, because a replay may
//!   still find the one before as the last.
//!
//! A transaction ends with a checkpoint if the log is full ([`super::journal`]), or if it and the
//! unplaced blocks are more than an eighth of the cache. So at most so many are unplaced, and a
//! large transaction is placed at once, which costs it little.
//!
//! Marking the device clean begins with a checkpoint, and takes three flushes: of the places, of
//! the superblock of the journal, which then is empty, and of the file system's.
//!
//! A generation that could not be written is written again from its first step, unchanged, when a
//! caller needs it; meanwhile further changes go to memory, up to the bound.

use super::cache::Class;
use super::device::{Done, Flight, Io, RUN, What, key};
use super::journal::{From, Journal, Step, Transaction};
use super::layout::{DESCRIPTOR, RECOVER, put32, sb};
use super::tidy::FREES;
use super::{Ext2, Result};
use crate::filesystem::Stop;
use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Maximum number of blocks being written at a time.
const FLYING: usize = 32;

/// The generation that receives changes.
#[derive(Debug, Default)]
pub struct Open {
    pub number: u64,
    /// Blocks that become free when it closes.
    pub frees: BTreeSet<u32>,
}

/// Why blocks are written.
#[derive(Debug)]
pub enum Purpose {
    Generation(Transaction),
    /// To mark the device clean.
    Clean,
    /// To repeat what the journal contains; whether all of it is then repeated.
    Replay(bool),
}

/// The generation that is being written.
#[derive(Debug)]
pub struct Closing {
    pub number: u64,
    purpose: Purpose,
    steps: Vec<Step>,
    own: Vec<Box<[u8]>>,
    at: usize,
    flying: usize,
    flushing: bool,
    failed: bool,
    /// It could not be written, and waits to be tried again.
    pub stalled: bool,
}

impl Closing {
    pub fn new(number: u64, purpose: Purpose, steps: Vec<Step>, own: Vec<Box<[u8]>>) -> Closing {
        let (at, flying, flushing, failed, stalled) = (0, 0, false, false, false);
        Closing { number, purpose, steps, own, at, flying, flushing, failed, stalled }
    }

    /// Returns how many consecutive blocks the next write step begins, and the first one.
    fn run(&self) -> Option<(u32, usize)> {
        let most = RUN.min(FLYING.saturating_sub(self.flying));
        let rest = self.steps.get(self.at..)?;
        let Some(Step::Write(first, _)) = rest.first() else { return None };
        let follows =
            |(step, wanted): &(&Step, u32)| matches!(step, Step::Write(to, _) if to == wanted);
        Some((*first, rest.iter().zip(*first..).take(most).take_while(follows).count()))
    }
}

/// Returns the blocks of data, and those of metadata.
fn by_class(blocks: Vec<(u32, Class)>) -> (Vec<u32>, Vec<u32>) {
    let (mut data, mut meta) = (Vec::new(), Vec::new());
    for (block, class) in blocks {
        if class == Class::Meta { &mut meta } else { &mut data }.push(block);
    }
    (data, meta)
}

/// Returns the write of a block of the cache to its place.
fn in_place(block: &u32) -> Step {
    Step::Write(*block, From::Cache(*block))
}

impl Ext2 {
    /// Starts writing the changes.
    pub fn write_back(&mut self) {
        match &self.closing {
            Some(closing) if closing.stalled => self.retry(),
            Some(_) => self.close_next |= self.cache.dirty() != 0,
            None if self.cache.dirty() != 0 => self.close(),
            None => {}
        }
    }

    /// Closes the open generation. No other one may be closing.
    fn close(&mut self) {
        self.close_next = false;
        let frees = core::mem::take(&mut self.open.frees);
        self.free_blocks_of(&frees);
        let marked = self.valid.then(|| self.marked());
        self.write_counts();
        let number = self.open.number;
        self.open.number += 1;
        // Before those that are freed are dropped.
        let placed = self.cache.unplaced() == 0;
        let (data, changed) = by_class(self.cache.close(&frees));
        let Some(journal) = &self.journal else { return };
        let copies: Vec<(u32, &[u8])> =
            changed.iter().filter_map(|at| Some((*at, self.cache.closing(*at)?))).collect();
        let revoked = journal.to_revoke(frees.iter().copied());
        let (mut steps, mut own) = (Vec::new(), Vec::new());
        if let Some(marked) = marked {
            own.push(marked);
            steps.extend([Step::Write(self.super_at, From::Own(0)), Step::Flush]);
        }
        let Some(plan) = journal.plan(&copies, revoked, placed, self.now, &mut own) else {
            // The bounds in `relieve` exclude this. Nothing of it is written.
            debug_assert!(false, "a transaction larger than half of the log");
            self.read_only = Some(super::ReadOnly::Unclean);
            return;
        };
        steps.extend(plan.before);
        steps.extend(data.iter().map(in_place));
        steps.extend(plan.copies);
        steps.push(Step::Flush);
        steps.extend(plan.commit);
        steps.extend([Step::Flush, Step::Committed]);
        if plan.is_full || self.cache.unplaced_with(&changed) + data.len() > self.lazy() {
            steps.extend(self.checkpoint(changed));
        }
        let purpose = Purpose::Generation(plan.transaction);
        self.closing = Some(Closing::new(number, purpose, steps, own));
        self.device.wake(key::TIDY);
    }

    /// Returns how many blocks may be unplaced.
    fn lazy(&self) -> usize {
        self.cache.most() / 8
    }

    /// Returns the writes of all unplaced blocks, and of the blocks that the closing generation
    /// changed, to their places.
    fn checkpoint(&mut self, mut changed: Vec<u32>) -> Vec<Step> {
        changed.extend(self.cache.place());
        changed.sort_unstable();
        changed.dedup();
        changed.iter().map(in_place).collect()
    }

    /// Starts marking the device clean. Nothing may be dirty.
    fn close_clean(&mut self) {
        let Some(journal) = &self.journal else { return };
        let at = self.super_offset + sb::INCOMPAT;
        let incompat = super::layout::get32(&self.super_block, at);
        put32(&mut self.super_block, at, incompat & !RECOVER);
        let own = Vec::from([journal.super_with(0), self.super_block.clone()]);
        let ends = [
            Step::Flush,
            Step::Write(journal.super_at(), From::Own(0)),
            Step::Flush,
            Step::Write(self.super_at, From::Own(1)),
            Step::Flush,
        ];
        let mut steps = self.checkpoint(Vec::new());
        steps.extend(ends);
        self.closing = Some(Closing::new(self.open.number, Purpose::Clean, steps, own));
        self.open.number += 1;
    }

    /// Marks the superblock as in need of a replay. Returns its block, which is otherwise as it is
    /// on the device.
    fn marked(&mut self) -> Box<[u8]> {
        let at = self.super_offset + sb::INCOMPAT;
        let incompat = super::layout::get32(&self.super_block, at);
        put32(&mut self.super_block, at, incompat | RECOVER);
        self.super_block.clone()
    }

    /// Puts the counts and the list of orphans into their blocks.
    fn write_counts(&mut self) {
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
        put32(block, at + sb::LAST_ORPHAN, self.chain.last().copied().unwrap_or(0));
        let data: Box<[u8]> = (&**block).into();
        self.cache.store(self.super_at, data, Class::Meta);
    }

    pub(super) fn next_write(&mut self) -> Option<Io> {
        let closing = self.closing.as_mut()?;
        if closing.stalled || closing.failed || closing.flushing || closing.flying >= FLYING {
            return None;
        }
        if let Some((first, blocks)) = closing.run() {
            let id = self.device.start(Flight::Write(closing.at, blocks));
            closing.at += blocks;
            closing.flying += blocks;
            let size = self.geometry.block;
            return Some(Io {
                id,
                at: u64::from(first) * size as u64,
                what: What::Write(blocks * size),
            });
        }
        let is_flush = matches!(closing.steps.get(closing.at), Some(Step::Flush));
        if !is_flush || closing.flying > 0 {
            return None;
        }
        closing.flushing = true;
        let id = self.device.start(Flight::Flush);
        Some(Io { id, at: 0, what: What::Flush })
    }

    /// Returns the block that a write step writes, and whether it is escaped.
    pub(super) fn data_of(&self, step: usize) -> Option<(&[u8], bool)> {
        let closing = self.closing.as_ref()?;
        let Some(Step::Write(_, from)) = closing.steps.get(step) else { return None };
        match from {
            From::Cache(block) => Some((self.cache.closing(*block)?, false)),
            From::Escaped(block) => Some((self.cache.closing(*block)?, true)),
            From::Own(place) => Some((closing.own.get(*place)?, false)),
        }
    }

    /// A write of so many blocks, or a flush, has completed.
    pub(super) fn written(&mut self, blocks: usize, done: Done) {
        let Some(closing) = &mut self.closing else { return };
        closing.failed |= done == Done::Failed;
        if closing.flushing {
            closing.flushing = false;
            closing.at += usize::from(done == Done::Flushed);
        } else {
            closing.flying = closing.flying.saturating_sub(blocks);
        }
        if closing.flying > 0 {
            return;
        }
        if closing.failed {
            return self.stall();
        }
        if matches!(closing.steps.get(closing.at), Some(Step::Committed)) {
            closing.at += 1;
            self.committed();
        }
        if self.closing.as_ref().is_some_and(|closing| closing.at == closing.steps.len()) {
            self.finish();
        }
    }

    /// The transaction is durable: its changes survive whatever happens next.
    fn committed(&mut self) {
        let Some(closing) = &self.closing else { return };
        if let (Purpose::Generation(done), Some(journal)) = (&closing.purpose, &mut self.journal) {
            journal.committed(done);
            for block in done.copied() {
                self.cache.logged(*block);
            }
        }
        let number = closing.number;
        self.durable = number;
        self.touched.retain(|_, last| *last > number);
        self.failed.clear();
        self.device.wake(key::WRITTEN);
    }

    fn finish(&mut self) {
        let Some(closing) = self.closing.take() else { return };
        self.cache.closed(closing.steps.iter().filter_map(|step| match step {
            Step::Write(to, From::Cache(block) | From::Escaped(block)) => {
                Some((*block, to == block))
            }
            _ => None,
        }));
        self.device.wake(key::WRITTEN);
        self.device.wake(key::TIDY);
        match closing.purpose {
            Purpose::Replay(all) => return self.replayed(all),
            Purpose::Generation(_) => self.valid = false,
            Purpose::Clean => {
                self.valid = true;
                self.durable = closing.number;
                if let Some(journal) = &mut self.journal {
                    journal.emptied();
                }
            }
        }
        if self.close_next {
            self.close();
        }
    }

    /// The generation could not be written. Each waiting caller gets the error once.
    fn stall(&mut self) {
        let Some(closing) = &mut self.closing else { return };
        (closing.stalled, closing.failed) = (true, false);
        closing.at = 0;
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

    /// Closes the generation if too much is dirty or was freed; while one is being written, changes
    /// wait. Unplaced blocks count as dirty, since a checkpoint adds them to the generation.
    pub(super) fn relieve(&mut self) -> Result<()> {
        let room = self.journal.as_ref().map_or(0, Journal::room);
        let logged = self.cache.meta() + self.tables_changed.len();
        let dirty = self.cache.dirty() + self.cache.unplaced();
        if dirty < self.cache.most() / 4 && logged < room && self.open.frees.len() < FREES {
            return Ok(());
        }
        match &self.closing {
            None => {
                self.write_back();
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
        self.close_clean();
        Self::wait(key::WRITTEN)
    }
}
