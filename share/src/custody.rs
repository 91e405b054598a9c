//! Access to a service's arena, and detection of state that a dead kernel took with it.
//!
//! ```text
//!   known: the latest life ---> (renew: new life) ---> step
//!            |                     ^
//!            +- it is broken ------+   a kernel died in a step of that life
//! ```
//! The words of the lock between kernels tell it ([`abi::lock`]): each kernel writes there which
//! life it knows and whether it has the arena, and its word outlives it.

use crate::raw::Arena;
use abi::lock::Known;
use base::port::Exclusive;

/// Exclusive access to an arena, and what is known of its contents. The defaults are for a kernel
/// with an arena of its own, whose contents cannot be lost.
pub trait Custody: Exclusive<Arena> {
    /// Returns the number after which the lives of an arena without other users count. It increases
    /// with each cold boot of this kernel: a caller on another kernel may still have handles from
    /// before the boot, and these must not match what was opened since.
    fn before(&self) -> u32 {
        0
    }

    /// Begins a step in the latest life. Returns what is known of the lives; `None` if the arena
    /// has no other users.
    fn enter(&self) -> Option<Known> {
        None
    }

    /// Returns a number that is the same in two steps of this kernel only if no other kernel can
    /// have used the arena between them.
    fn holding(&self) -> u64 {
        0
    }

    /// Records the start of a life; called before the arena is written for it.
    fn renew(&self, _life: u32) {}

    /// Returns false if part of the arena's memory is known to be lost.
    fn is_whole(&self) -> bool {
        true
    }

    /// Makes lost pages accessible again, with unspecified contents.
    fn mend(&self) {}

    /// Runs `work`. If it touches lost memory, aborts it at that instruction and returns false.
    fn attempt(&self, work: impl FnOnce()) -> bool {
        work();
        true
    }
}
