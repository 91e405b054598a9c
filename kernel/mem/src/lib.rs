//! Memory management of one kernel: frames, heap, mappings, stacks.
//!
//! - [`blocks`]   the table that says which kernel has which block of the global region; [`set`] is
//!   a set of blocks
//! - [`transfer`] the steps in which a block changes hands; [`balloon`] executes them
//! - [`manager`]  decides when blocks move; [`returns`] returns frames freed by another kernel
//! - [`frames`]   a buddy allocator over the kernel's own regions; `frames::zone` is one range
//! - [`coherent`] frames for memory that a process uses on two kernels
//! - [`cache`]    per-core caches of single frames in front of it; [`MemoryManager`] combines both
//! - [`page`]     single frames that their holder can move
//! - [`heap`]     small objects in slabs, large ones in frames; [`global`] is the global allocator
//! - [`mapping`]  the kernel's page table, and an audit of its invariants
//! - [`activation`] switches to a table that passes the audit
//! - [`stacks`]   kernel stacks with guard pages
//! - [`spaces`]   address space for programs, with demand paging
//! - [`raw`]      unsafe code: memory that the allocators own
//!
//! Allocation is always local to the kernel and never waits for another domain.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[allow(unsafe_code, reason = "switches page tables")]
pub mod activation;
pub mod balloon;
pub mod blocks;
pub mod cache;
pub mod coherent;
pub mod frames;
#[allow(unsafe_code, reason = "the trait of global allocators is unsafe")]
pub mod global;
pub mod heap;
pub mod manager;
pub mod mapping;
pub mod page;
#[allow(unsafe_code, reason = "accesses memory by its address")]
pub mod raw;
pub mod returns;
pub mod set;
pub mod spaces;
pub mod stacks;
pub mod transfer;

#[cfg(test)]
mod testing;

pub use cache::MemoryManager;
pub use global::KernelHeap;

/// The ranks of this crate's locks.
pub mod ranks {
    use arch::lock::Rank;

    /// A size class of the heap.
    pub const HEAP: Rank = Rank::new(110, "heap");
    /// Address spaces of programs.
    pub const SPACES: Rank = Rank::leaf(115, "spaces");
    /// Windows in those.
    pub const WINDOWS: Rank = Rank::leaf(116, "windows");
    /// Stack slots.
    pub const STACKS: Rank = Rank::leaf(120, "stacks");
    /// The buddy allocator.
    pub const FRAMES: Rank = Rank::leaf(130, "frames");
}
