//! The block table: which kernel has which 16 MiB block of the global region, and as what.
//!
//! A page a domain, **each written by its own kernel only** and read by all, in the uncached
//! window. A page has a word for each block; what holds for a block is the word of the highest
//! version among all pages ([`pack_block`]). All zeroes is a table whose blocks are all free, so
//! nobody has to initialise it. How kernels write it is `kernel_mem::blocks`.

use crate::boot::MAX_DOMAINS;

/// Most blocks of the global region: 2 GiB of it.
pub const MAX_BLOCKS: usize = 128;

/// What a block is, in its word.
pub mod block {
    /// Nobody's: in the balloons.
    pub const FREE: u8 = 0;
    /// Cacheable in the kernel that wrote the word.
    pub const LOCAL: u8 = 1;
    /// Its pages are shared by the DSM; the writer is its keeper.
    pub const COHERENT: u8 = 2;
    /// Mapped uncached wherever it is mapped; the writer is its keeper.
    pub const UNCACHED: u8 = 3;
    /// A device's, not mapped cacheable anywhere; the writer is its keeper.
    pub const DEVICE: u8 = 4;
}

/// `[version:40 | writer's epoch:16 | kind:8]`.
pub const fn pack_block(version: u64, epoch: u16, kind: u8) -> u64 {
    version << 24 | (epoch as u64) << 8 | kind as u64
}

/// Takes [`pack_block`] apart: `(version, epoch, kind)`.
pub const fn unpack_block(word: u64) -> (u64, u16, u8) {
    (word >> 24, (word >> 8) as u16, word as u8)
}

/// Versions end here; no board lives to see it.
pub const LAST_VERSION: u64 = (1 << 40) - 1;

/// Written by one kernel only.
#[repr(C, align(2048))]
#[derive(Clone, Copy, Debug)]
pub struct BlockPage {
    /// A word a block, by its place in the global region: [`pack_block`].
    pub blocks: [u64; MAX_BLOCKS],
    /// A hint for the others: frames that this kernel could do without, `epoch << 48 | frames`.
    pub spare: u64,
    /// Unused.
    pub rest: [u64; 127],
}

/// The spinlock of the bank that those who take blocks hold meanwhile.
pub const BLOCKS_LOCK: usize = crate::soc::SPINLOCKS - 1;

const _: () = assert!(size_of::<BlockPage>() == 2048);
const _: () = assert!(size_of::<BlockPage>() * MAX_DOMAINS <= 4 * 4096);
