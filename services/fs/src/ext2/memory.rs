//! The maximum memory of a file system, as allocated in a kernel's arena.
//!
//! Contract: with [`super::CACHE`] blocks and [`NAMES`] names it never takes more than [`memory`]
//! returns for its superblock. `tests/arena.rs` checks this.

use super::CACHE;
use super::layout::Geometry;

/// Maximum number of indexed names of a directory if memory is limited.
pub const NAMES: usize = 12_288;
/// Blocks outside the cache: copies of blocks that change while they are written (at most a fourth
/// of the cache), I/O data, and the draft of one operation.
const BESIDE: usize = CACHE / 4 + 96;
/// Bytes of a cached block beyond its data.
const BLOCK: usize = 160;
/// Bytes of an indexed name, in half-empty trees. Times 3, because all indexes together hold up to
/// three times the maximum of one.
const NAME: usize = 3 * 24;
/// Bytes of an inode: the count of how often it was freed.
const INODE: u64 = 32;
/// Bytes of a group: its descriptor, twice.
const GROUP: u64 = 128;
/// Bytes for blocks to be freed, orphaned inodes, and the sets of a generation.
const REST: u64 = 384 * 1024;

impl Geometry {
    /// Returns the maximum memory, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let blocks = (CACHE + BESIDE) * (self.block + BLOCK);
        (blocks + NAMES * NAME) as u64
            + u64::from(self.inodes) * INODE
            + u64::from(self.groups) * GROUP
            + REST
    }
}

/// Returns the memory needed to mount the file system with this superblock; `None` if it cannot be
/// mounted.
pub fn memory(superblock: &[u8]) -> Option<u64> {
    Geometry::read(superblock).ok().map(|geometry| geometry.memory())
}
