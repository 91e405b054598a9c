//! Stacks of programs. A stack is mapped completely, because an interrupt on it must not fault; the
//! address space below is not mapped.
//!
//! Making a stack takes longer than everything else in a short process, so a few stacks of ended
//! threads are kept. They are not cleared: code of programs reads only stack memory that it has
//! written.
//!
//! The kernel's part of a stack is its deepest part when a program has used all of its own. It is
//! filled with a mark, so [`least_left`] can say how much of it was never written to.

use super::{commit, release, seam};
use abi::program::engine::STACK;
use arch::lock::Lock;
use arrayvec::ArrayVec;
use base::addr::{PAGE, VirtAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_mem::spaces::SpaceError;
use kernel_node::ranks;

/// Part of a stack that the kernel uses: calls to services, wasmtime, and interrupts.
pub const OWN: u64 = 64 << 10;
const BYTES: u64 = (STACK as u64 + OWN).next_multiple_of(PAGE);
/// Most unused stacks that are kept.
const KEPT: usize = 4;

/// What was left of [`OWN`] on the freed stack with the deepest use.
static LEAST_LEFT: AtomicU64 = AtomicU64::new(OWN);

static SPARE: Lock<ArrayVec<Stack, KEPT>> = Lock::new(ranks::STACKS, ArrayVec::new_const());

/// A stack's memory, owned by the thread that runs on it.
pub struct Stack {
    start: VirtAddr,
}

/// Frees the unused stacks.
pub fn forget() {
    let all = SPARE.lock().take();
    drop(all);
}

/// Returns how many bytes of [`OWN`] the deepest use of any stack has left, on those of processes
/// that have ended.
pub fn least_left() -> u64 {
    let of_spare = SPARE.lock().iter().map(Stack::left).min();
    LEAST_LEFT.load(Ordering::Relaxed).min(of_spare.unwrap_or(OWN))
}

impl Stack {
    /// Returns an unused stack.
    pub fn get() -> Result<Stack, SpaceError> {
        let spare = SPARE.lock().pop();
        spare.map_or_else(Stack::new, Ok)
    }

    /// Runs `entry(argument)` on the stack.
    pub fn run(self, entry: extern "C" fn(usize), argument: usize) {
        seam::on_stack(self.start.plus(BYTES), entry, argument);
        let full = SPARE.lock().try_push(self);
        drop(full);
    }

    /// Allocates a stack. Below it is the end of another space, which is never open: the guard.
    fn new() -> Result<Stack, SpaceError> {
        let start = super::SPACES.reserve(BYTES)?;
        let stack = Stack { start };
        commit(start, BYTES)?;
        seam::mark(start, OWN);
        Ok(stack)
    }

    /// Returns how many bytes at its deepest end were never written to.
    fn left(&self) -> u64 {
        seam::marked(self.start, OWN)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        LEAST_LEFT.fetch_min(self.left(), Ordering::Relaxed);
        release(self.start);
    }
}
