//! A stack for a program: all of it there from the start, for an interrupt must not fault, and
//! unmapped address space below.

use super::{commit, release, seam};
use abi::program::engine::STACK;
use base::addr::{PAGE, VirtAddr};
use kernel_mem::spaces::SpaceError;

/// What of the stack is the kernel's: services, and wasmtime.
const OWN: u64 = 64 << 10;
const BYTES: u64 = (STACK as u64 + OWN).next_multiple_of(PAGE);

/// Owned by the thread that runs on it.
pub struct Stack {
    start: VirtAddr,
}

impl Stack {
    /// One that nobody uses. The space below it is another's end, which is never open.
    pub fn new() -> Result<Stack, SpaceError> {
        let start = super::SPACES.reserve(BYTES)?;
        let stack = Stack { start };
        commit(start, BYTES).map(|()| stack)
    }

    /// Runs `entry(argument)` on it.
    pub fn run(&self, entry: extern "C" fn(usize), argument: usize) {
        seam::on_stack(self.start.plus(BYTES), entry, argument);
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        release(self.start);
    }
}
