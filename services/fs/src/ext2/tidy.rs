//! Work after requests, a little at a time: freeing the blocks of truncated files, and inodes
//! without names.
//!
//! ```text
//!   truncated, blocks left  --> in the list of orphans --trimmed--> out of it
//!   last name removed       --> in the list of orphans --closed, trimmed--> free, out of it
//! ```
//!
//! Contract: a step changes one inode, a few blocks, and the list of orphans on the device, which
//! is Linux's: the superblock has the newest one, and each orphan's deletion time is the next older
//! one. So the next mount, or e2fsck, finishes what a power cut interrupts ([`Ext2::next_orphan`]).
//! Work that fails because of the device stays in the list.

use super::cache::Class;
use super::device::key;
use super::draft::Note;
use super::inode::Inode;
use super::{Ext2, Result};
use crate::filesystem::Stop;
use abi::fs::Errno;

/// Maximum number of steps per call.
const STEPS: usize = 4;
/// How often a failing step is tried.
const TRIES: u32 = 16;
/// Maximum number of blocks freed in a generation before it closes; one operation frees about a
/// thousand.
pub const FREES: usize = 8192;

/// Maximum number of orphans that a mount accepts.
const LISTED: usize = 65_536;

enum Job {
    Trim(u32, u64),
    Drop(u32),
}

impl Ext2 {
    /// Returns whether space will become free without further requests.
    pub(super) fn reclaims(&self) -> bool {
        !self.open.frees.is_empty() || self.next_job().is_some()
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
        if let Some((inode, keep)) = self.trims.first_key_value() {
            return Some(Job::Trim(*inode, *keep));
        }
        let dead = self.orphans.iter().find(|inode| !self.holds.contains_key(inode));
        dead.map(|inode| Job::Drop(*inode))
    }

    fn step(&mut self, job: &Job) -> Result<()> {
        match *job {
            Job::Trim(inode, keep) => self.attempt(|fs| fs.trim_inode(inode, keep)),
            Job::Drop(inode) => self.attempt(|fs| fs.drop_inode(inode)),
        }
    }

    fn abandon(&mut self, job: &Job) {
        match *job {
            Job::Trim(inode, _) => {
                self.trims.remove(&inode);
            }
            Job::Drop(inode) => {
                self.orphans.remove(&inode);
            }
        }
    }

    /// Frees some blocks of a file from `keep` on.
    fn trim_inode(&mut self, inode: u32, keep: u64) -> Result<()> {
        let mut node = self.inode(inode)?;
        if !node.has_blocks() || self.trim_some(&mut node, keep)? {
            self.note(Note::Trimmed(inode));
            if !self.orphans.contains(&inode) {
                self.delist(inode, &node)?;
                node.died = 0;
            }
        }
        self.note(Note::Touched(inode));
        self.put_inode(inode, &node)
    }

    /// Frees the blocks of an inode that has no names and is not open, and then the inode.
    fn drop_inode(&mut self, inode: u32) -> Result<()> {
        let mut node = self.inode(inode)?;
        if node.has_blocks() && !self.trim_some(&mut node, 0)? {
            return self.put_inode(inode, &node);
        }
        if node.attributes != 0 {
            self.drop_attributes(&mut node)?;
        }
        self.delist(inode, &node)?;
        node.died = self.death();
        self.put_inode(inode, &node)?;
        self.free_inode(inode, &node)
    }

    /// Links an inode into the list of orphans. The caller writes it and notes why.
    pub(super) fn enlist(&self, inode: u32, node: &mut Inode) {
        if !self.chain.contains(&inode) {
            node.died = self.chain.last().copied().unwrap_or(0);
        }
    }

    /// Links the inode after this one in the list of orphans to the one before it.
    fn delist(&mut self, inode: u32, node: &Inode) -> Result<()> {
        let place = self.chain.iter().position(|one| *one == inode);
        if let Some(&newer) = place.and_then(|place| self.chain.get(place + 1)) {
            let mut other = self.inode(newer)?;
            other.died = node.died;
            self.put_inode(newer, &other)?;
        }
        Ok(())
    }

    /// Reads an entry of the device's list of orphans. Returns the next one, 0 at the end.
    pub(super) fn next_orphan(&mut self, inode: u32) -> Result<u32> {
        let node = self.peek(|fs| fs.inode(inode))?;
        let known = self.orphans.contains(&inode) || self.trims.contains_key(&inode);
        let reserved = inode < self.geometry.first_inode;
        if known || reserved || node.kind().is_err() || self.chain.len() >= LISTED {
            return Err(Errno::Io.into());
        }
        self.chain.push(inode);
        if node.links == 0 {
            self.orphans.insert(inode);
        } else {
            self.trims.insert(inode, node.size.div_ceil(self.geometry.block as u64));
        }
        Ok(node.died)
    }

    /// Removes one user of a block of extended attributes, which inodes may share.
    fn drop_attributes(&mut self, node: &mut Inode) -> Result<()> {
        use super::layout::{get32, put32};
        let block = self.check(node.attributes)?;
        let users = get32(self.view(block)?, 4);
        if users > 1 {
            put32(self.edit(block, Class::Meta)?, 4, users - 1);
        } else {
            self.give_back(block)?;
        }
        node.attributes = 0;
        Ok(())
    }

    /// Returns the deletion time in seconds. It must exceed the number of inodes, or e2fsck takes
    /// it for a link in its list of orphans.
    fn death(&self) -> u32 {
        let now = u32::try_from(self.now / 1_000_000_000).unwrap_or(u32::MAX);
        now.max(self.written).max(self.geometry.inodes).max(1)
    }
}
