//! One operation, from its first look to its one change.
//!
//! ```text
//!   begin -> look at blocks, draft changes -> commit: all of it is in the cache, dirty
//!                 |
//!                 +-- a block is missing, or it failed: the draft is dropped, nothing changed
//! ```
//!
//! Contract: nothing outside of the draft changes before the commit, and the commit cannot fail.
//! So whatever is answered with an error or a wait has changed nothing, and no generation that is
//! written holds half an operation.
//!
//! **Progress.** An operation is bounded: it looks at fewer blocks than an eighth of the cache
//! has. The first one that misses is the *champion*: what it looked at and what it waits for stays
//! in the cache until an operation that looked at all of that has succeeded, or nobody asked for
//! it again for [`PATIENCE`] operations. Each time it is asked again it finds all of that and gets
//! further, so it ends; then the next one is the champion.

use super::cache::Class;
use super::{Ext2, Result};
use crate::filesystem::Stop;
use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// Operations for which the champion's blocks are kept when it does not come back.
const PATIENCE: u32 = 512;

/// What an operation changes beside blocks. It happens with the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Free blocks of a group.
    Blocks(u32, i32),
    /// Free inodes of a group.
    Inodes(u32, i32),
    /// Directories of a group.
    Directories(u32, i32),
    /// Nothing points to this block any more.
    Free(u32),
    /// These are free in the bitmap, too.
    Freed(u32),
    /// This inode, or a name of it, is not on the device as it is.
    Touched(u32),
    /// A name that something else may rely on came into this block.
    Added(u32),
    /// A name of something that goes on to exist left this block, a directory's.
    Removed(u32, u32),
    /// A directory went from one directory to another.
    Moved,
    /// It lost its last name.
    Orphan(u32),
    /// Its inode says so.
    Cleared(u32),
    /// It is no more.
    Gone(u32),
    /// Blocks from this one on still have to be taken from the file.
    Trim(u32, u64),
    /// That is done.
    Trimmed(u32),
    /// A directory has a name: its hash, its place.
    Named(u32, u32, u32),
    /// It has it no more.
    Unnamed(u32, u32, u32),
    /// The longest gap in a directory's block.
    Room(u32, u32, u16),
    /// A file of more than 2 GiB.
    Large,
}

#[derive(Debug)]
struct Page {
    block: u32,
    data: Box<[u8]>,
    class: Class,
}

/// Where `key` is in what is sorted by it, or where it belongs; most comes at the end.
fn find<T>(sorted: &[T], key: u32, of: impl Fn(&T) -> u32) -> core::result::Result<usize, usize> {
    match sorted.last().map(&of) {
        Some(last) if last == key => Ok(sorted.len() - 1),
        Some(last) if last > key => sorted.binary_search_by_key(&key, of),
        _ => Err(sorted.len()),
    }
}

/// In `spare` if that has the size.
fn copied(bytes: &[u8], spare: Option<Box<[u8]>>) -> Box<[u8]> {
    match spare {
        Some(mut data) if data.len() == bytes.len() => {
            data.copy_from_slice(bytes);
            data
        }
        _ => bytes.into(),
    }
}

/// What an operation would change, and what it looked at.
#[derive(Debug, Default)]
pub struct Draft {
    /// By block.
    pages: Vec<Page>,
    pub notes: Vec<Note>,
    /// Sorted.
    looked: Vec<u32>,
    missed: bool,
}

impl Draft {
    /// Blocks that would change.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    fn find(&self, block: u32) -> core::result::Result<usize, usize> {
        find(&self.pages, block, |page| page.block)
    }

    /// What a block is to hold.
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

    /// Has it looked at all of these?
    fn covers(&self, blocks: &BTreeSet<u32>) -> bool {
        blocks.iter().all(|block| self.looked.binary_search(block).is_ok())
    }
}

/// The operation whose blocks stay.
#[derive(Debug, Default)]
pub struct Champion {
    patience: u32,
}

impl Ext2 {
    /// What is in a block, as this operation left it.
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

    /// Asks for a block that will be needed. False: it is not here yet.
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

    /// A block, to change it.
    pub(super) fn edit(&mut self, block: u32, class: Class) -> Result<&mut [u8]> {
        if let Ok(at) = self.draft.find(block) {
            return Ok(&mut self.draft.pages[at].data);
        }
        let spare = self.cache.spare();
        let data = copied(self.view(block)?, spare);
        Ok(self.draft.put(Page { block, data, class }))
    }

    /// A block of zeros, whatever was in it.
    pub(super) fn fresh(&mut self, block: u32) -> &mut [u8] {
        let data = vec![0; self.geometry.block].into_boxed_slice();
        self.draft.put(Page { block, data, class: Class::First })
    }

    /// A block of these bytes, whatever was in it.
    pub(super) fn overwrite(&mut self, block: u32, bytes: &[u8]) {
        let data = copied(bytes, self.cache.spare());
        self.draft.put(Page { block, data, class: Class::First });
    }

    /// What was looked at so far has been learnt, and is not needed again.
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

    /// Looks, and changes nothing.
    pub(super) fn look<T>(&mut self, what: impl FnOnce(&mut Ext2) -> Result<T>) -> Result<T> {
        self.mounted()?;
        self.draft = Draft::default();
        let result = what(self);
        self.champion(&result);
        self.draft = Draft::default();
        result
    }

    /// Changes everything or nothing. When space is short and there is some that will be free, it
    /// waits for that.
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

    /// The same whatever the pressure.
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
