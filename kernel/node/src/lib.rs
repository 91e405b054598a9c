//! The basis of one kernel: which domain it runs, its memory and scheduler, and the soc.
//!
//! Contract: nothing here knows a driver, a service or another kernel; `boot` in `kernel/image`
//! creates a [`Node`], and all other parts of the kernel build on it. The statics of this crate are
//! what must exist before there is a node (frames, heap, page table, log) or what handlers of
//! interrupts reach without one (TLB shootdown, counters). Hosts can build and test it, but only a
//! machine has a heap, so there the global allocator is the host's.
//!
//! - [`Node`]: identity, board, clock and scheduler of this kernel
//! - [`soc`]: requests to the soc; `hangs`: reports to it
//! - [`shootdown`]: TLB shootdown
//! - [`memory`], [`arenas`], [`ram_disk`], [`bulk`], [`movable`]: frames, heap and page table;
//!   memory for services; a disk in memory; what kernels lend each other; movable pages
//! - [`blob`], [`symbols`]: the board's description; symbol tables
//! - [`print`], [`counts`]: the log; interrupt counts
//! - [`ranks`]: the order of locks
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arenas;
pub mod attendance;
pub mod blob;
pub mod bulk;
pub mod counts;
mod hangs;
pub mod memory;
pub mod movable;
mod node;
pub mod print;
pub mod ram_disk;
pub mod ranks;
pub mod shootdown;
pub mod soc;
pub mod symbols;

pub use node::Node;
