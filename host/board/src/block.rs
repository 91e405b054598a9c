//! Ranges of memory.

/// A range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First address.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Block {
    /// Returns the first address after it.
    pub const fn end(self) -> u64 {
        self.base + self.size
    }

    /// Returns whether it contains all of `other`.
    pub const fn holds(self, other: Block) -> bool {
        other.base >= self.base && other.end() <= self.end()
    }

    /// Returns whether the two overlap.
    pub const fn overlaps(self, other: Block) -> bool {
        self.base < other.end() && other.base < self.end()
    }
}
