//! Frames of coherent blocks that this kernel owns, for memory that a process uses on two kernels.
//! Such a block is not part of this kernel's linear map: a frame is mapped by the kernel that uses
//! it, while it does (docs/design/light-threads.md).
//!
//! Each frame in use has the *tag* of its process, so that all frames of a process are freed at
//! once, without a list of them. A block without used frames goes back to the pool of all kernels.

use abi::boot::BLOCK;
use alloc::boxed::Box;
use alloc::vec::Vec;
use base::addr::PAGE;

/// Frames of a block.
pub const FRAMES: usize = (BLOCK / PAGE) as usize;
/// The tag of a free frame.
const FREE: u32 = 0;

/// A block, by its index in the global region.
struct Block {
    index: usize,
    tags: Box<[u32]>,
    used: usize,
    /// All frames before this one are in use.
    first: usize,
}

/// The coherent blocks of this kernel.
#[derive(Default)]
pub struct CoherentFrames {
    blocks: Vec<Block>,
    last_tag: u32,
}

impl CoherentFrames {
    pub const fn new() -> CoherentFrames {
        CoherentFrames { blocks: Vec::new(), last_tag: FREE }
    }

    /// Returns a tag for a new process. They are not used up: at a thousand processes a second, in
    /// seven weeks.
    pub fn tag(&mut self) -> u32 {
        self.last_tag = self.last_tag.wrapping_add(1).max(1);
        self.last_tag
    }

    /// Returns how many frames are free.
    pub fn free(&self) -> usize {
        self.blocks.iter().map(|block| FRAMES - block.used).sum()
    }

    /// Returns how many frames are in use.
    pub fn used(&self) -> usize {
        self.blocks.iter().map(|block| block.used).sum()
    }

    /// Adds a block that this kernel has claimed. Returns false without memory for its tags.
    pub fn add(&mut self, index: usize) -> bool {
        let mut tags = Vec::new();
        if self.blocks.try_reserve(1).is_err() || tags.try_reserve_exact(FRAMES).is_err() {
            return false;
        }
        tags.resize(FRAMES, FREE);
        self.blocks.push(Block { index, tags: tags.into_boxed_slice(), used: 0, first: 0 });
        true
    }

    /// Allocates a frame. Returns its number in the global region.
    pub fn allocate(&mut self, tag: u32) -> Option<u32> {
        let block = self.blocks.iter_mut().find(|block| block.used < FRAMES)?;
        let rest = block.tags.get(block.first..)?;
        let at = block.first + rest.iter().position(|&tag| tag == FREE)?;
        block.tags[at] = tag;
        block.used += 1;
        block.first = at + 1;
        u32::try_from(block.index * FRAMES + at).ok()
    }

    /// Frees all frames of a process. Returns how many.
    pub fn free_all(&mut self, tag: u32) -> usize {
        let mut count = 0;
        for block in &mut self.blocks {
            for at in (0..FRAMES).rev().filter(|_| tag != FREE) {
                if block.tags[at] == tag {
                    block.tags[at] = FREE;
                    block.first = block.first.min(at);
                    block.used -= 1;
                    count += 1;
                }
            }
        }
        count
    }

    /// Removes a block without used frames, for the caller to release.
    pub fn remove_empty(&mut self) -> Option<usize> {
        let at = self.blocks.iter().position(|block| block.used == 0)?;
        Some(self.blocks.swap_remove(at).index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_frame_belongs_to_one_process_until_it_is_freed() {
        let (mut pool, mut model) = (CoherentFrames::new(), BTreeMap::new());
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        assert_eq!(pool.allocate(1), None);
        assert!(pool.add(5) && pool.add(9));
        for _ in 0..20_000 {
            match random(20) {
                0 => {
                    let tag = random(4) as u32 + 1;
                    let before = model.len();
                    model.retain(|_, owner| *owner != tag);
                    assert_eq!(pool.free_all(tag), before - model.len());
                }
                _ => {
                    let tag = random(4) as u32 + 1;
                    let Some(frame) = pool.allocate(tag) else {
                        assert_eq!(model.len(), 2 * FRAMES);
                        continue;
                    };
                    assert!([5, 9].contains(&(frame as usize / FRAMES)));
                    assert_eq!(model.insert(frame, tag), None, "in use");
                }
            }
            assert_eq!((pool.used(), pool.free()), (model.len(), 2 * FRAMES - model.len()));
        }
        assert_eq!((1..5).map(|tag| pool.free_all(tag)).sum::<usize>(), model.len());
        assert_eq!(pool.remove_empty().into_iter().chain(pool.remove_empty()).sum::<usize>(), 14);
        assert_eq!((pool.remove_empty(), pool.free()), (None, 0));
    }
}
