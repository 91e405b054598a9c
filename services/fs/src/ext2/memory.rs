//! How much memory a file system takes at most, in the arena of a kernel.
//!
//! Contract: with [`super::CACHE`] blocks and [`NAMES`] names, never more than [`memory`] says of
//! its superblock; `tests/arena.rs` compares.

use super::CACHE;
use super::layout::Geometry;

/// Most names of a directory where memory is short.
pub const NAMES: usize = 12_288;
/// Blocks beside the cache: a fourth of it that changes while it is written, what the device is
/// asked for, what one operation drafts.
const BESIDE: usize = CACHE / 4 + 96;
/// What a block takes beyond its bytes.
const BLOCK: usize = 160;
/// A name of a directory in use, in trees half empty; there are three times as many as one may
/// have.
const NAME: usize = 3 * 24;
/// An inode: how often it was used.
const INODE: u64 = 32;
/// A group: its descriptor, twice.
const GROUP: u64 = 128;
/// Blocks that are to become free, inodes without names, and what changes at a time.
const REST: u64 = 384 * 1024;

impl Geometry {
    /// Most bytes.
    pub(super) fn memory(&self) -> u64 {
        let blocks = (CACHE + BESIDE) * (self.block + BLOCK);
        (blocks + NAMES * NAME) as u64
            + u64::from(self.inodes) * INODE
            + u64::from(self.groups) * GROUP
            + REST
    }
}

/// Bytes that it takes to mount what has this superblock; `None` when that cannot be mounted.
pub fn memory(superblock: &[u8]) -> Option<u64> {
    Geometry::read(superblock).ok().map(|geometry| geometry.memory())
}
