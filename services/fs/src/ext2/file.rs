//! The contents of files.
//!
//! Contract: a step moves at most [`STEP`] bytes, and fewer if space runs out; a failed step
//! changes nothing. After the end of a file its last block may hold anything, and no further blocks
//! exist, except while a trim is pending; until that is done the file cannot grow.

use super::cache::Class;
use super::draft::Note;
use super::inode::Inode;
use super::{Ext2, Result};
use crate::filesystem::{Kind, Node, Stop};
use abi::fs::{Errno, STEP};
use alloc::vec::Vec;

/// Maximum number of blocks that an operation drafts; then it returns a short count.
pub const DRAFTED: usize = 128;
/// Blocks read ahead after a random read.
const AHEAD: u64 = 16;
/// Blocks read ahead after a sequential read.
const FAR_AHEAD: u64 = 96;
/// Files of this size require the feature for large files.
const LARGE: u64 = 1 << 31;

impl Ext2 {
    /// Returns the inode of a file.
    fn file(&mut self, node: Node) -> Result<(u32, Inode)> {
        let (inode, file) = self.known(node)?;
        match file.kind()? {
            Kind::File => Ok((inode, file)),
            Kind::Directory => Err(Errno::Isdir.into()),
            Kind::Link | Kind::Character => Err(Errno::Inval.into()),
        }
    }

    /// Returns the block of an offset, the offset in it, and how much of `length` is in that block.
    fn piece(&self, offset: u64, length: usize) -> (u64, usize, usize) {
        let block = self.geometry.block as u64;
        let at = (offset % block) as usize;
        (offset / block, at, length.min(self.geometry.block - at))
    }

    pub(super) fn read_file(&mut self, node: Node, offset: u64, into: &mut [u8]) -> Result<usize> {
        let (_, file) = self.file(node)?;
        let there = usize::try_from(file.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = into.len().min(there).min(STEP);
        if length == 0 {
            return Ok(0);
        }
        self.fetch(&file, offset, length)?;
        let mut done = 0;
        while done < length {
            let (place, at, part) = self.piece(offset + done as u64, length - done);
            let piece = into.get_mut(done..done + part).ok_or(Errno::Io)?;
            match self.map(&file, place)? {
                Some(block) => {
                    let data = self.view(block)?;
                    piece.copy_from_slice(data.get(at..at + part).ok_or(Errno::Io)?);
                }
                None => piece.fill(0),
            }
            done += part;
        }
        Ok(length)
    }

    /// Asks for all blocks of a range, and for some after it.
    fn fetch(&mut self, file: &Inode, offset: u64, length: usize) -> Result<()> {
        let block = self.geometry.block as u64;
        let (first, end) = (offset / block, (offset + length as u64).div_ceil(block));
        let mut missing = None;
        for place in first..end {
            if let Some(block) = self.map(file, place)?
                && !self.prefetch(block)
            {
                missing = Some(block);
            }
        }
        let Some(missing) = missing else { return Ok(()) };
        let last = self.fetch_ahead(file, first, end);
        // Also reports a read error of that block.
        match self.view(missing) {
            // Waits for the whole run: the pages that the caller's kernel and the disk's kernel
            // share would otherwise move back and forth for each block.
            Err(Stop::Wait(_)) if let Some(last) = last => Err(Stop::Wait(last.into())),
            seen => seen.map(|_| ()),
        }
    }

    /// Asks for blocks after a range. Returns the last one that is being read.
    fn fetch_ahead(&mut self, file: &Inode, first: u64, end: u64) -> Option<u32> {
        let before = first.checked_sub(1).and_then(|place| self.map(file, place).ok()?);
        let is_sequential = before.is_some_and(|block| self.cache.has(block));
        let ahead = if is_sequential { FAR_AHEAD } else { AHEAD };
        let mut last = None;
        for place in end..(end + ahead).min(file.size.div_ceil(self.geometry.block as u64)) {
            if let Ok(Some(block)) = self.map(file, place)
                && !self.prefetch(block)
                && self.device.is_wanted(block)
            {
                last = Some(block);
            }
        }
        last
    }

    pub(super) fn write_file(
        &mut self,
        node: Node,
        offset: u64,
        from: &[u8],
        now: u64,
    ) -> Result<usize> {
        let (inode, mut file) = self.file(node)?;
        if from.is_empty() {
            return Ok(0);
        }
        let room = self.geometry.largest().saturating_sub(offset);
        let length = from.len().min(STEP).min(usize::try_from(room).unwrap_or(usize::MAX));
        if length == 0 {
            return Err(Errno::Fbig.into());
        }
        self.make_ready_to_grow(inode, &file, offset, offset + length as u64)?;
        self.fetch_ends(&file, offset, length)?;
        let mut goal = self.next_goal(inode, &file, offset / self.geometry.block as u64)?;
        let mut done = 0;
        while done < length && self.draft.len() < DRAFTED {
            let (place, at, part) = self.piece(offset + done as u64, length - done);
            let piece = from.get(done..done + part).ok_or(Errno::Io)?;
            match self.write_block(&mut file, place, goal, at, piece) {
                Ok(block) => (done, goal) = (done + part, block.saturating_add(1)),
                Err(Stop::Failed(Errno::Nospc)) if done != 0 => break,
                Err(stop) => return Err(stop),
            }
        }
        self.written_to(inode, file, offset + done as u64, now)?;
        Ok(done)
    }

    /// Updates the inode of a file that changed up to `end`.
    fn written_to(&mut self, inode: u32, mut file: Inode, end: u64, now: u64) -> Result<()> {
        file.size = file.size.max(end);
        if file.size >= LARGE {
            self.note(Note::Large);
        }
        file.touch(now);
        self.note(Note::Touched(inode));
        self.put_inode(inode, &file)
    }

    /// Loads the first and the last block of a range if they are not overwritten completely.
    fn fetch_ends(&mut self, file: &Inode, offset: u64, length: usize) -> Result<()> {
        let (end, mut missing) = (offset + length as u64, None);
        let block = self.geometry.block as u64;
        for (place, whole) in [
            (offset / block, offset.is_multiple_of(block)),
            (end / block, end.is_multiple_of(block)),
        ] {
            if !whole
                && let Some(block) = self.map(file, place)?
                && !self.prefetch(block)
            {
                missing = Some(block);
            }
        }
        missing.map_or(Ok(()), |missing| self.view(missing).map(|_| ()))
    }

    /// Returns the best location for a block of a file: after the block before it.
    fn next_goal(&mut self, inode: u32, file: &Inode, place: u64) -> Result<u32> {
        let before = if place == 0 { None } else { self.map(file, place - 1)? };
        Ok(before.map_or(self.goal(inode), |before| before.saturating_add(1)))
    }

    /// Writes to one block of a file. A new one is placed at `goal` if that is free. Returns the
    /// block.
    fn write_block(
        &mut self,
        file: &mut Inode,
        place: u64,
        goal: u32,
        at: usize,
        piece: &[u8],
    ) -> Result<u32> {
        let (block, new) = self.ensure(file, place, goal)?;
        if piece.len() == self.geometry.block {
            self.overwrite(block, piece);
            return Ok(block);
        }
        let data =
            if new { self.fresh(block, Class::Data) } else { self.edit(block, Class::Data)? };
        data.get_mut(at..at + piece.len()).ok_or(Errno::Io)?.copy_from_slice(piece);
        Ok(block)
    }

    /// Prepares a write that ends after the end of a file: waits until the blocks after it are
    /// freed, and clears the rest of the last block, unless the write replaces all of that.
    fn make_ready_to_grow(
        &mut self,
        inode: u32,
        file: &Inode,
        offset: u64,
        end: u64,
    ) -> Result<()> {
        if end <= file.size {
            return Ok(());
        }
        if self.trims.contains_key(&inode) {
            return self.reclaim();
        }
        let block = self.geometry.block as u64;
        let (place, at) = (file.size / block, (file.size % block) as usize);
        let replaced = offset <= place * block && end >= (place + 1) * block;
        if at != 0
            && !replaced
            && let Some(last) = self.map(file, place)?
        {
            self.edit(last, Class::Data)?.get_mut(at..).ok_or(Errno::Io)?.fill(0);
        }
        Ok(())
    }

    pub(super) fn resize(&mut self, node: Node, size: u64, now: u64) -> Result<()> {
        let (inode, mut file) = self.file(node)?;
        if size > self.geometry.largest() {
            return Err(Errno::Fbig.into());
        }
        let block = self.geometry.block as u64;
        self.make_ready_to_grow(inode, &file, size, size)?;
        if size < file.size {
            let keep = size.div_ceil(block);
            if !self.trim_some(&mut file, keep)? {
                self.enlist(inode, &mut file);
                self.note(Note::Trim(inode, keep));
            }
        }
        file.size = size;
        self.written_to(inode, file, size, now)
    }

    /// Fills holes with blocks of zeros. Returns how many bytes of the range are reserved.
    pub(super) fn reserve(
        &mut self,
        node: Node,
        offset: u64,
        length: u64,
        now: u64,
    ) -> Result<u64> {
        let (inode, mut file) = self.file(node)?;
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > self.geometry.largest()) {
            return Err(Errno::Fbig.into());
        }
        let length = length.min(STEP as u64) as usize;
        let end = offset + length as u64;
        self.make_ready_to_grow(inode, &file, end, end)?;
        let mut goal = self.next_goal(inode, &file, offset / self.geometry.block as u64)?;
        let mut done = 0;
        while done < length && self.draft.len() < DRAFTED {
            let (place, _, part) = self.piece(offset + done as u64, length - done);
            match self.ensure(&mut file, place, goal) {
                Ok((block, new)) => {
                    if new {
                        self.fresh(block, Class::Data);
                    }
                    (done, goal) = (done + part, block.saturating_add(1));
                }
                Err(Stop::Failed(Errno::Nospc)) if done != 0 => break,
                Err(stop) => return Err(stop),
            }
        }
        self.written_to(inode, file, offset + done as u64, now)?;
        Ok(done as u64)
    }

    pub(super) fn link_text(&mut self, node: Node, into: &mut Vec<u8>) -> Result<()> {
        let (_, link) = self.known(node)?;
        if link.kind()? != Kind::Link {
            return Err(Errno::Inval.into());
        }
        let length = usize::try_from(link.size).unwrap_or(usize::MAX);
        into.try_reserve(length.min(self.geometry.block)).map_err(|_| Errno::Nomem)?;
        if !link.has_blocks() {
            let words = link.pointers.iter().flat_map(|word| word.to_le_bytes());
            into.extend(words.take(length));
            return Ok(());
        }
        let block = self.map(&link, 0)?.ok_or(Errno::Io)?;
        into.extend_from_slice(self.view(block)?.get(..length).ok_or(Errno::Io)?);
        Ok(())
    }
}
