//! Finding the journal at the mount, and repeating the transactions that it contains.
//!
//! ```text
//!   Map --> Super --+--> Scan --> Write --> (written, the log empty) --> the mount reads all again
//!                   '--> empty: no replay
//! ```
//!
//! Contract: a step looks at a few blocks and waits for no others. Nothing is written before the
//! whole log was checked. Only complete transactions with valid checksums are repeated, in order,
//! without revoked blocks; a replay that is interrupted is repeated from the beginning by the next
//! mount. A journal that cannot be used makes the file system read-only ([`ReadOnly::Unclean`]).

use super::cache::Class;
use super::device::key;
use super::jbd2::{self, Found, Stamp, Super, Tag};
use super::journal::{From, Journal, Parts, Step};
use super::layout::{ReadOnly, Unfit};
use super::writing::{Closing, Purpose};
use super::{Ext2, Result};
use crate::filesystem::Stop;
use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Blocks of the journal's file that a step maps.
const MAPPED: u32 = 256;
/// Steps of a call; then the callers that wait for the mount ask again.
const STEPS: usize = 256;
/// Blocks of the log that are read ahead.
const AHEAD: u32 = 32;
/// Maximum number of revoked blocks.
const REVOKED: usize = 16_384;

/// Progress of the mount.
#[derive(Debug)]
pub enum Stage {
    /// Reads the superblock; true once the I/O is issued.
    Super(bool),
    /// Reads its block and the descriptors: the number of issued and of completed reads.
    Tables(u32, u32),
    /// Finds and replays the journal.
    Journal(Box<Replay>),
    /// Reads the list of orphans: the next one.
    Orphans(u32),
    Ready,
    /// It cannot be mounted.
    Unfit(Unfit),
}

/// Where a pass through the log is.
#[derive(Debug, Default)]
struct Cursor {
    sequence: u32,
    index: u32,
    /// Number of blocks passed.
    passed: u32,
    /// The copies that come next, the last one first.
    tags: Vec<Tag>,
}

#[derive(Debug)]
enum Pass {
    /// Maps the blocks of the journal's file.
    Map,
    /// Reads its superblock.
    Super,
    /// Looks for the end of the log, and for revocations.
    Scan,
    /// Writes the copies to their places.
    Write,
}

/// Progress of the search and the replay.
#[derive(Debug)]
pub struct Replay {
    inode: u32,
    needed: bool,
    orphan: u32,
    pass: Pass,
    parts: Parts,
    super_block: Option<Super>,
    cursor: Cursor,
    /// Whether a copy of the transaction being scanned is damaged, and what it revokes.
    damaged: bool,
    revoking: Vec<u32>,
    /// Revoked blocks, each with the last transaction that revokes it.
    revoked: BTreeMap<u32, u32>,
    /// The first transaction that is not complete.
    end: u32,
}

/// The result of a step.
enum Next {
    /// Another step follows.
    More,
    /// Blocks are written first.
    Writes,
    /// The next stage of the mount.
    Stage(Stage),
}

impl Replay {
    pub fn new(inode: u32, needed: bool, orphan: u32) -> Replay {
        Replay {
            inode,
            needed,
            orphan,
            pass: Pass::Map,
            parts: Parts::default(),
            super_block: None,
            cursor: Cursor::default(),
            damaged: false,
            revoking: Vec::new(),
            revoked: BTreeMap::new(),
            end: 0,
        }
    }

    fn found(&self) -> Result<&Super> {
        self.super_block.as_ref().ok_or(Errno::Io.into())
    }

    fn rewind(&mut self, pass: Pass) -> Result<()> {
        let found = self.found()?;
        let (sequence, index) = (found.sequence(), found.start());
        self.cursor = Cursor { sequence, index, ..Cursor::default() };
        self.pass = pass;
        Ok(())
    }

    /// Goes to the next block of the log. Returns false if all have been passed.
    fn advance(&mut self) -> Result<bool> {
        let (first, length) = (self.found()?.first(), self.found()?.length());
        let cursor = &mut self.cursor;
        cursor.index = if cursor.index + 1 >= length { first } else { cursor.index + 1 };
        cursor.passed += 1;
        Ok(cursor.passed < length - first)
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(Stamp { seed: self.found()?.seed(), sequence: self.cursor.sequence })
    }

    /// Notes what a complete transaction revokes.
    fn revoke(&mut self) -> Result<()> {
        for block in self.revoking.drain(..) {
            self.revoked.insert(block, self.cursor.sequence);
        }
        if self.revoked.len() > REVOKED { Err(Errno::Io.into()) } else { Ok(()) }
    }

    /// Returns whether a copy of the current transaction is to be written.
    fn is_current(&self, block: u32) -> bool {
        let last = self.revoked.get(&block);
        last.is_none_or(|last| self.cursor.sequence.wrapping_sub(*last) as i32 > 0)
    }
}

impl Ext2 {
    /// Does some steps of the mount that look at blocks through the cache.
    pub(super) fn next_replay(&mut self) {
        for _ in 0..STEPS {
            if self.closing.is_some() {
                return self.replay_stalled();
            }
            let done = match core::mem::replace(&mut self.stage, Stage::Ready) {
                Stage::Journal(mut replay) => {
                    let done = self.replay_step(&mut replay);
                    self.stage = Stage::Journal(replay);
                    done
                }
                Stage::Orphans(orphan) => {
                    self.stage = Stage::Orphans(orphan);
                    self.orphan_step(orphan)
                }
                other => {
                    self.stage = other;
                    return;
                }
            };
            match done {
                Ok(Next::More) => {}
                Ok(Next::Writes) | Err(Stop::Wait(_)) => return,
                Ok(Next::Stage(stage)) => self.go_to(stage),
                Err(Stop::Failed(_)) => {
                    self.read_only = Some(ReadOnly::Unclean);
                    self.journal = None;
                    self.go_to(Stage::Ready);
                }
            }
        }
        self.device.wake(key::MOUNT);
    }

    /// A replay that cannot be written fails the mount.
    fn replay_stalled(&mut self) {
        if matches!(self.stage, Stage::Journal(_)) && self.is_stalled() {
            self.closing = None;
            self.go_to(Stage::Unfit(Unfit::Device));
        }
    }

    fn orphan_step(&mut self, orphan: u32) -> Result<Next> {
        if orphan == 0 {
            // The device has the newest one first.
            self.chain.reverse();
            return Ok(Next::Stage(Stage::Ready));
        }
        self.next_orphan(orphan).map(|next| Next::Stage(Stage::Orphans(next)))
    }

    fn replay_step(&mut self, replay: &mut Replay) -> Result<Next> {
        match replay.pass {
            Pass::Map => self.map_journal(replay),
            Pass::Super => self.read_super(replay),
            Pass::Scan => self.scan(replay),
            Pass::Write => self.write_copies(replay),
        }
    }

    fn map_journal(&mut self, replay: &mut Replay) -> Result<Next> {
        let node = self.peek(|fs| fs.inode(replay.inode))?;
        let blocks =
            u32::try_from(node.size / self.geometry.block as u64).map_err(|_| Errno::Io)?;
        for _ in 0..MAPPED {
            let index = replay.parts.blocks();
            if index >= blocks {
                replay.pass = Pass::Super;
                break;
            }
            let block = self.peek(|fs| fs.map(&node, index.into()))?.ok_or(Errno::Io)?;
            replay.parts.push(block).ok_or(Errno::Io)?;
        }
        Ok(Next::More)
    }

    fn read_super(&mut self, replay: &mut Replay) -> Result<Next> {
        let (at, blocks) = (replay.parts.at(0), replay.parts.blocks());
        let found = self.peek(|fs| Ok(Super::read(fs.view(at)?, blocks)))?.ok_or(Errno::Io)?;
        let contents = found.start() != 0;
        if contents && replay.needed {
            replay.super_block = Some(found);
            replay.rewind(Pass::Scan)?;
            return Ok(Next::More);
        }
        if contents {
            return Err(Errno::Io.into());
        }
        let sequence = found.sequence();
        self.journal = Some(Journal::new(core::mem::take(&mut replay.parts), found, sequence));
        Ok(Next::Stage(Stage::Orphans(replay.orphan)))
    }

    /// Returns the current block of the log, and reads the next ones ahead.
    fn view_log(&mut self, replay: &Replay) -> Result<Box<[u8]>> {
        let (at, length) = (replay.cursor.index, replay.found()?.length());
        let block = replay.parts.at(at);
        self.peek(|fs| {
            if !fs.prefetch(block) {
                for next in at + 1..length.min(at + AHEAD) {
                    fs.prefetch(replay.parts.at(next));
                }
            }
            Ok(fs.view(block)?.into())
        })
    }

    fn scan(&mut self, replay: &mut Replay) -> Result<Next> {
        let (block, stamp) = (self.view_log(replay)?, replay.stamp()?);
        let mut ends = false;
        if let Some(tag) = replay.cursor.tags.pop() {
            replay.damaged |= !tag.fits(stamp, &block);
            let is_place = self.geometry.group_of(tag.block).is_some();
            replay.damaged |= !is_place || replay.parts.has(tag.block);
        } else {
            match jbd2::read(stamp, &block) {
                Some(Found::Tags(tags)) => replay.cursor.tags = tags.into_iter().rev().collect(),
                Some(Found::Revoked(some)) => replay.revoking.extend(some),
                // The flush before the commit made the copies durable.
                Some(Found::Commit) if replay.damaged => return Err(Errno::Io.into()),
                Some(Found::Commit) => {
                    replay.revoke()?;
                    replay.cursor.sequence = stamp.sequence.wrapping_add(1);
                }
                None => ends = true,
            }
        }
        if !replay.advance()? || ends {
            replay.end = replay.cursor.sequence;
            replay.rewind(Pass::Write)?;
        }
        Ok(Next::More)
    }

    fn write_copies(&mut self, replay: &mut Replay) -> Result<Next> {
        if replay.cursor.sequence == replay.end {
            return self.end_replay(replay);
        }
        if self.cache.dirty() >= self.cache.most() / 4 {
            self.write_replayed(Vec::new(), Vec::new(), false);
            return Ok(Next::Writes);
        }
        let (block, stamp) = (self.view_log(replay)?, replay.stamp()?);
        if let Some(tag) = replay.cursor.tags.pop() {
            if replay.is_current(tag.block) {
                self.device.overtake(tag.block);
                self.cache.store(tag.block, tag.restored(&block), Class::Meta);
            }
        } else {
            match jbd2::read(stamp, &block) {
                Some(Found::Tags(tags)) => replay.cursor.tags = tags.into_iter().rev().collect(),
                Some(Found::Revoked(_)) => {}
                Some(Found::Commit) => replay.cursor.sequence = stamp.sequence.wrapping_add(1),
                // It was read differently before.
                None => return Err(Errno::Io.into()),
            }
        }
        replay.advance()?;
        Ok(Next::More)
    }

    /// Starts writing the replayed blocks, and then these steps.
    fn write_replayed(&mut self, then: Vec<Step>, own: Vec<Box<[u8]>>, all: bool) {
        let blocks = self.cache.close(&BTreeSet::new());
        let mut steps: Vec<Step> =
            blocks.iter().map(|(block, _)| Step::Write(*block, From::Cache(*block))).collect();
        steps.extend(then);
        self.closing = Some(Closing::new(self.open.number, Purpose::Replay(all), steps, own));
        self.open.number += 1;
    }

    /// Starts writing the last blocks, and a superblock of the journal that says it is empty. No
    /// block of an incomplete transaction is taken for one of the next: that skips a number.
    fn end_replay(&mut self, replay: &mut Replay) -> Result<Next> {
        let found = replay.super_block.take().ok_or(Errno::Io)?;
        let sequence = replay.end.wrapping_add(1);
        let journal = Journal::new(core::mem::take(&mut replay.parts), found, sequence);
        let at = journal.super_at();
        let own = Vec::from([journal.super_with(0)]);
        self.journal = Some(journal);
        let then = [Step::Flush, Step::Write(at, From::Own(0)), Step::Flush];
        self.write_replayed(then.into(), own, true);
        Ok(Next::Writes)
    }

    /// Replayed blocks are on the device; with `all`, what else the mount reads may have changed.
    pub(super) fn replayed(&mut self, all: bool) {
        if all {
            self.go_to(Stage::Super(false));
        }
    }
}
