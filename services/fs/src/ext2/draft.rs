//! One operation: it looks at blocks, collects its changes, and applies all of them at once.
//!
//! ```text
//!   begin -> look at blocks, draft changes -> commit: all changes are in the cache, dirty
//!                 |
//!                 +-- a block is missing, or it failed: the draft is dropped, nothing changed
//! ```
//!
//! Contract: nothing outside of the draft changes before the commit, and the commit cannot fail. So
//! a call that returns an error or a wait has changed nothing, and no generation holds half an
//! operation.
//!
//! **Progress.** An operation is bounded: it looks at fewer blocks than an eighth of the cache. The
//! first one that misses a block becomes the *champion*: the blocks that it looked at and waits for
//! are pinned until an operation that looked at all of them has finished, or until [`PATIENCE`]
//! operations have passed without it. Each time it is repeated it finds those blocks and gets
//! further, so it finishes; then the next one becomes the champion.

use super::cache::Class;
use super::{Ext2, Result};
use crate::filesystem::Stop;
use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// Number of operations for which the champion's blocks stay pinned without being used.
const PATIENCE: u32 = 512;

/// A change outside of blocks that an operation makes. It is applied at the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Change of the free blocks of a group.
    Blocks(u32, i32),
    /// Change of the free inodes of a group.
    Inodes(u32, i32),
    /// Change of the directories of a group.
    Directories(u32, i32),
    /// No pointer refers to this block any more.
    Free(u32),
    /// This inode, or one of its names, has changed.
    Touched(u32),
    /// This inode lost its last name.
    Orphan(u32),
    /// This inode is free.
    Gone(u32),
    /// This file's blocks from this one on are still to be freed.
    Trim(u32, u64),
    /// All of them have been freed.
    Trimmed(u32),
    /// A name was added to a directory: its hash, its offset.
    Named(u32, u32, u32),
    /// A name was removed from a directory.
    Unnamed(u32, u32, u32),
    /// The largest unused space in this block of this directory.
    Room(u32, u32, u16),
    /// There is a file of more than 2 GiB.
    Large,
}

#[derive(Debug)]
struct Page {
    block: u32,
    data: Box<[u8]>,
    class: Class,
}

/// Finds `key` in a sorted slice, or the index where it belongs; most keys belong at the end.
fn find<T>(sorted: &[T], key: u32, of: impl Fn(&T) -> u32) -> core::result::Result<usize, usize> {
    match sorted.last().map(&of) {
        Some(last) if last == key => Ok(sorted.len() - 1),
        Some(last) if last > key => sorted.binary_search_by_key(&key, of),
        _ => Err(sorted.len()),
    }
}

/// Copies `bytes`, into `spare` if it has the right size.
fn copied(bytes: &[u8], spare: Option<Box<[u8]>>) -> Box<[u8]> {
    match spare {
        Some(mut data) if data.len() == bytes.len() => {
            data.copy_from_slice(bytes);
            data
        }
        _ => bytes.into(),
    }
}

/// The changes of an operation, and the blocks it looked at.
#[derive(Debug, Default)]
pub struct Draft {
    /// Sorted by block.
    pages: Vec<Page>,
    pub notes: Vec<Note>,
    looked: Vec<u32>,
    missed: bool,
}

impl Draft {
    /// Returns the number of blocks that would change.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    fn find(&self, block: u32) -> core::result::Result<usize, usize> {
        find(&self.pages, block, |page| page.block)
    }

    /// Sets the contents of a block.
    fn put(&mut self, page: Page) -> &mut [u8] {
        let at = self.find(page.block);
        let (Ok(place) | Err(place)) = at;
        match at {
            Ok(place) => self.pages[place] = page,
            Err(place) => self.pages.insert(place, page),
        }
        &mut self.pages[place].data
    }

    fn looks_at(&mut self, block: u32) {
        if let Err(place) = find(&self.looked, block, |looked| *looked) {
            self.looked.insert(place, block);
        }
    }

    /// Returns whether the operation has looked at all of these.
    fn covers(&self, blocks: &BTreeSet<u32>) -> bool {
        blocks.iter().all(|block| self.looked.binary_search(block).is_ok())
    }
}

/// The operation whose blocks are pinned.
#[derive(Debug, Default)]
pub struct Champion {
    patience: u32,
}

impl Ext2 {
    /// Returns the contents of a block, with the changes of this operation.
    pub(super) fn view(&mut self, block: u32) -> Result<&[u8]> {
        if let Ok(at) = self.draft.find(block) {
            return Ok(&self.draft.pages[at].data);
        }
        self.draft.looks_at(block);
        if let Some(data) = self.cache.get(block) {
            return Ok(data);
        }
        if self.device.bad.remove(&block) {
            return Err(Errno::Io.into());
        }
        self.draft.missed = true;
        Err(Stop::Wait(self.device.want(block)))
    }

    /// Asks for a block that will be needed. Returns whether it is in the cache.
    pub(super) fn prefetch(&mut self, block: u32) -> bool {
        if self.draft.find(block).is_ok() || self.cache.has(block) {
            return true;
        }
        if self.draft.looked.len() < self.cache.most() / 8 {
            self.draft.looks_at(block);
        }
        self.device.want(block);
        false
    }

    /// Returns a block to change.
    pub(super) fn edit(&mut self, block: u32, class: Class) -> Result<&mut [u8]> {
        if let Ok(at) = self.draft.find(block) {
            return Ok(&mut self.draft.pages[at].data);
        }
        let spare = self.cache.spare();
        let data = copied(self.view(block)?, spare);
        Ok(self.draft.put(Page { block, data, class }))
    }

    /// Returns a block of zeros, whatever was in it.
    pub(super) fn fresh(&mut self, block: u32, class: Class) -> &mut [u8] {
        let data = vec![0; self.geometry.block].into_boxed_slice();
        self.draft.put(Page { block, data, class })
    }

    /// Replaces the contents of a file's block.
    pub(super) fn overwrite(&mut self, block: u32, bytes: &[u8]) {
        let data = copied(bytes, self.cache.spare());
        self.draft.put(Page { block, data, class: Class::Data });
    }

    /// The blocks that were looked at so far are not needed again.
    pub(super) fn draft_forget(&mut self) {
        if self.draft.covers(self.cache.pinned()) {
            self.cache.pin(BTreeSet::new());
        }
        self.draft.looked.clear();
    }

    pub(super) fn note(&mut self, note: Note) {
        if let (Note::Blocks(group, by), Some(Note::Blocks(last, sum))) =
            (note, self.draft.notes.last_mut())
            && *last == group
        {
            *sum += by;
            return;
        }
        self.draft.notes.push(note);
    }

    /// Runs an operation that changes nothing.
    pub(super) fn look<T>(&mut self, what: impl FnOnce(&mut Ext2) -> Result<T>) -> Result<T> {
        self.mounted()?;
        self.peek(what)
    }

    /// Does the same before it is mounted.
    pub(super) fn peek<T>(&mut self, what: impl FnOnce(&mut Ext2) -> Result<T>) -> Result<T> {
        self.draft = Draft::default();
        let result = what(self);
        self.champion(&result);
        self.draft = Draft::default();
        result
    }

    /// Runs an operation that changes everything or nothing. If it finds no space, but some will be
    /// freed, it waits for that.
    pub(super) fn change<T>(&mut self, what: impl FnOnce(&mut Ext2) -> Result<T>) -> Result<T> {
        self.mounted()?;
        if self.read_only.is_some() {
            return Err(Errno::Rofs.into());
        }
        self.relieve()?;
        match self.attempt(what) {
            Err(Stop::Failed(Errno::Nospc)) if self.reclaims() => self.reclaim(),
            result => result,
        }
    }

    /// Does the same without checking how much is dirty.
    pub(super) fn attempt<T>(&mut self, what: impl FnOnce(&mut Ext2) -> Result<T>) -> Result<T> {
        self.draft = Draft::default();
        let result = what(self);
        self.champion(&result);
        let draft = core::mem::take(&mut self.draft);
        if result.is_ok() {
            self.commit(draft);
        }
        result
    }

    fn commit(&mut self, draft: Draft) {
        for Page { block, data, class } in draft.pages {
            self.device.overtake(block);
            self.cache.store(block, data, class);
        }
        for note in draft.notes {
            self.apply(note);
        }
    }

    fn champion<T>(&mut self, result: &Result<T>) {
        let looked = &self.draft.looked;
        let same = self.draft.covers(self.cache.pinned());
        let idle = self.cache.pinned().is_empty();
        if self.draft.missed && (idle || same) {
            if looked.len() <= self.cache.most() / 4 {
                self.cache.pin(looked.iter().copied().collect());
            }
            self.champion.patience = PATIENCE;
        } else if !idle {
            self.champion.patience = self.champion.patience.saturating_sub(1);
            if same && !matches!(result, Err(Stop::Wait(_))) || self.champion.patience == 0 {
                self.cache.pin(BTreeSet::new());
            }
        }
    }
}
