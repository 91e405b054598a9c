//! An in-memory index of the names in recently used directories.
//!
//! ```text
//!   directory -> hashes of its names, each with its offset; the largest unused space of each block
//! ```
//!
//! Contract: an index is built by reading the directory once, some blocks at a time, and updated by
//! each commit. It is only a hint: the name at the offset is compared. A directory has at most
//! [`NAMES`] names, or fewer if memory is limited. When all indexes together hold more than twice
//! as many, the least recently used one is dropped.

use super::cache::Class;
use super::draft::Note;
use super::entries::{self, needed};
use super::inode::Inode;
use super::{Ext2, Result};
use abi::fs::Errno;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Maximum number of names of a directory.
pub const NAMES: usize = 131_072;
/// Maximum size of a directory.
const BYTES: u64 = 64 * 1024 * 1024;
/// Number of blocks read ahead.
const AHEAD: u64 = 16;

/// The index of a directory.
#[derive(Debug, Default)]
pub struct Index {
    names: BTreeSet<(u32, u32)>,
    rooms: Vec<u16>,
    used: u64,
}

/// The location of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Block of the device.
    pub block: u32,
    /// Index of the block in the directory.
    pub number: u32,
    /// Offset in the block.
    pub at: usize,
    /// Inode of the entry.
    pub inode: u32,
}

impl Index {
    /// Returns whether the directory has no names but `.` and `..`.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn room(&mut self, number: u32, room: u16) {
        match self.rooms.get_mut(number as usize) {
            Some(known) => *known = room,
            None => self.rooms.push(room),
        }
    }
}

/// Returns the FNV-1a hash of a name.
pub fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

impl Ext2 {
    /// Returns the number of blocks of a directory.
    pub(super) fn blocks_of(&self, node: &Inode) -> Result<u64> {
        let block = self.geometry.block as u64;
        if !node.size.is_multiple_of(block) || node.size == 0 || node.size > BYTES {
            return Err(Errno::Io.into());
        }
        Ok(node.size / block)
    }

    /// Returns the complete index of a directory, building it first if needed.
    pub(super) fn index(&mut self, directory: u32, node: &Inode) -> Result<&mut Index> {
        let blocks = self.blocks_of(node)?;
        self.indexed += 1;
        let now = self.indexed;
        let index = self.indexes.entry(directory).or_default();
        index.used = now;
        let mut number = index.rooms.len() as u64;
        while number < blocks {
            self.index_block(directory, node, number, blocks)?;
            number += 1;
        }
        self.forget_some();
        self.indexes.get_mut(&directory).ok_or(Errno::Io.into())
    }

    fn index_block(&mut self, dir: u32, node: &Inode, number: u64, blocks: u64) -> Result<()> {
        let bytes = self.geometry.block as u64;
        let (mut names, mut room) = (Vec::new(), 0);
        if let Some(block) = self.map(node, number)? {
            if !self.cache.has(block) {
                for ahead in number + 1..(number + AHEAD).min(blocks) {
                    if let Some(block) = self.map(node, ahead)? {
                        self.prefetch(block);
                    }
                }
            }
            let data = self.view(block)?;
            for entry in entries::entries(data) {
                let entry = entry?;
                if entry.inode != 0 && !entry.is_dots() {
                    names.push((hash(entry.name), (number * bytes) as u32 + entry.at as u32));
                }
            }
            room = entries::room(data)?;
        }
        let Some(index) = self.indexes.get_mut(&dir) else { return Err(Errno::Io.into()) };
        if index.names.len() + names.len() > self.names {
            return Err(Errno::Nomem.into());
        }
        index.names.extend(names);
        index.rooms.push(room);
        // What was read need not stay in the cache.
        self.draft_forget();
        Ok(())
    }

    /// Drops the least recently used index if there are too many names. Keeps two, because an
    /// operation uses at most two.
    fn forget_some(&mut self) {
        let total: usize = self.indexes.values().map(|index| index.names.len()).sum();
        if self.indexes.len() > 2 && (total > 2 * self.names || self.indexes.len() > 256) {
            let oldest = self.indexes.iter().min_by_key(|(_, index)| index.used);
            if let Some(oldest) = oldest.map(|(directory, _)| *directory) {
                self.indexes.remove(&oldest);
            }
        }
    }

    /// Finds a name in a directory.
    pub(super) fn find(&mut self, dir: u32, node: &Inode, name: &[u8]) -> Result<Option<Spot>> {
        let (bytes, hash) = (self.geometry.block, hash(name));
        let index = self.index(dir, node)?;
        let range = index.names.range((hash, 0)..=(hash, u32::MAX));
        let places: Vec<usize> = range.map(|(_, place)| *place as usize).collect();
        for place in places {
            let number = (place / bytes) as u32;
            let block = self.map(node, number.into())?.ok_or(Errno::Io)?;
            let entry = entries::entry(self.view(block)?, place % bytes)?;
            if entry.name == name {
                let inode = entry.inode;
                return Ok(Some(Spot { block, number, at: place % bytes, inode }));
            }
        }
        Ok(None)
    }

    /// Adds a name to a directory, in block `near` if it fits there.
    pub(super) fn insert(
        &mut self,
        dir: u32,
        (name, inode, code): (&[u8], u32, u8),
        near: Option<Spot>,
        now: u64,
    ) -> Result<()> {
        let mut node = self.inode(dir)?;
        if self.index(dir, &node)?.names.len() >= self.names {
            return Err(Errno::Nospc.into());
        }
        let wanted = needed(name.len());
        // If this operation removed a name from that block, there is space.
        let (number, block) = match self.fits(&node, near, wanted)? {
            Some(place) => place,
            None => match self.gap(dir, &node, wanted)? {
                Some(place) => place,
                None => self.extend(dir, &mut node)?,
            },
        };
        let code = if self.geometry.typed { code } else { 0 };
        let bytes = self.geometry.block as u32;
        let data = self.edit(block, Class::Meta)?;
        let at = entries::insert(data, name, inode, code)?;
        let room = entries::room(data)?;
        self.note(Note::Room(dir, number, room));
        self.note(Note::Named(dir, hash(name), number * bytes + at as u32));
        self.changed_directory(dir, &mut node, now)
    }

    fn fits(
        &mut self,
        node: &Inode,
        near: Option<Spot>,
        wanted: usize,
    ) -> Result<Option<(u32, u32)>> {
        let Some(near) = near else { return Ok(None) };
        if u64::from(near.number) >= self.blocks_of(node)? {
            return Ok(None);
        }
        let room = entries::room(self.view(near.block)?)?;
        Ok((usize::from(room) >= wanted).then_some((near.number, near.block)))
    }

    /// Returns the first block with enough space.
    fn gap(&mut self, dir: u32, node: &Inode, wanted: usize) -> Result<Option<(u32, u32)>> {
        let index = self.index(dir, node)?;
        let fits = |(_, room): &(u32, &u16)| usize::from(**room) >= wanted;
        let some: Vec<u32> =
            (0..).zip(&index.rooms).filter(fits).map(|(number, _)| number).take(8).collect();
        for number in some {
            if let Some(block) = self.map(node, number.into())? {
                return Ok(Some((number, block)));
            }
        }
        Ok(None)
    }

    /// Appends an empty block.
    fn extend(&mut self, dir: u32, node: &mut Inode) -> Result<(u32, u32)> {
        let (bytes, number) = (self.geometry.block, self.blocks_of(node)?);
        if node.size + bytes as u64 > BYTES {
            return Err(Errno::Nospc.into());
        }
        let last = self.map(node, number.saturating_sub(1))?;
        let goal = last.map_or(self.goal(dir), |last| last.saturating_add(1));
        let (block, _) = self.ensure(node, number, goal)?;
        entries::write(self.fresh(block, Class::Meta), 0, bytes, b"", 0, 0);
        node.size += bytes as u64;
        Ok((number as u32, block))
    }

    /// Removes a name from a directory.
    pub(super) fn remove(&mut self, dir: u32, spot: Spot, now: u64) -> Result<()> {
        let (block, bytes) = (spot.block, self.geometry.block as u32);
        let data = self.edit(block, Class::Meta)?;
        let hash = hash(entries::entry(data, spot.at)?.name);
        entries::remove(data, spot.at)?;
        let room = entries::room(data)?;
        self.note(Note::Room(dir, spot.number, room));
        self.note(Note::Unnamed(dir, hash, spot.number * bytes + spot.at as u32));
        let mut node = self.inode(dir)?;
        self.changed_directory(dir, &mut node, now)
    }

    /// Makes a name refer to another inode.
    pub(super) fn replace(
        &mut self,
        dir: u32,
        spot: Spot,
        (inode, code): (u32, u8),
        now: u64,
    ) -> Result<()> {
        let code = if self.geometry.typed { code } else { 0 };
        entries::replace(self.edit(spot.block, Class::Meta)?, spot.at, inode, code);
        let mut node = self.inode(dir)?;
        self.changed_directory(dir, &mut node, now)
    }

    fn changed_directory(&mut self, dir: u32, node: &mut Inode, now: u64) -> Result<()> {
        node.touch(now);
        // Drops the directory's on-disk hash tree, which we do not update.
        node.flags &= !super::layout::INDEX_FL;
        self.note(Note::Touched(dir));
        self.put_inode(dir, node)
    }

    pub(super) fn index_note(&mut self, note: Note) {
        match note {
            Note::Named(dir, hash, place) => {
                if let Some(index) = self.indexes.get_mut(&dir) {
                    index.names.insert((hash, place));
                }
            }
            Note::Unnamed(dir, hash, place) => {
                if let Some(index) = self.indexes.get_mut(&dir) {
                    index.names.remove(&(hash, place));
                }
            }
            Note::Room(dir, number, room) => {
                if let Some(index) = self.indexes.get_mut(&dir) {
                    index.room(number, room);
                }
            }
            _ => {}
        }
    }
}
