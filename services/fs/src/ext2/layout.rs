//! The on-disk format: offsets, flags, and the geometry in the superblock.
//!
//! Contract: no byte is trusted. Invalid numbers fail the mount; a field beyond the end of its
//! block reads as 0.

use crate::filesystem::Kind;
use alloc::vec::Vec;

/// Byte offset of the superblock.
pub const SUPER_AT: usize = 1024;
/// Size of the superblock.
pub const SUPER: usize = 1024;
/// Inode of the root directory.
pub const ROOT: u32 = 2;
/// `s_state`: cleanly unmounted.
pub const VALID: u16 = 1;
/// Compatible feature: there is a journal.
pub const HAS_JOURNAL: u32 = 4;
/// Incompatible feature: file types in directory entries.
const FILE_TYPE: u32 = 2;
/// Incompatible feature: the journal must be replayed.
pub const RECOVER: u32 = 4;
/// Supported incompatible features.
const INCOMPAT: u32 = FILE_TYPE | RECOVER;
/// Supported read-only compatible features: sparse copies of the superblock, files above 2 GiB.
pub const RO_COMPAT: u32 = 1 | LARGE_FILE;
/// There are files above 2 GiB.
pub const LARGE_FILE: u32 = 2;
/// Inode flag of a directory with a hash tree, which we do not update.
pub const INDEX_FL: u32 = 0x1000;
/// Maximum size of a block.
pub const LARGEST_BLOCK: usize = 4096;
/// Maximum number of links of an inode.
pub const LINKS: u16 = 32_000;
/// Size of a group descriptor.
pub const DESCRIPTOR: usize = 32;
/// Maximum number of groups.
pub const GROUPS: u32 = 65_536;

/// Offsets in the superblock.
pub mod sb {
    pub const INODES: usize = 0;
    pub const BLOCKS: usize = 4;
    pub const FREE_BLOCKS: usize = 12;
    pub const FREE_INODES: usize = 16;
    pub const FIRST_BLOCK: usize = 20;
    pub const LOG_BLOCK: usize = 24;
    pub const BLOCKS_PER_GROUP: usize = 32;
    pub const INODES_PER_GROUP: usize = 40;
    pub const WRITTEN: usize = 48;
    pub const MAGIC: usize = 56;
    pub const STATE: usize = 58;
    pub const REVISION: usize = 76;
    pub const FIRST_INODE: usize = 84;
    pub const INODE_SIZE: usize = 88;
    pub const COMPAT: usize = 92;
    pub const INCOMPAT: usize = 96;
    pub const RO_COMPAT: usize = 100;
    pub const RESERVED_GDT: usize = 206;
    pub const JOURNAL: usize = 224;
    pub const LAST_ORPHAN: usize = 232;
}

/// Offsets in an inode.
pub mod at {
    pub const MODE: usize = 0;
    pub const SIZE: usize = 4;
    pub const ATIME: usize = 8;
    pub const CTIME: usize = 12;
    pub const MTIME: usize = 16;
    pub const DTIME: usize = 20;
    pub const LINKS: usize = 26;
    pub const SECTORS: usize = 28;
    pub const FLAGS: usize = 32;
    pub const POINTERS: usize = 40;
    pub const GENERATION: usize = 100;
    pub const ATTRIBUTES: usize = 104;
    pub const SIZE_HIGH: usize = 108;
    pub const EXTRA: usize = 128;
    pub const CTIME_EXTRA: usize = 132;
    pub const MTIME_EXTRA: usize = 136;
    pub const ATIME_EXTRA: usize = 140;
}

/// Reads 16 bits, little endian.
pub fn get16(bytes: &[u8], at: usize) -> u16 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u16::from_le_bytes(*field))
}

/// Reads 32 bits, little endian.
pub fn get32(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u32::from_le_bytes(*field))
}

/// Writes 16 bits, little endian.
pub fn put16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = value.to_le_bytes();
    }
}

/// Writes 32 bits, little endian.
pub fn put32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = value.to_le_bytes();
    }
}

/// Why an image cannot be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The device failed.
    Device,
    /// There is no ext2 on it.
    Magic,
    /// Its numbers are inconsistent, or beyond our limits.
    Geometry,
    /// It has unsupported incompatible features (a bit mask).
    Features(u32),
    /// It needs more memory than its budget.
    Memory,
}

/// Why a file system is read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnly {
    /// The mount request asked for it.
    Asked,
    /// It has errors, or a journal that cannot be replayed, and has not been checked since.
    Unclean,
    /// It has no journal.
    NoJournal,
    /// It has unsupported read-only compatible features (a bit mask).
    Features(u32),
}

/// What does not change while it is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    pub block: usize,
    pub blocks: u32,
    pub inodes: u32,
    pub first_block: u32,
    pub blocks_per_group: u32,
    pub inodes_per_group: u32,
    pub inode: usize,
    pub first_inode: u32,
    pub groups: u32,
    pub typed: bool,
    /// Number of descriptor blocks after a superblock, reserved ones included.
    pub descriptors: u32,
}

impl Geometry {
    /// Reads the geometry from a superblock, and checks it.
    pub fn read(bytes: &[u8]) -> Result<Geometry, Unfit> {
        if get16(bytes, sb::MAGIC) != 0xef53 {
            return Err(Unfit::Magic);
        }
        let unknown = get32(bytes, sb::INCOMPAT) & !INCOMPAT;
        let old = get32(bytes, sb::REVISION) == 0;
        if !old && unknown != 0 {
            return Err(Unfit::Features(unknown));
        }
        let log = get32(bytes, sb::LOG_BLOCK);
        if log > LARGEST_BLOCK.ilog2() - 10 {
            return Err(Unfit::Geometry);
        }
        let block = 1024usize << log;
        let (blocks, first_block) = (get32(bytes, sb::BLOCKS), get32(bytes, sb::FIRST_BLOCK));
        let blocks_per_group = get32(bytes, sb::BLOCKS_PER_GROUP);
        if blocks_per_group == 0 || blocks <= first_block {
            return Err(Unfit::Geometry);
        }
        let groups = (blocks - first_block).div_ceil(blocks_per_group);
        let used = u64::from(groups) * DESCRIPTOR as u64;
        let spare = if old { 0 } else { u32::from(get16(bytes, sb::RESERVED_GDT)) };
        let geometry = Geometry {
            block,
            blocks,
            inodes: get32(bytes, sb::INODES),
            first_block,
            blocks_per_group,
            inodes_per_group: get32(bytes, sb::INODES_PER_GROUP),
            inode: if old { 128 } else { usize::from(get16(bytes, sb::INODE_SIZE)) },
            first_inode: if old { 11 } else { get32(bytes, sb::FIRST_INODE) },
            groups,
            typed: !old && get32(bytes, sb::INCOMPAT) & FILE_TYPE != 0,
            descriptors: used.div_ceil(block as u64) as u32 + spare,
        };
        if geometry.is_sound() { Ok(geometry) } else { Err(Unfit::Geometry) }
    }

    fn is_sound(&self) -> bool {
        let bits = self.block as u64 * 8;
        let inodes = u64::from(self.groups) * u64::from(self.inodes_per_group);
        self.groups <= GROUPS
            && self.first_block == u32::from(self.block == 1024)
            && u64::from(self.blocks_per_group) <= bits
            && self.inodes_per_group != 0
            && u64::from(self.inodes_per_group) <= bits
            && inodes == u64::from(self.inodes)
            && self.inode.is_power_of_two()
            && (128..=self.block).contains(&self.inode)
            && (11..=self.inodes).contains(&self.first_inode)
            && u64::from(self.first_block) + 1 + u64::from(self.descriptors) < self.blocks.into()
    }

    /// Returns the number of descriptor blocks, without the reserved ones.
    pub fn tables(&self) -> u32 {
        (self.groups as usize * DESCRIPTOR).div_ceil(self.block) as u32
    }

    /// Returns the number of pointers in a block.
    pub fn fan(&self) -> u64 {
        self.block as u64 / 4
    }

    /// Returns the maximum size of a file: as far as three levels of pointers reach.
    pub fn largest(&self) -> u64 {
        let fan = self.fan();
        (12 + fan + fan * fan + fan * fan * fan) * self.block as u64
    }

    /// Returns the latest time that an inode can hold and the resolution of times, in ns.
    pub fn times(&self) -> (u64, u64) {
        const SECOND: u64 = 1_000_000_000;
        if self.inode >= 160 {
            let last = (1u64 << 34) - (1 << 31) - 1;
            (last * SECOND + SECOND - 1, 1)
        } else {
            (i32::MAX as u64 * SECOND, SECOND)
        }
    }

    /// Returns the first block of a group.
    pub fn start(&self, group: u32) -> u32 {
        let start = u64::from(self.first_block) + u64::from(group) * self.blocks_per_group as u64;
        u32::try_from(start).unwrap_or(u32::MAX)
    }

    /// Returns the number of blocks of a group.
    pub fn length(&self, group: u32) -> u32 {
        self.blocks.saturating_sub(self.start(group)).min(self.blocks_per_group)
    }

    /// Returns the group of a block and its index there, if there is such a block.
    pub fn group_of(&self, block: u32) -> Option<(u32, u32)> {
        let place = block.checked_sub(self.first_block)?;
        (block < self.blocks)
            .then(|| (place / self.blocks_per_group, place % self.blocks_per_group))
    }
}

/// A group: the location of its tables, and what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    pub block_map: u32,
    pub inode_map: u32,
    pub table: u32,
    pub free_blocks: u32,
    pub free_inodes: u32,
    pub directories: u32,
}

impl Group {
    /// Reads all descriptors. Fails if a table is not inside its group.
    pub fn read_all(bytes: &[u8], geometry: &Geometry) -> Result<Vec<Group>, Unfit> {
        let mut groups = Vec::new();
        let tables = bytes.chunks_exact(DESCRIPTOR).take(geometry.groups as usize);
        for (group, bytes) in (0..).zip(tables) {
            let one = Group {
                block_map: get32(bytes, 0),
                inode_map: get32(bytes, 4),
                table: get32(bytes, 8),
                free_blocks: get16(bytes, 12).into(),
                free_inodes: get16(bytes, 14).into(),
                directories: get16(bytes, 16).into(),
            };
            let first = geometry.start(group);
            let last = first.saturating_add(geometry.length(group));
            let end = u64::from(one.table) + one.table_blocks(geometry);
            let inside = |block: u32| (first..last).contains(&block);
            if !inside(one.block_map)
                || !inside(one.inode_map)
                || !inside(one.table)
                || end > last.into()
            {
                return Err(Unfit::Geometry);
            }
            groups.push(one);
        }
        if groups.len() == geometry.groups as usize { Ok(groups) } else { Err(Unfit::Geometry) }
    }

    /// Writes the counts to the descriptor.
    pub fn write(&self, bytes: &mut [u8]) {
        put16(bytes, 12, self.free_blocks as u16);
        put16(bytes, 14, self.free_inodes as u16);
        put16(bytes, 16, self.directories as u16);
    }

    fn table_blocks(&self, geometry: &Geometry) -> u64 {
        let bytes = u64::from(geometry.inodes_per_group) * geometry.inode as u64;
        bytes.div_ceil(geometry.block as u64)
    }

    /// Returns whether this block is part of the group's tables.
    pub fn owns(&self, block: u32, geometry: &Geometry) -> bool {
        let end = u64::from(self.table) + self.table_blocks(geometry);
        block == self.block_map
            || block == self.inode_map
            || block >= self.table && u64::from(block) < end
    }
}

/// Returns the file type in a directory entry.
pub fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::File => 1,
        Kind::Directory => 2,
        Kind::Link => 7,
        Kind::Character => 3,
    }
}
