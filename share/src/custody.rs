//! Who has a service's arena: what a kernel promises of it, and what kernels tell each other.
//!
//! ```text
//!   enter: marks of all kernels -> renew (a new life), step -> leave
//!            |                       ^
//!            '- one died in a step --'    its mark says "busy" in the life that it broke
//! ```
//! A mark is a word that one kernel writes and all read, and that outlives its writer. It says the
//! latest life of the service that its kernel knows, and whether that kernel is in a step. Marks
//! are read and written by whoever has the arena, so one that is busy there is of a dead kernel.

use crate::raw::Arena;
use base::port::Exclusive;

/// What the marks of all kernels say together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The latest life of the service; 0: it never lived.
    pub lives: u32,
    /// The latest life in which a kernel died within a step; 0: none.
    pub broken: u32,
}

impl Marks {
    /// With the mark of one more kernel.
    #[must_use]
    pub fn with(self, mark: u64) -> Marks {
        let life = (mark >> 1) as u32;
        let broken = if mark & 1 != 0 { life } else { 0 };
        Marks { lives: self.lives.max(life), broken: self.broken.max(broken) }
    }

    /// The mark of a kernel that knows of the life `lives`.
    pub const fn mark(lives: u32, busy: bool) -> u64 {
        (lives as u64) << 1 | busy as u64
    }
}

/// Gives the arena to one at a time, and knows what its memory is worth. What is said here for a
/// kernel that has the arena to itself: it cannot be lost.
pub trait Custody: Exclusive<Arena> {
    /// Work begins: what others have left, `None` if there are no others. This kernel is marked
    /// as busy in the latest life.
    fn enter(&self) -> Option<Marks> {
        None
    }

    /// A new life begins, before the arena is touched for it.
    fn renew(&self, _lives: u32) {}

    /// Work is over, all of it done.
    fn leave(&self, _lives: u32) {}

    /// Is all of the arena's memory there, as far as is known?
    fn is_whole(&self) -> bool {
        true
    }

    /// Makes what was lost of it memory again, of any contents.
    fn mend(&self) {}

    /// Runs `work`, which may touch memory that is lost: then it is abandoned, and this is false.
    fn attempt(&self, work: &mut dyn FnMut()) -> bool {
        work();
        true
    }
}
