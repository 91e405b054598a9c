//! An allocator for one range of frames, with lists and tags in place, without lock or references.
//! Its owner may lie in memory that kernels share. So may its frames, whose first words are links.

use core::sync::atomic::{AtomicU8, Ordering};

use base::addr::{PAGE, PhysAddr};

use super::lists::{Lists, Region};
use super::{FreeError, MAX_ORDER, MOVABLE, USED};

/// An allocator for `N` frames from `base` on.
pub struct Zone<const N: usize> {
    base: u64,
    lists: Lists,
    tags: [AtomicU8; N],
}

impl<const N: usize> Zone<N> {
    /// Creates an allocator with all frames free. `base` must be aligned to the largest block that
    /// will be allocated; the frames must be in the linear map and have no other user while this is
    /// in use.
    pub fn new(base: PhysAddr) -> Zone<N> {
        let tags = [const { AtomicU8::new(0) }; N];
        let mut zone = Zone { base: base.0, lists: Lists::new(), tags };
        let Zone { lists, tags, .. } = &mut zone;
        let none = (PhysAddr(0), PhysAddr(0));
        lists.fill(&region(base.0, tags), &[], none);
        zone
    }

    /// Allocates a block, aligned to its size, with undefined contents.
    pub fn allocate(&mut self, order: u8) -> Option<PhysAddr> {
        let Zone { base, lists, tags } = self;
        let region = region(*base, tags);
        lists.take(|_| Some(&region), order, 0).map(PhysAddr)
    }

    /// Frees a block. `order` must be the one it was allocated with.
    pub fn free(&mut self, block: PhysAddr, order: u8) -> Result<(), FreeError> {
        let Zone { base, lists, tags } = self;
        let region = region(*base, tags);
        let tag = region.tag(block.0).ok_or(FreeError::Foreign)?;
        let allocated = order <= MAX_ORDER
            && block.is_aligned(PAGE << order)
            && tag.load(Ordering::Relaxed) & !MOVABLE == USED | order;
        if !allocated {
            return Err(FreeError::NotAllocated);
        }
        lists.give(&region, block.0, order);
        Ok(())
    }

    pub fn free_frames(&self) -> usize {
        self.lists.free
    }
}

fn region(base: u64, tags: &[AtomicU8]) -> Region<'_> {
    Region { base, bytes: tags.len() as u64 * PAGE, tags }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::memory;
    use base::prng::Prng;
    use std::vec::Vec;

    #[test]
    fn random_blocks_never_overlap_and_all_return() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let base = memory(4 << 20, 0);
            let mut zone = Zone::<1024>::new(base);
            let mut out: Vec<(PhysAddr, u8)> = Vec::new();
            for _ in 0..2000 {
                if prng.chance(1, 2) {
                    let order = prng.below(9) as u8;
                    let Some(block) = zone.allocate(order) else { continue };
                    let (start, end) = (block.0, block.0 + (PAGE << order));
                    assert!(base.0 <= start && end <= base.0 + (4 << 20));
                    let apart =
                        |&(at, o): &(PhysAddr, u8)| end <= at.0 || at.0 + (PAGE << o) <= start;
                    assert!(out.iter().all(apart), "seed {seed}");
                    out.push((block, order));
                } else if !out.is_empty() {
                    let (block, order) = out.swap_remove(prng.below(out.len() as u64) as usize);
                    assert_eq!(zone.free(block, order + 1), Err(FreeError::NotAllocated));
                    assert_eq!(zone.free(block, order), Ok(()));
                    assert_eq!(zone.free(block, order), Err(FreeError::NotAllocated));
                }
            }
            out.drain(..).for_each(|(block, order)| assert_eq!(zone.free(block, order), Ok(())));
            assert_eq!(zone.free_frames(), 1024, "seed {seed}");
            assert_eq!(zone.free(PhysAddr(0), 0), Err(FreeError::Foreign));
        }
    }
}
