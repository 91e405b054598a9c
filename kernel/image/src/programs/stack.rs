//! A stack for a program: all of it there from the start, for an interrupt must not fault, and
//! unmapped address space below.
//!
//! To make one takes longer than all else of a short process. So some that were used are kept for
//! who comes next, as they are: code of programs reads nothing of its stack that it did not write.

use super::{commit, release, seam};
use crate::ranks;
use abi::program::engine::STACK;
use arch::lock::Lock;
use arrayvec::ArrayVec;
use base::addr::{PAGE, VirtAddr};
use kernel_mem::spaces::SpaceError;

/// What of the stack is the kernel's: services, and wasmtime.
const OWN: u64 = 64 << 10;
const BYTES: u64 = (STACK as u64 + OWN).next_multiple_of(PAGE);
/// Most that are kept.
const KEPT: usize = 4;

static SPARE: Lock<ArrayVec<Stack, KEPT>> = Lock::new(ranks::STACKS, ArrayVec::new_const());

/// Owned by the thread that runs on it.
struct Stack {
    start: VirtAddr,
}

/// Runs `entry(argument)` on a stack that nobody uses.
pub fn run(entry: extern "C" fn(usize), argument: usize) -> Result<(), SpaceError> {
    let spare = SPARE.lock().pop();
    let stack = spare.map_or_else(Stack::new, Ok)?;
    seam::on_stack(stack.start.plus(BYTES), entry, argument);
    let full = SPARE.lock().try_push(stack);
    drop(full);
    Ok(())
}

/// Gives back the memory of those that nobody uses.
pub fn forget() {
    let all = SPARE.lock().take();
    drop(all);
}

impl Stack {
    /// The space below it is another's end, which is never open.
    fn new() -> Result<Stack, SpaceError> {
        let start = super::SPACES.reserve(BYTES)?;
        let stack = Stack { start };
        commit(start, BYTES).map(|()| stack)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        release(self.start);
    }
}
