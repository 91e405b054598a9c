//! Work after requests, a little at a time: marking inodes without names as deleted, freeing their
//! blocks and those of truncated files.
//!
//! ```text
//!   last name removed --on the device--> links 0, deletion time --closed--> trimmed --> free
//!   pointer cleared --on the device--> free in the bitmap
//! ```
//!
//! Contract: a step changes one inode or one bitmap, and a few blocks. A power cut between two
//! steps leaves only what e2fsck repairs: before the first step an inode with a link but no name
//! (it goes to lost+found), later a deleted inode, and blocks in use that no file has. Work that
//! fails because of the device is left to e2fsck.

use super::cache::Class;
use super::device::key;
use super::draft::Note;
use super::{Ext2, Result};
use crate::filesystem::Stop;
use abi::fs::Errno;

/// Maximum number of steps per call.
const STEPS: usize = 4;
/// How often a failing step is tried.
const TRIES: u32 = 16;
/// Maximum number of blocks freed in one step.
const FREED: usize = 256;
/// Maximum number of blocks waiting to be freed; beyond it no more files are trimmed.
const FREES: usize = 16_384;
/// Maximum number of orphans before a generation is closed for them.
const ORPHANS: usize = 1024;

/// An inode without names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The generation in which it lost its last name.
    pub since: u64,
    /// Whether its inode is marked as deleted.
    pub cleared: bool,
}

enum Job {
    Free,
    Trim(u32, u64),
    Clear(u32),
    Drop(u32),
}

impl Ext2 {
    /// Returns whether space will become free without further requests.
    pub(super) fn reclaims(&self) -> bool {
        let unused = |inode: &u32| !self.holds.contains_key(inode);
        let closing = self.closing.as_ref().is_some_and(|closing| !closing.frees.is_empty());
        closing
            || !self.open.frees.is_empty()
            || !self.freeable.is_empty()
            || !self.trims.is_empty()
            || self.orphans.iter().any(|(inode, one)| unused(inode) || !one.cleared)
    }

    /// Waits for space to become free.
    pub(super) fn reclaim<T>(&mut self) -> Result<T> {
        if self.is_stalled() {
            self.write_back();
            return Err(Errno::Io.into());
        }
        self.write_back();
        Self::wait(key::TIDY)
    }

    /// Does a few steps.
    pub(super) fn tidy(&mut self) {
        if self.read_only.is_some() || self.mounted().is_err() || self.is_stalled() {
            return;
        }
        if self.tidy_waits.is_some_and(|block| self.device.is_wanted(block)) {
            return;
        }
        self.tidy_waits = None;
        if self.orphans.len() > ORPHANS || self.open.frees.len() > FREES / 2 {
            self.write_back();
        }
        for _ in 0..STEPS {
            if self.relieve().is_err() {
                return;
            }
            let Some(job) = self.next_job() else { return };
            match self.step(&job) {
                Ok(()) => self.tidy_failed = 0,
                Err(Stop::Wait(key)) => {
                    self.tidy_waits = u32::try_from(key).ok();
                    return;
                }
                Err(Stop::Failed(_)) if self.tidy_failed < TRIES => {
                    self.tidy_failed += 1;
                    return;
                }
                Err(Stop::Failed(_)) => self.abandon(&job),
            }
            self.device.wake(key::TIDY);
        }
    }

    fn next_job(&self) -> Option<Job> {
        if !self.freeable.is_empty() {
            return Some(Job::Free);
        }
        let clear = |one: &Orphan| !one.cleared && one.since <= self.durable;
        if let Some((inode, _)) = self.orphans.iter().find(|(_, one)| clear(one)) {
            return Some(Job::Clear(*inode));
        }
        let waiting = self.open.frees.len() + self.closing.as_ref().map_or(0, |c| c.frees.len());
        if waiting > FREES {
            return None;
        }
        if let Some((inode, keep)) = self.trims.first_key_value() {
            return Some(Job::Trim(*inode, *keep));
        }
        let over = |inode: &u32, one: &Orphan| one.cleared && !self.holds.contains_key(inode);
        let dead = self.orphans.iter().find(|(inode, one)| over(inode, one));
        dead.map(|(inode, _)| Job::Drop(*inode))
    }

    fn step(&mut self, job: &Job) -> Result<()> {
        let time = self.death();
        match *job {
            Job::Free => self.attempt(Ext2::free_some),
            Job::Trim(inode, keep) => self.attempt(|fs| {
                let mut node = fs.inode(inode)?;
                if fs.trim_some(&mut node, keep)? {
                    fs.note(Note::Trimmed(inode));
                }
                fs.put_inode(inode, &node)?;
                fs.note(Note::Touched(inode));
                Ok(())
            }),
            Job::Clear(inode) => self.attempt(|fs| {
                let mut node = fs.inode(inode)?;
                (node.links, node.died) = (0, time);
                fs.put_inode(inode, &node)?;
                fs.note(Note::Cleared(inode));
                Ok(())
            }),
            Job::Drop(inode) => self.attempt(|fs| fs.drop_inode(inode)),
        }
    }

    fn abandon(&mut self, job: &Job) {
        match *job {
            Job::Free => {
                self.freeable.pop_first();
            }
            Job::Trim(inode, _) => {
                self.trims.remove(&inode);
            }
            Job::Clear(inode) | Job::Drop(inode) => {
                self.orphans.remove(&inode);
            }
        }
    }

    /// Frees the blocks of an inode that has no names and is not open, and then the inode.
    fn drop_inode(&mut self, inode: u32) -> Result<()> {
        let mut node = self.inode(inode)?;
        let done = !node.has_blocks() || self.trim_some(&mut node, 0)?;
        if done && node.attributes != 0 {
            self.drop_attributes(&mut node)?;
        }
        self.put_inode(inode, &node)?;
        if done {
            self.free_inode(inode, &node)?;
        }
        Ok(())
    }

    /// Removes one user of a block of extended attributes, which inodes may share.
    fn drop_attributes(&mut self, node: &mut super::inode::Inode) -> Result<()> {
        use super::layout::{get32, put32};
        let block = self.check(node.attributes)?;
        let users = get32(self.view(block)?, 4);
        if users > 1 {
            put32(self.edit(block, Class::Meta)?, 4, users - 1);
        } else {
            self.note(Note::Free(block));
        }
        node.attributes = 0;
        Ok(())
    }

    /// Frees a few blocks of one group in its bitmap.
    fn free_some(&mut self) -> Result<()> {
        let Some(&first) = self.freeable.first() else { return Ok(()) };
        let (group, _) = self.geometry.group_of(first).ok_or(Errno::Io)?;
        let map = self.groups.get(group as usize).ok_or(Errno::Io)?.block_map;
        let end = self.geometry.start(group).saturating_add(self.geometry.length(group));
        let some: alloc::vec::Vec<u32> =
            self.freeable.range(first..end).take(FREED).copied().collect();
        let (start, mut count) = (self.geometry.start(group), 0);
        let bits = self.edit(map, Class::Meta)?;
        for block in &some {
            let place = (block - start) as usize;
            if let Some(byte) = bits.get_mut(place / 8) {
                count += i32::from(*byte >> (place % 8) & 1);
                *byte &= !(1 << (place % 8));
            }
        }
        self.note(Note::Blocks(group, count));
        for block in some {
            self.note(Note::Freed(block));
        }
        Ok(())
    }

    /// Returns the deletion time in seconds. It must exceed the number of inodes, or e2fsck takes
    /// it for a link in its list of orphans.
    fn death(&self) -> u32 {
        let now = u32::try_from(self.now / 1_000_000_000).unwrap_or(u32::MAX);
        now.max(self.written).max(self.geometry.inodes).max(1)
    }
}
