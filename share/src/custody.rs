//! Access to a service's arena, and detection of state that a dead kernel took with it.
//!
//! ```text
//!   enter: read all marks ---> (renew: new life) ---> step ---> leave
//!            |                     ^
//!            +- a mark is busy ----+   its kernel died in a step of that life
//! ```
//! A *mark* is a word that one kernel writes, all kernels read, and that survives its writer. It
//! holds the latest life of the service known to its kernel, and whether that kernel is in a step.
//! A kernel reads and writes marks only while it holds the arena. So if the mark of another kernel
//! is busy, that kernel died in a step.

use crate::raw::Arena;
use base::port::Exclusive;

/// The marks of all kernels, combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The latest life of the service; 0 if it never started.
    pub lives: u32,
    /// The latest life in which a kernel died during a step; 0 if none.
    pub broken: u32,
}

impl Marks {
    /// Combines with the mark of one more kernel.
    #[must_use]
    pub fn with(self, mark: u64) -> Marks {
        let life = (mark >> 1) as u32;
        let broken = if mark & 1 != 0 { life } else { 0 };
        Marks { lives: self.lives.max(life), broken: self.broken.max(broken) }
    }

    /// Encodes the mark of a kernel that knows of life `lives`.
    pub const fn mark(lives: u32, busy: bool) -> u64 {
        (lives as u64) << 1 | busy as u64
    }
}

/// Exclusive access to an arena, and what is known of its contents. The defaults are for a kernel
/// with an arena of its own, whose contents cannot be lost.
pub trait Custody: Exclusive<Arena> {
    /// Returns the number after which the lives of an arena without other users count. It increases
    /// with each cold boot of this kernel: a caller on another kernel may still have handles from
    /// before the boot, and these must not match what was opened since.
    fn before(&self) -> u32 {
        0
    }

    /// Begins a step: marks this kernel as busy in the latest life and returns the combined marks,
    /// or `None` if the arena has no other users.
    fn enter(&self) -> Option<Marks> {
        None
    }

    /// Records the start of life `lives`; called before the arena is written for it.
    fn renew(&self, _lives: u32) {}

    /// Ends a step that completed.
    fn leave(&self, _lives: u32) {}

    /// Returns false if part of the arena's memory is known to be lost.
    fn is_whole(&self) -> bool {
        true
    }

    /// Makes lost pages accessible again, with unspecified contents.
    fn mend(&self) {}

    /// Runs `work`. If it touches lost memory, aborts it at that instruction and returns false.
    fn attempt(&self, work: &mut dyn FnMut()) -> bool {
        work();
        true
    }
}
