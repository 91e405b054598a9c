//! Block pointers: twelve direct ones in the inode, and trees of one to three levels.
//!
//! Contract: a pointer is checked before it is followed. The depth of a tree depends only on the
//! block's index in the file. A hole has no block. A block of a file is freed when its pointer is
//! cleared ([`super::alloc`]).

use super::cache::Class;
use super::file::DRAFTED;
use super::inode::Inode;
use super::layout::{get32, put32};
use super::{Ext2, Result};
use abi::fs::Errno;

/// The path to a block: which pointer of the inode, and which one in each block of pointers.
struct Way {
    slot: usize,
    steps: [u64; 3],
    levels: usize,
}

impl Ext2 {
    fn way(&self, place: u64) -> Result<Way> {
        let fan = self.geometry.fan();
        if place < 12 {
            return Ok(Way { slot: place as usize, steps: [0; 3], levels: 0 });
        }
        let (mut rest, mut reach) = (place - 12, fan);
        for levels in 1..=3 {
            if rest < reach {
                let mut steps = [0; 3];
                for step in steps[..levels].iter_mut().rev() {
                    (*step, rest) = (rest % fan, rest / fan);
                }
                return Ok(Way { slot: 11 + levels, steps, levels });
            }
            rest -= reach;
            reach *= fan;
        }
        Err(Errno::Fbig.into())
    }

    fn pointer(&mut self, block: u32, step: u64) -> Result<u32> {
        Ok(get32(self.view(block)?, step as usize * 4))
    }

    /// Returns the block at an index of a file; `None` for a hole.
    pub(super) fn map(&mut self, node: &Inode, place: u64) -> Result<Option<u32>> {
        let way = self.way(place)?;
        let mut block = node.pointers[way.slot];
        for step in &way.steps[..way.levels] {
            if block == 0 {
                return Ok(None);
            }
            block = self.pointer(self.check(block)?, *step)?;
        }
        if block == 0 { Ok(None) } else { self.check(block).map(Some) }
    }

    /// Does the same, but allocates a block for a hole. Returns true if it did: the caller must
    /// then set its contents. The caller writes the inode.
    pub(super) fn ensure(
        &mut self,
        node: &mut Inode,
        place: u64,
        goal: u32,
    ) -> Result<(u32, bool)> {
        let way = self.way(place)?;
        let mut block = node.pointers[way.slot];
        let mut new = block == 0;
        if new {
            block = self.grow(node, goal)?;
            node.pointers[way.slot] = block;
        }
        for step in &way.steps[..way.levels] {
            let above = self.check(block)?;
            if new {
                self.fresh(above, Class::Meta);
            }
            block = self.pointer(above, *step)?;
            new = block == 0;
            if new {
                block = self.grow(node, goal.max(above + 1))?;
                put32(self.edit(above, Class::Meta)?, *step as usize * 4, block);
            }
        }
        // A new block was checked when it was allocated.
        Ok((if new { block } else { self.check(block)? }, new))
    }

    /// Allocates a block for a file.
    fn grow(&mut self, node: &mut Inode, goal: u32) -> Result<u32> {
        let block = self.take_block(goal)?;
        let sectors = self.geometry.block as u32 / 512;
        node.sectors = node.sectors.checked_add(sectors).ok_or(Errno::Fbig)?;
        Ok(block)
    }

    /// Frees blocks at the end of a file, down to block `keep`: those in the last block of
    /// pointers, or the direct ones. Returns true if there are no more. The caller writes the
    /// inode.
    pub(super) fn trim_some(&mut self, node: &mut Inode, keep: u64) -> Result<bool> {
        let fan = self.geometry.fan();
        let bases = [0, 12, 12 + fan, 12 + fan + fan * fan];
        for levels in (1..=3).rev() {
            let slot = 11 + levels;
            let root = node.pointers[slot];
            if root == 0 {
                continue;
            }
            let from = keep.saturating_sub(bases[levels]);
            if from >= fan.pow(levels as u32) {
                return Ok(true);
            }
            let more = match self.check(root) {
                Ok(root) => self.trim_tree(node, root, levels as u32, from)?,
                // An invalid pointer: there is nothing to free.
                Err(_) => None,
            };
            if more.is_none() {
                self.release_block(node, root)?;
                node.pointers[slot] = 0;
            }
            // The tree is done if its last block of pointers keeps some. Otherwise the next call
            // continues.
            return Ok(more == Some(true));
        }
        for place in (keep.min(12) as usize..12).rev() {
            let block = core::mem::take(&mut node.pointers[place]);
            if block != 0 {
                self.release_block(node, block)?;
            }
        }
        Ok(true)
    }

    /// Clears the last pointers of a tree, at most one block of them. Returns `None` if the tree is
    /// empty, true if what is left must be kept, false if there is more to free.
    fn trim_tree(
        &mut self,
        node: &mut Inode,
        block: u32,
        levels: u32,
        from: u64,
    ) -> Result<Option<bool>> {
        let fan = self.geometry.fan();
        let reach = fan.pow(levels - 1);
        let (first, rest) = (from / reach, from % reach);
        if levels == 1 {
            for step in (first..fan).rev() {
                // With sound pointers it changes few bitmaps.
                if self.draft.len() >= DRAFTED {
                    return Ok(Some(false));
                }
                let pointer = self.pointer(block, step)?;
                if pointer != 0 {
                    self.release_block(node, pointer)?;
                    put32(self.edit(block, Class::Meta)?, step as usize * 4, 0);
                }
            }
            return Ok(if self.last_pointer(block)?.is_none() { None } else { Some(true) });
        }
        let Some(last) = self.last_pointer(block)? else { return Ok(None) };
        if last < first {
            return Ok(Some(true));
        }
        let below = self.pointer(block, last)?;
        let inner = if last == first { rest } else { 0 };
        let left = match self.check(below) {
            Ok(below) => self.trim_tree(node, below, levels - 1, inner)?,
            Err(_) => None,
        };
        if left.is_none() {
            self.release_block(node, below)?;
            put32(self.edit(block, Class::Meta)?, last as usize * 4, 0);
            return Ok(if self.last_pointer(block)?.is_none() { None } else { Some(false) });
        }
        Ok(left)
    }

    fn last_pointer(&mut self, block: u32) -> Result<Option<u64>> {
        let bytes = self.view(block)?;
        let last = bytes.chunks_exact(4).rposition(|pointer| pointer != [0; 4]);
        Ok(last.map(|last| last as u64))
    }

    /// Frees a block of this file.
    fn release_block(&mut self, node: &mut Inode, block: u32) -> Result<()> {
        if self.check(block).is_ok() {
            node.sectors = node.sectors.saturating_sub(self.geometry.block as u32 / 512);
            self.give_back(block)?;
        }
        Ok(())
    }
}
