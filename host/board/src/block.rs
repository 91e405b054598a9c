//! Ranges of memory.

/// A range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First byte.
    pub base: u64,
    /// Bytes.
    pub size: u64,
}

impl Block {
    /// First byte behind it.
    pub const fn end(self) -> u64 {
        self.base + self.size
    }

    /// Is all of `other` inside?
    pub const fn holds(self, other: Block) -> bool {
        other.base >= self.base && other.end() <= self.end()
    }

    /// Do the two share a byte?
    pub const fn overlaps(self, other: Block) -> bool {
        self.base < other.end() && other.base < self.end()
    }
}
