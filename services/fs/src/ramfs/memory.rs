//! The memory budget of a ramfs.
//!
//! Contract: `used` never exceeds the budget, and neither does the memory that is really allocated,
//! because [`NODE`], [`DIRECTORY`], [`ENTRY`] and [`CHUNK_COST`] are worst cases (`tests/arena.rs`
//! compares them with an arena's account). The chunks of a removed file are free at once but return
//! to the heap a few at a time, so no step frees a whole large file. New chunks reuse them first.

use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

pub const CHUNK: usize = 4096;
/// Charge for a chunk with its place in the tree.
pub const CHUNK_COST: u64 = CHUNK as u64 + 64;
/// Charge for a node: half-empty trees, and the first leaf of a file.
pub const NODE: u64 = 512;
/// Additional charge for a directory: the first leaves of its maps.
pub const DIRECTORY: u64 = 768;
/// Charge for a directory entry, in addition to twice its name.
pub const ENTRY: u64 = 224;
/// Number of chunks that one step returns to the heap.
const REAPED: usize = 32;

pub type Chunk = Box<[u8; CHUNK]>;
/// The chunks of a file by index.
pub type Chunks = BTreeMap<u64, Chunk>;

#[derive(Debug)]
pub struct Memory {
    budget: u64,
    used: u64,
    /// Chunks of removed files, not returned to the heap yet.
    dead: Vec<Chunks>,
    dead_chunks: u64,
}

impl Memory {
    pub fn new(budget: u64) -> Memory {
        Memory { budget, used: 0, dead: Vec::new(), dead_chunks: 0 }
    }

    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Reduces the budget by `bytes`. Fails if they are not free.
    pub fn shrink(&mut self, bytes: u64) -> Result<(), Errno> {
        if bytes > self.free() {
            return Err(Errno::Nomem);
        }
        self.budget -= bytes;
        while self.used + self.dead_chunks * CHUNK_COST > self.budget && self.pop_free().is_some() {
        }
        Ok(())
    }

    pub fn free(&self) -> u64 {
        self.budget - self.used
    }

    /// Charges `bytes`; fails if they are not free.
    pub fn take(&mut self, bytes: u64) -> Result<(), Errno> {
        if bytes > self.free() {
            return Err(Errno::Nospc);
        }
        self.used += bytes;
        while self.used + self.dead_chunks * CHUNK_COST > self.budget && self.pop_free().is_some() {
        }
        Ok(())
    }

    /// Takes back a charge of `bytes`.
    pub fn give(&mut self, bytes: u64) {
        self.used -= bytes;
    }

    /// Allocates a chunk of zeros.
    pub fn chunk(&mut self) -> Result<Chunk, Errno> {
        if CHUNK_COST > self.free() {
            return Err(Errno::Nospc);
        }
        let chunk = match self.pop_free() {
            Some(mut chunk) => {
                chunk.fill(0);
                chunk
            }
            None => fresh()?,
        };
        self.used += CHUNK_COST;
        Ok(chunk)
    }

    /// Frees the chunks of a file.
    pub fn bury(&mut self, chunks: Chunks) {
        let count = chunks.len() as u64;
        self.give(count * CHUNK_COST);
        if count != 0 {
            self.dead.push(chunks);
            self.dead_chunks += count;
        }
    }

    /// Returns a few free chunks to the heap.
    #[inline]
    pub fn reap(&mut self) {
        if !self.dead.is_empty() {
            self.reap_some();
        }
    }

    #[cold]
    fn reap_some(&mut self) {
        for _ in 0..REAPED {
            if self.pop_free().is_none() {
                return;
            }
        }
    }

    fn pop_free(&mut self) -> Option<Chunk> {
        let last = self.dead.last_mut()?;
        let (_, chunk) = last.pop_last()?;
        if last.is_empty() {
            self.dead.pop();
        }
        self.dead_chunks -= 1;
        Some(chunk)
    }
}

fn fresh() -> Result<Chunk, Errno> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(CHUNK).map_err(|_| Errno::Nospc)?;
    bytes.resize(CHUNK, 0);
    bytes.into_boxed_slice().try_into().map_err(|_| Errno::Nospc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn neither_charged_nor_allocated_memory_exceeds_the_budget() {
        for seed in 0..50 {
            let mut random = Prng::new(seed);
            let mut memory = Memory::new(40 * CHUNK_COST);
            let (mut files, mut small) = (Vec::from([Chunks::new()]), 0);
            for step in 0..2000u64 {
                match random.below(10) {
                    0..5 => {
                        if let Ok(chunk) = memory.chunk() {
                            assert!(chunk.iter().all(|byte| *byte == 0));
                            files.last_mut().unwrap().insert(step, chunk);
                        }
                    }
                    5 => memory.bury(core::mem::take(files.last_mut().unwrap())),
                    6 => files.push(Chunks::new()),
                    7 if files.len() > 1 => memory.bury(files.swap_remove(0)),
                    8 if small > 0 => {
                        memory.give(700);
                        small -= 1;
                    }
                    9 if random.chance(1, 4) => memory.reap(),
                    _ => small += u64::from(memory.take(700).is_ok()),
                }
                let live = files.iter().map(Chunks::len).sum::<usize>() as u64;
                let dead = memory.dead.iter().map(Chunks::len).sum::<usize>() as u64;
                let used = live * CHUNK_COST + small * 700;
                assert_eq!((used, dead), (memory.used, memory.dead_chunks), "seed {seed}");
                assert!(used + dead * CHUNK_COST <= memory.budget, "seed {seed}");
            }
        }
    }
}
