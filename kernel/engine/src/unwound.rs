//! What a program that moves is while it has left all its functions ([`crate::moving`]).

use alloc::vec::Vec;

/// What the program does with its stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Runs,
    Unwinds,
    Rewinds,
}

/// The part of its memory that a program unwinds its stack into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    pub at: u32,
    /// 0: it has none yet.
    pub bytes: u32,
}

/// How far a program that can move has unwound its stack.
#[derive(Debug, Default)]
pub struct Moving {
    pub phase: Phase,
    pub area: Area,
}

/// What a program is between two kernels, besides its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unwound {
    /// Bits of its globals, in the order of their exports.
    pub globals: Vec<u64>,
    pub area: Area,
}

/// A program that has come from another kernel.
pub trait Arrival: Send + Sync {
    fn unwound(&self) -> &Unwound;

    /// Returns the size of its memory in bytes.
    fn bytes(&self) -> u64;

    /// Copies its memory into that of the new instance, which has this size. Returns false if it
    /// cannot be had.
    fn fill(&self, memory: &mut [u8]) -> bool;
}
