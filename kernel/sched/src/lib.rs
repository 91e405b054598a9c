//! Threads of one kernel: an SMP preemptive priority scheduler, wait queues, sleep, join, trace.
//!
//! - [`runqueue`]   who is ready on a core, by priority; pure
//! - [`sleepers`]   who wakes when; pure
//! - [`kicks`]      which cores must look at their queue; pure
//! - [`table`]      the threads and every change of their state, pure
//! - [`scheduler`]  the table behind one lock, switching, timers, idle cores
//! - [`wait`]       wait queues
//! - [`trace`]      the bounded structured log
//! - [`raw`]        the two unsafe steps: into another context, and into a new thread
//!
//! One lock guards all of it: it is held for tens of instructions, nothing is allocated under it,
//! and a board's kernel has few cores. A switch happens with it held; the thread that comes
//! releases it. Waking is a permit, as in `std::thread::park`: waits check their condition again.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod kicks;
mod raw;
pub mod runqueue;
pub mod scheduler;
pub mod sleepers;
pub mod table;
pub mod trace;
pub mod wait;

pub use scheduler::{CoreInfo, Scheduler, SpawnError, ThreadInfo};
pub use table::ThreadId;
pub use wait::WaitQueue;

/// Most threads of a kernel, idle ones included.
pub const MAX_THREADS: usize = 512;
/// Priorities; 0 is the idle threads' own, higher runs first.
pub const PRIORITIES: usize = 32;
/// Of a thread that asks for nothing.
pub const PRIORITY_NORMAL: u8 = 8;
/// Of threads that serve other kernels.
pub const PRIORITY_SERVE: u8 = 16;
/// How long a thread runs while another of its priority is ready.
pub const SLICE_NS: u64 = 10_000_000;
