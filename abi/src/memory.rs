//! The block table: the owner and kind of each 16 MiB block of the global region.
//!
//! The table is in the uncached window, one page per domain, **each written only by its own
//! kernel** and read by all. A page has one word per block ([`pack_block`]). Of the words of a
//! block, the one with the highest version is valid. A zeroed table is one where all blocks are
//! free, so it needs no initialisation. `kernel_mem::blocks` has the rules for writing it.

use crate::boot::MAX_DOMAINS;

/// Maximum blocks of the global region: 2 GiB.
pub const MAX_BLOCKS: usize = 128;

/// Kinds of blocks.
pub mod block {
    /// Owned by no kernel: in the balloons.
    pub const FREE: u8 = 0;
    /// Cacheable in the kernel that wrote the word.
    pub const LOCAL: u8 = 1;
    /// Its pages are kept coherent by the DSM; the writer owns it.
    pub const COHERENT: u8 = 2;
    /// Mapped uncached in every kernel; the writer owns it.
    pub const UNCACHED: u8 = 3;
    /// For device DMA, not mapped cacheable anywhere; the writer owns it.
    pub const DEVICE: u8 = 4;
}

/// `[version:40 | writer's epoch:16 | kind:8]`.
pub const fn pack_block(version: u64, epoch: u16, kind: u8) -> u64 {
    version << 24 | (epoch as u64) << 8 | kind as u64
}

/// Undoes [`pack_block`]: `(version, epoch, kind)`.
pub const fn unpack_block(word: u64) -> (u64, u16, u8) {
    (word >> 24, (word >> 8) as u16, word as u8)
}

/// Highest version; never reached in the life of a board.
pub const LAST_VERSION: u64 = (1 << 40) - 1;

/// One domain's page of the block table.
#[repr(C, align(2048))]
#[derive(Clone, Copy, Debug)]
pub struct BlockPage {
    /// [`pack_block`], indexed by the block's position in the global region.
    pub blocks: [u64; MAX_BLOCKS],
    /// A hint for the other kernels: free frames that this one can give up, `epoch << 48 | frames`.
    pub spare: u64,
    pub rest: [u64; 127],
}

/// Number of the lock between domains that a kernel holds while it takes blocks.
pub const BLOCKS_LOCK: usize = crate::lock::LOCKS - 1;

const _: () = assert!(size_of::<BlockPage>() == 2048);
const _: () = assert!(size_of::<BlockPage>() * MAX_DOMAINS <= 4 * 4096);
