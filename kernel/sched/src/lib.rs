//! Threads of one kernel: a preemptive SMP priority scheduler, wait queues, sleep, join, trace.
//!
//! - [`runqueue`]: the ready threads of a core, by priority; pure
//! - [`sleepers`]: the deadlines of sleeping threads; pure
//! - [`kicks`]: the cores that must check their run queue; pure
//! - [`table`]: the threads and their state transitions; pure
//! - [`scheduler`]: the table in one lock, context switches, timers, idle cores
//! - [`wait`]: wait queues
//! - [`trace`]: the bounded structured log
//! - `raw`: the two unsafe steps: switching contexts, and entering a new thread
//!
//! One lock guards everything. It is held for tens of instructions, nothing is allocated under it,
//! and a board's kernel has few cores. A context switch happens with the lock held; the thread that
//! is switched to releases it. A wake-up is a permit, as in `std::thread::park`: waits check their
//! condition again.
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

use alloc::boxed::Box;
pub use scheduler::{CoreInfo, Handoff, Scheduler, SpawnError, ThreadInfo};
pub use sleepers::Deadline;
pub use table::ThreadId;
pub use wait::WaitQueue;

/// Maximum threads of a kernel, including idle threads.
pub const MAX_THREADS: usize = 512;
/// Priority of the thread that decides when the domain rests. That it runs does not count as work.
pub const PRIORITY_REST: u8 = 1;
/// Number of priorities. 0 is for idle threads; higher ones run first.
pub const PRIORITIES: usize = 32;
/// Priority of threads of programs. A kernel's own threads run first, so that a person or the
/// table of processes can end programs that use all cores.
pub const PRIORITY_PROGRAM: u8 = 4;
/// Priority of ordinary threads of a kernel.
pub const PRIORITY_NORMAL: u8 = 8;
/// Priority of threads that serve other kernels.
pub const PRIORITY_SERVE: u8 = 16;
/// Time slice: how long a thread runs while another of its priority is ready.
pub const SLICE_NS: u64 = 10_000_000;

/// One for each thread. The length is known, so an index is checked at little cost.
type PerThread<T> = Box<[T; MAX_THREADS]>;

/// Makes one for each thread, not on the stack.
fn per_thread<T>(make: impl Fn() -> T) -> PerThread<T> {
    let all: Box<[T]> = (0..MAX_THREADS).map(|_| make()).collect();
    all.try_into().unwrap_or_else(|_| unreachable!("there are as many"))
}
