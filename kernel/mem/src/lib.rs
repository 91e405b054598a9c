//! Memory of one kernel: frames, heap, mappings, stacks.
//!
//! - [`blocks`]   which kernel has which block of the global region; [`set`] is a set of blocks
//! - [`transfer`] the order in which a block changes hands; [`balloon`] does it
//! - [`manager`]  decides when; [`returns`] brings frames home that others freed
//! - [`frames`]   a buddy allocator over the kernel's own regions; `frames::zone` is one range
//! - [`cache`]    single frames kept a core, in front of it; [`MemoryManager`] is both
//! - [`heap`]     small objects in slabs of frames, large ones in frames; the global allocator
//! - [`mapping`]  the kernel's page table from the blob, and the audit of its invariant
//! - [`stacks`]   kernel stacks with guards
//! - [`spaces`]   address space for programs, whose memory comes when it is touched
//! - [`raw`]      every unsafe line: words of memory that the allocators own
//!
//! Allocation is always local to the kernel. Nothing here waits for another domain.
#![cfg_attr(not(test), no_std)]

pub mod balloon;
pub mod blocks;
pub mod cache;
pub mod frames;
pub mod heap;
pub mod manager;
pub mod mapping;
#[allow(unsafe_code, reason = "the one home of unsafe in this crate")]
pub mod raw;
pub mod returns;
pub mod set;
pub mod spaces;
pub mod stacks;
pub mod transfer;

#[cfg(test)]
mod testing;

pub use cache::MemoryManager;
pub use raw::KernelHeap;

/// The order of this crate's locks.
pub mod ranks {
    use arch::lock::Rank;

    /// Slabs of one size.
    pub const HEAP: Rank = Rank::new(110, "heap");
    /// Address space of programs.
    pub const SPACES: Rank = Rank::leaf(115, "spaces");
    /// Stack slots.
    pub const STACKS: Rank = Rank::leaf(120, "stacks");
    /// The buddy allocator.
    pub const FRAMES: Rank = Rank::leaf(130, "frames");
}
