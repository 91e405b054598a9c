//! Ext2, for reading and writing, on a device that it never waits for.
//!
//! Contract: a call looks at blocks in the [`cache`] and collects its changes in a draft
//! ([`draft`]). If a block is missing it returns [`Stop::Wait`], and [`Ext2::next_io`] reads the
//! block. Changes are written later, through a journal ([`writing`]); without one, the file system
//! is read-only. The device may hold any bytes: invalid structures are [`Errno::Io`]. Memory is
//! bounded by the size of the cache, the indexes of directories in use ([`index`]), and 16 bytes
//! for each inode that was freed.
//!
//! - [`layout`]   on-disk format: offsets and geometry
//! - [`mod@memory`] the maximum memory of a file system
//! - [`mount`]    reading the superblock and the descriptors
//! - [`replay`]   finding the journal, and repeating what it contains
//! - [`journal`], [`jbd2`], [`crc`]  the log, its format, its checksums
//! - [`device`]   I/O
//! - [`cache`]    blocks in memory
//! - [`slots`]    the hash table of the cache
//! - [`draft`]    one operation, all or nothing
//! - [`writing`]  generations of changes, and how they are written
//! - [`tidy`]     work done after requests, such as freeing blocks
//! - [`alloc`], [`inode`], [`map`], [`entries`], [`index`]  bitmaps, inodes, block pointers,
//!   directories
//! - [`mod@file`], [`names`]  the operations

mod alloc;
mod cache;
mod crc;
mod device;
mod draft;
mod entries;
mod file;
mod index;
mod inode;
mod jbd2;
mod journal;
mod layout;
mod map;
mod memory;
mod mount;
mod names;
mod replay;
mod slots;
mod tidy;
mod writing;

pub use device::{Io, What};
pub use layout::{ReadOnly, Unfit};
pub use memory::memory;

use crate::filesystem::{Entry, FileSystem, Kind, Make, Node, Result, Space, Stop, Times};
use ::alloc::boxed::Box;
use ::alloc::collections::{BTreeMap, BTreeSet};
use ::alloc::vec::Vec;
use abi::fs::{Errno, FIRST_COOKIE, Stat};
use cache::Cache;
use device::Device;
use draft::{Champion, Draft, Note};
use index::Index;
use inode::Inode;
use journal::Journal;
use layout::{Geometry, Group, ROOT};
use replay::Stage;
use writing::{Closing, Open};

/// Minimum number of blocks in the cache: enough for four of the largest operations.
pub const CACHE: usize = 1024;
/// Maximum bytes of one I/O.
pub const LONGEST: usize = device::RUN * layout::LARGEST_BLOCK;

#[derive(Debug)]
pub struct Ext2 {
    stage: Stage,
    /// Maximum memory in bytes, and maximum number of indexed names of a directory.
    budget: u64,
    names: usize,
    geometry: Geometry,
    groups: Vec<Group>,
    super_block: Box<[u8]>,
    super_at: u32,
    super_offset: usize,
    tables: Vec<u8>,
    tables_changed: BTreeSet<u32>,
    free_blocks: u32,
    free_inodes: u32,
    ro_compat: u32,
    /// When the superblock was last written, in seconds.
    written: u32,
    /// Whether the device is marked clean.
    valid: bool,
    /// Whether it will settle unless another change arrives ([`Ext2::begin_to_settle`]).
    settling: bool,
    read_only: Option<ReadOnly>,
    now: u64,

    cache: Cache,
    draft: Draft,
    champion: Champion,
    device: Device,
    indexes: BTreeMap<u32, Index>,
    indexed: u64,

    journal: Option<Journal>,
    open: Open,
    closing: Option<Closing>,
    close_next: bool,
    /// The newest generation that is on the device.
    durable: u64,
    /// The generation in which an inode or one of its names last changed.
    touched: BTreeMap<u32, u64>,
    /// Inodes whose changes could not be written, until a caller got the error.
    failed: BTreeSet<u32>,

    holds: BTreeMap<u32, u64>,
    /// Inodes without names.
    orphans: BTreeSet<u32>,
    /// Files with blocks after their end: the first one to be freed.
    trims: BTreeMap<u32, u64>,
    /// The list of orphans on the device, the newest one last.
    chain: Vec<u32>,
    /// How often each inode was freed.
    lives: BTreeMap<u32, u32>,
    tidy_waits: Option<u32>,
    tidy_failed: u32,
}

impl Ext2 {
    /// Creates a file system with a cache of `cache` blocks, but at least [`CACHE`]. It mounts
    /// itself as its first I/Os complete.
    pub fn new(cache: usize, read_only: bool) -> Ext2 {
        Ext2 {
            stage: Stage::Super(false),
            budget: u64::MAX,
            names: index::NAMES,
            geometry: Geometry::default(),
            groups: Vec::new(),
            super_block: Box::default(),
            super_at: 0,
            super_offset: 0,
            tables: Vec::new(),
            tables_changed: BTreeSet::new(),
            free_blocks: 0,
            free_inodes: 0,
            ro_compat: 0,
            written: 0,
            valid: false,
            settling: false,
            read_only: read_only.then_some(ReadOnly::Asked),
            now: 0,
            cache: Cache::new(cache.max(CACHE)),
            draft: Draft::default(),
            champion: Champion::default(),
            device: Device::default(),
            indexes: BTreeMap::new(),
            indexed: 0,
            journal: None,
            open: Open { number: 1, ..Open::default() },
            closing: None,
            close_next: false,
            durable: 0,
            touched: BTreeMap::new(),
            failed: BTreeSet::new(),
            holds: BTreeMap::new(),
            orphans: BTreeSet::new(),
            trims: BTreeMap::new(),
            chain: Vec::new(),
            lives: BTreeMap::new(),
            tidy_waits: None,
            tidy_failed: 0,
        }
    }

    /// Returns the maximum size of a file, the latest time that can be stored, and the resolution
    /// of times, both in ns.
    pub fn limits(&self) -> (u64, u64, u64) {
        let (last, grain) = self.geometry.times();
        (self.geometry.largest(), last, grain)
    }

    /// Creates a file system that takes at most `budget` bytes of memory, or else is
    /// [`Unfit::Memory`].
    pub fn within(budget: u64, read_only: bool) -> Ext2 {
        Ext2 { budget, names: memory::NAMES, ..Ext2::new(CACHE, read_only) }
    }

    /// Returns whether any change is not on the device.
    pub fn is_dirty(&self) -> bool {
        self.cache.dirty() != 0 || self.closing.is_some() || self.reclaims()
    }

    /// Returns the node of an inode: its number, and how often it was freed before.
    fn node_of(&self, inode: u32) -> Node {
        u64::from(self.lives.get(&inode).copied().unwrap_or(0)) << 32 | u64::from(inode)
    }

    fn inode_of(&self, node: Node) -> Result<u32> {
        let inode = node as u32;
        if self.node_of(inode) == node && inode != 0 && inode <= self.geometry.inodes {
            return Ok(inode);
        }
        Err(Errno::Noent.into())
    }

    /// Returns the inode of a node.
    fn known(&mut self, node: Node) -> Result<(u32, Inode)> {
        let inode = self.inode_of(node)?;
        Ok((inode, self.named(inode)?))
    }

    /// Returns an inode that has a name or is open.
    fn named(&mut self, inode: u32) -> Result<Inode> {
        let node = self.inode(inode)?;
        if node.links == 0 && !self.orphans.contains(&inode) {
            return Err(Errno::Io.into());
        }
        Ok(node)
    }

    /// Applies one note of a committed draft.
    fn apply(&mut self, note: Note) {
        match note {
            Note::Blocks(group, by) => self.count_blocks(group, by),
            Note::Inodes(group, by) => self.count_inodes(group, by),
            Note::Directories(group, by) => self.count_directories(group, by),
            Note::Free(block) => {
                self.open.frees.insert(block);
            }
            Note::Touched(inode) => {
                self.touched.insert(inode, self.open.number);
            }
            Note::Orphan(inode) => {
                self.orphans.insert(inode);
                self.listed(inode);
            }
            Note::Gone(inode) => self.gone(inode),
            Note::Trim(inode, keep) => {
                self.trims.insert(inode, keep);
                self.listed(inode);
            }
            Note::Trimmed(inode) => {
                self.trims.remove(&inode);
                if !self.orphans.contains(&inode) {
                    self.chain.retain(|one| *one != inode);
                }
            }
            Note::Large => self.ro_compat |= layout::LARGE_FILE,
            Note::Named(..) | Note::Unnamed(..) | Note::Room(..) => self.index_note(note),
        }
    }

    fn listed(&mut self, inode: u32) {
        if !self.chain.contains(&inode) {
            self.chain.push(inode);
        }
    }

    fn gone(&mut self, inode: u32) {
        self.chain.retain(|one| *one != inode);
        self.orphans.remove(&inode);
        self.trims.remove(&inode);
        self.touched.remove(&inode);
        self.indexes.remove(&inode);
        *self.lives.entry(inode).or_default() += 1;
    }

    /// Makes a change at time `now`.
    fn change_at<T>(&mut self, now: u64, what: impl FnOnce(&mut Ext2) -> Result<T>) -> Result<T> {
        self.now = self.now.max(now);
        self.settling = false;
        self.change(what)
    }

    fn list_from(
        &mut self,
        directory: Node,
        from: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<bool> {
        let (_, node) = self.directory(directory)?;
        let (bytes, blocks) = (self.geometry.block as u64, self.blocks_of(&node)?);
        let from = from.saturating_sub(FIRST_COOKIE);
        let mut some = false;
        for number in from / bytes..blocks {
            let Some(block) = self.map(&node, number)? else { continue };
            if !self.prefetch(block) && some {
                return Ok(false);
            }
            let data: Box<[u8]> = self.view(block)?.into();
            for entry in entries::entries(&data) {
                let entry = entry?;
                let at = number * bytes + entry.at as u64;
                let hidden = entry.is_dots() || entry.name.is_empty() || entry.name.contains(&b'/');
                if entry.inode == 0 || hidden || at < from {
                    continue;
                }
                let kind = match self.kind_in(&entry) {
                    Err(Stop::Wait(_)) if some => return Ok(false),
                    kind => kind?,
                };
                let (cookie, node) = (at + FIRST_COOKIE, self.node_of(entry.inode));
                if !each(Entry { cookie, name: entry.name, node, kind }) {
                    return Ok(false);
                }
                some = true;
            }
        }
        Ok(true)
    }

    fn kind_in(&mut self, entry: &entries::Raw<'_>) -> Result<Kind> {
        match entry.code {
            2 => Ok(Kind::Directory),
            7 => Ok(Kind::Link),
            0 => Ok(self.inode(entry.inode)?.kind().unwrap_or(Kind::File)),
            _ => Ok(Kind::File),
        }
    }

    fn stat_of(&mut self, node: Node) -> Result<Stat> {
        let (inode, found) = self.known(node)?;
        let removed = self.orphans.contains(&inode);
        Ok(Stat {
            node,
            kind: found.kind()?.code(),
            links: if removed { 0 } else { found.links.into() },
            size: found.size,
            accessed: found.accessed,
            modified: found.modified,
            changed: found.changed,
            ..Stat::default()
        })
    }
}

impl FileSystem for Ext2 {
    fn root(&mut self) -> Node {
        ROOT.into()
    }

    fn lookup(&mut self, directory: Node, name: &[u8]) -> Result<Node> {
        self.look(|fs| {
            let (inode, node) = fs.directory(directory)?;
            let spot = fs.find(inode, &node, name)?.ok_or(Errno::Noent)?;
            fs.inode(spot.inode)?;
            Ok(fs.node_of(spot.inode))
        })
    }

    fn parent(&mut self, directory: Node) -> Result<Node> {
        self.look(|fs| {
            let (_, node) = fs.directory(directory)?;
            let parent = fs.parent_of(&node)?;
            Ok(fs.node_of(parent))
        })
    }

    fn kind(&mut self, node: Node) -> Result<Kind> {
        self.look(|fs| fs.known(node)?.1.kind())
    }

    fn stat(&mut self, node: Node) -> Result<Stat> {
        self.look(|fs| fs.stat_of(node))
    }

    fn read_link(&mut self, node: Node, into: &mut Vec<u8>) -> Result<()> {
        self.look(|fs| fs.link_text(node, into))
    }

    fn list(
        &mut self,
        directory: Node,
        from: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<bool> {
        self.look(|fs| fs.list_from(directory, from, each))
    }

    fn read(&mut self, node: Node, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.look(|fs| fs.read_file(node, offset, into))
    }

    fn write(&mut self, node: Node, offset: u64, from: &[u8], now: u64) -> Result<usize> {
        if from.is_empty() {
            return self.look(|fs| fs.read_file(node, offset, &mut []));
        }
        self.change_at(now, |fs| fs.write_file(node, offset, from, now))
    }

    fn set_size(&mut self, node: Node, size: u64, now: u64) -> Result<()> {
        self.change_at(now, |fs| fs.resize(node, size, now))
    }

    fn allocate(&mut self, node: Node, offset: u64, length: u64, now: u64) -> Result<u64> {
        self.change_at(now, |fs| fs.reserve(node, offset, length, now))
    }

    fn set_times(&mut self, node: Node, times: Times, now: u64) -> Result<()> {
        self.change_at(now, |fs| {
            let (inode, mut found) = fs.known(node)?;
            found.accessed = times.accessed.unwrap_or(found.accessed);
            found.modified = times.modified.unwrap_or(found.modified);
            found.changed = now;
            fs.note(Note::Touched(inode));
            fs.put_inode(inode, &found)
        })
    }

    fn make(&mut self, directory: Node, name: &[u8], what: Make<'_>, now: u64) -> Result<Node> {
        self.change_at(now, |fs| fs.make_node(directory, name, what, now))
    }

    fn link(&mut self, directory: Node, name: &[u8], node: Node, now: u64) -> Result<()> {
        self.change_at(now, |fs| fs.add_name(directory, name, node, now))
    }

    fn unlink(&mut self, directory: Node, name: &[u8], now: u64) -> Result<()> {
        self.change_at(now, |fs| fs.remove_name(directory, name, now))
    }

    fn rmdir(&mut self, directory: Node, name: &[u8], now: u64) -> Result<()> {
        self.change_at(now, |fs| fs.remove_directory(directory, name, now))
    }

    fn rename(&mut self, from: Node, name: &[u8], to: Node, new: &[u8], now: u64) -> Result<()> {
        self.change_at(now, |fs| fs.move_name(from, name, to, new, now))
    }

    fn hold(&mut self, node: Node) -> Result<()> {
        // Before the mount only the root can be held; the next call waits for the mount.
        let inode = if node == u64::from(ROOT) { ROOT } else { self.inode_of(node)? };
        *self.holds.entry(inode).or_default() += 1;
        Ok(())
    }

    fn release(&mut self, node: Node) {
        let Ok(inode) = self.inode_of(node) else { return };
        if let Some(holds) = self.holds.get_mut(&inode) {
            *holds -= 1;
            if *holds == 0 {
                self.holds.remove(&inode);
            }
        }
    }

    fn sync(&mut self, node: Node, _data_only: bool, generation: u64) -> Result<u64> {
        self.mounted()?;
        let inode = self.inode_of(node)?;
        if generation == 0 { self.begin_sync(inode) } else { self.synced(inode, generation) }
    }

    fn settle(&mut self) -> Result<()> {
        Ext2::settle(self)
    }

    fn space(&mut self) -> Result<Space> {
        self.mounted()?;
        let block = self.geometry.block as u64;
        let soon = self.open.frees.len() as u64;
        let total = u64::from(self.geometry.blocks) * block;
        Ok(Space { total, free: (u64::from(self.free_blocks) + soon) * block })
    }

    fn ready(&mut self) -> Option<u64> {
        self.device.ready()
    }
}
