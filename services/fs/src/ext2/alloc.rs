//! Allocation of blocks and inodes.
//!
//! Contract: an allocated block was free in the bitmap and is not part of the file system's tables.
//! It is as near to the goal as possible: the goal itself, another one of the group, or one of the
//! next group with a free one. A freed block stays in use in the bitmap until its generation
//! closes: no later one is written before that is committed, so nothing overwrites what a replay
//! could still refer to. A file gets its inode in the group of its directory, and so does a
//! directory, except that those in the root go to the group with the most free blocks.

use super::cache::Class;
use super::draft::Note;
use super::inode::Inode;
use super::{Ext2, Result};
use abi::fs::Errno;
use alloc::collections::BTreeSet;

impl Ext2 {
    /// Checks that a pointer leads to a block outside the tables and the journal; otherwise it is
    /// corrupt.
    pub(super) fn check(&self, block: u32) -> Result<u32> {
        let (group, place) = self.geometry.group_of(block).ok_or(Errno::Io)?;
        let tables = self.groups.get(group as usize).ok_or(Errno::Io)?;
        let super_block = group == 0 && place <= self.geometry.descriptors;
        let in_journal = self.journal.as_ref().is_some_and(|journal| journal.owns(block));
        if super_block || in_journal || tables.owns(block, &self.geometry) {
            return Err(Errno::Io.into());
        }
        Ok(block)
    }

    /// Allocates a block, `goal` if it is free.
    pub(super) fn take_block(&mut self, goal: u32) -> Result<u32> {
        let (first, place) = self.geometry.group_of(goal).unwrap_or_default();
        let count = self.geometry.groups;
        for step in 0..count {
            let group = (first + step) % count;
            if self.groups.get(group as usize).is_none_or(|one| one.free_blocks == 0) {
                continue;
            }
            let from = if step == 0 { place } else { 0 };
            if let Some(block) = self.take_block_in(group, from)? {
                return self.check(block);
            }
        }
        Err(Errno::Nospc.into())
    }

    fn take_block_in(&mut self, group: u32, from: u32) -> Result<Option<u32>> {
        let Some(tables) = self.groups.get(group as usize) else { return Ok(None) };
        let (map, length) = (tables.block_map, self.geometry.length(group));
        let found = find(self.view(map)?, from, length);
        let Some(place) = found else { return Ok(None) };
        set(self.edit(map, Class::Meta)?, place);
        self.note(Note::Blocks(group, -1));
        Ok(Some(self.geometry.start(group) + place))
    }

    /// Frees a block when the generation closes. Its bitmap is dirty from now on.
    pub(super) fn give_back(&mut self, block: u32) -> Result<()> {
        let (group, _) = self.geometry.group_of(block).ok_or(Errno::Io)?;
        let map = self.groups.get(group as usize).ok_or(Errno::Io)?.block_map;
        self.edit(map, Class::Meta)?;
        self.note(Note::Free(block));
        Ok(())
    }

    /// Frees blocks in the bitmaps, which are dirty, and in the counts.
    pub(super) fn free_blocks_of(&mut self, freed: &BTreeSet<u32>) {
        for block in freed {
            let Some((group, place)) = self.geometry.group_of(*block) else { continue };
            let Some(one) = self.groups.get(group as usize) else { continue };
            let Some(bits) = self.cache.dirtied(one.block_map) else { continue };
            let Some(byte) = bits.get_mut(place as usize / 8) else { continue };
            let was = *byte >> (place % 8) & 1;
            *byte &= !(1 << (place % 8));
            self.count_blocks(group, was.into());
        }
    }

    /// Allocates an inode for a file in `parent`.
    pub(super) fn take_inode(&mut self, parent: u32, directory: bool) -> Result<u32> {
        let home = (parent.saturating_sub(1)) / self.geometry.inodes_per_group;
        let first = if directory && parent == super::layout::ROOT { self.emptiest() } else { home };
        let count = self.geometry.groups;
        for step in 0..count {
            let group = (first + step) % count;
            let Some(tables) = self.groups.get(group as usize).copied() else { continue };
            if tables.free_inodes == 0 {
                continue;
            }
            let length = self.geometry.inodes_per_group;
            let Some(place) = find(self.view(tables.inode_map)?, 0, length) else { continue };
            let inode = group * length + place + 1;
            if inode < self.geometry.first_inode {
                return Err(Errno::Io.into());
            }
            set(self.edit(tables.inode_map, Class::Meta)?, place);
            self.note(Note::Inodes(group, -1));
            if directory {
                self.note(Note::Directories(group, 1));
            }
            return Ok(inode);
        }
        Err(Errno::Nospc.into())
    }

    fn emptiest(&self) -> u32 {
        let all = (0..).zip(&self.groups).filter(|(_, one)| one.free_inodes != 0);
        all.max_by_key(|(at, one)| (one.free_blocks, u32::MAX - at)).map_or(0, |(at, _)| at)
    }

    /// Frees an inode.
    pub(super) fn free_inode(&mut self, inode: u32, node: &Inode) -> Result<()> {
        let per = self.geometry.inodes_per_group;
        let (group, place) = ((inode - 1) / per, (inode - 1) % per);
        let map = self.groups.get(group as usize).ok_or(Errno::Io)?.inode_map;
        let byte = self.edit(map, Class::Meta)?.get_mut(place as usize / 8).ok_or(Errno::Io)?;
        let taken = *byte >> (place % 8) & 1;
        *byte &= !(1 << (place % 8));
        self.note(Note::Inodes(group, taken.into()));
        if node.is_directory() {
            self.note(Note::Directories(group, -1));
        }
        self.note(Note::Gone(inode));
        Ok(())
    }

    /// Returns a goal for the first block of an inode: the start of its group.
    pub(super) fn goal(&self, inode: u32) -> u32 {
        self.geometry.start((inode.saturating_sub(1)) / self.geometry.inodes_per_group)
    }

    pub(super) fn count_blocks(&mut self, group: u32, by: i32) {
        if let Some(one) = self.groups.get_mut(group as usize) {
            one.free_blocks = one.free_blocks.saturating_add_signed(by);
            self.free_blocks = self.free_blocks.saturating_add_signed(by);
        }
        self.count_changed(group);
    }

    pub(super) fn count_inodes(&mut self, group: u32, by: i32) {
        if let Some(one) = self.groups.get_mut(group as usize) {
            one.free_inodes = one.free_inodes.saturating_add_signed(by);
            self.free_inodes = self.free_inodes.saturating_add_signed(by);
        }
        self.count_changed(group);
    }

    pub(super) fn count_directories(&mut self, group: u32, by: i32) {
        if let Some(one) = self.groups.get_mut(group as usize) {
            one.directories = one.directories.saturating_add_signed(by);
        }
        self.count_changed(group);
    }

    fn count_changed(&mut self, group: u32) {
        let table = group as usize * super::layout::DESCRIPTOR / self.geometry.block;
        self.tables_changed.insert(table as u32);
    }
}

/// Finds a free bit: `from` itself, else the first byte of free bits after it, else any.
fn find(bits: &[u8], from: u32, length: u32) -> Option<u32> {
    let is_free = |at: u32| bits.get(at as usize / 8).is_some_and(|b| b >> (at % 8) & 1 == 0);
    if from < length && is_free(from) {
        return Some(from);
    }
    let whole = (from / 8 + 1..length / 8).find(|at| bits.get(*at as usize) == Some(&0));
    if let Some(byte) = whole {
        return Some(byte * 8);
    }
    let first = (0..length.div_ceil(8)).filter(|at| bits.get(*at as usize) != Some(&0xff));
    first.flat_map(|byte| byte * 8..(byte * 8 + 8).min(length)).find(|at| is_free(*at))
}

fn set(bits: &mut [u8], place: u32) {
    if let Some(byte) = bits.get_mut(place as usize / 8) {
        *byte |= 1 << (place % 8);
    }
}
