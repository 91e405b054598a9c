//! Tests of `frames`, against models and by seeds.

use std::collections::BTreeMap;
use std::vec::Vec;

use base::prng::Prng;

use super::*;
use crate::raw::Word;
use crate::testing::memory;

const MIB: u64 = 1 << 20;

fn allocator(bytes: u64, skew: u64) -> (FrameAllocator, PhysAddr) {
    let base = memory(bytes, skew);
    let frames = FrameAllocator::new();
    frames.add_region(base, bytes, &[]).unwrap();
    (frames, base)
}

#[test]
fn a_block_of_16_mib_with_its_tags() {
    let (frames, base) = allocator(16 * MIB, 0);
    let now = frames.statistics();
    assert_eq!((now.total, now.kept, now.free), (4096, 1, 4095));
    assert_eq!(now.blocks, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(frames.allocate(0), Some(base.plus(PAGE)));
    assert_eq!(frames.allocate(11), Some(base.plus(8 * MIB)));
    assert_eq!(frames.allocate(11), None);
    assert_eq!(frames.allocate(MAX_ORDER + 1), None);
    assert_eq!(frames.allocate(255), None);
}

#[test]
fn kept_ranges_are_never_allocated() {
    let base = memory(4 * MIB, 0);
    let at = |start, end| (base.plus(start), base.plus(end));
    let kept = [at(0, 0x5000), at(0x10_0000, 0x18_0800)];
    let frames = FrameAllocator::new();
    frames.add_region(base, 4 * MIB, &kept).unwrap();
    let mut seen = 0;
    while let Some(frame) = frames.allocate(0) {
        assert!(kept.iter().all(|(start, end)| frame.plus(PAGE) <= *start || frame >= *end));
        seen += 1;
    }
    assert_eq!(seen, 1024 - 5 - 1 - 0x81);
    assert_eq!(frames.statistics().kept, 5 + 1 + 0x81);
}

#[test]
fn bad_regions_are_refused() {
    let (frames, base) = allocator(MIB, 0);
    assert_eq!(frames.add_region(base.plus(1), MIB, &[]), Err(RegionError::Range));
    assert_eq!(frames.add_region(base.plus(MIB), 0, &[]), Err(RegionError::Range));
    assert_eq!(frames.add_region(PhysAddr(u64::MAX - 4095), MIB, &[]), Err(RegionError::Range));
    assert_eq!(frames.add_region(base.plus(MIB / 2), MIB, &[]), Err(RegionError::Overlap));
    let all = (base.plus(MIB), base.plus(2 * MIB));
    assert_eq!(frames.add_region(base.plus(MIB), MIB, &[all]), Err(RegionError::Range));
    for _ in 1..MAX_REGIONS {
        frames.add_region(memory(MIB, 0), MIB, &[]).unwrap();
    }
    assert_eq!(frames.add_region(memory(MIB, 0), MIB, &[]), Err(RegionError::TooMany));
}

#[test]
fn wrong_frees_are_errors_and_change_nothing() {
    let (frames, base) = allocator(4 * MIB, 0);
    let block = frames.allocate(2).unwrap();
    let before = frames.statistics();
    let not_allocated = Err(FreeError::NotAllocated);
    assert_eq!(frames.free(block, 1), not_allocated, "another order");
    assert_eq!(frames.free(block.plus(PAGE), 0), not_allocated, "inside");
    assert_eq!(frames.free(block.plus(8), 2), not_allocated, "unaligned");
    assert_eq!(frames.free(base, 0), not_allocated, "the tags");
    assert_eq!(frames.free(block, 77), not_allocated);
    assert_eq!(frames.free(PhysAddr(0x1000), 0), Err(FreeError::Foreign));
    assert_eq!(frames.free(base.plus(4 * MIB), 0), Err(FreeError::Foreign));
    assert_eq!(frames.statistics(), before);
    assert_eq!(frames.free(block, 2), Ok(()));
    assert_eq!(frames.free(block, 2), not_allocated, "twice");
}

#[test]
fn wrong_frees_of_runs_are_errors_and_change_nothing() {
    let (frames, base) = allocator(4 * MIB, 0);
    assert_eq!((frames.allocate_run(0), frames.allocate_run(usize::MAX)), (None, None));
    let run = frames.allocate_run(7).unwrap();
    let before = frames.statistics();
    let not_allocated = Err(FreeError::NotAllocated);
    for count in [1, 2, 3, 5, 8, 9] {
        assert_eq!(frames.free_run(run, count), not_allocated, "{count} frames");
    }
    assert_eq!(frames.free(run, 3), not_allocated, "a block");
    assert_eq!(frames.free_run(run.plus(PAGE), 6), not_allocated, "inside");
    assert_eq!(frames.free_run(base.plus(4 * MIB), 7), Err(FreeError::Foreign));
    assert_eq!(frames.statistics(), before);
    assert_eq!(frames.free_run(run, 7), Ok(()));
    assert_eq!(frames.free_run(run, 7), not_allocated, "twice");
}

/// Random operations against a model of what is allocated: no overlap, alignment, contents survive,
/// no loss, and everything joins again at the end.
#[test]
fn random_operations_match_a_model() {
    for seed in 0..40 {
        let mut prng = Prng::new(seed);
        let skew = prng.below(64) * PAGE;
        let bytes = (prng.below(1500) + 600) * PAGE;
        let (frames, _) = allocator(bytes, skew);
        let second = memory(MIB, 0);
        frames.add_region(second, MIB, &[]).unwrap();
        let fresh = frames.statistics();
        let mut out: BTreeMap<u64, usize> = BTreeMap::new();
        let free = |at: u64, count| frames.free_run(PhysAddr(at), count);
        for _ in 0..3000 {
            if prng.chance(11, 20) {
                let order = (prng.below(64).trailing_zeros() as u8).min(6);
                let largest = 1usize << order;
                let count = largest - prng.below(largest.div_ceil(2) as u64) as usize;
                // A block is a run of a power of two.
                let run = match prng.chance(1, 2) && count.is_power_of_two() {
                    true => frames.allocate(order),
                    false => frames.allocate_run(count),
                };
                let Some(run) = run else { continue };
                assert!(run.is_aligned(PAGE << order), "seed {seed}");
                let end = run.0 + PAGE * count as u64;
                let below = out.range(..end).next_back();
                let is_before = |(at, count): (&u64, &usize)| at + PAGE * *count as u64 <= run.0;
                assert!(below.is_none_or(is_before), "seed {seed}");
                Word::at(run.to_virt().0 as usize).set(run.0);
                out.insert(run.0, count);
            } else if !out.is_empty() {
                let nth = prng.below(out.len() as u64) as usize;
                let (&at, &count) = out.iter().nth(nth).unwrap();
                assert_eq!(Word::at(PhysAddr(at).to_virt().0 as usize).get(), at, "seed {seed}");
                out.remove(&at);
                assert_eq!(free(at, count), Ok(()), "seed {seed}");
            }
            let used: usize = out.values().sum();
            assert_eq!(frames.statistics().free + used, fresh.free, "seed {seed}");
        }
        for (at, count) in out {
            free(at, count).unwrap();
        }
        assert_eq!(frames.statistics(), fresh, "seed {seed}: all blocks join again");
    }
}

#[test]
fn an_exhausted_allocator_returns_none_until_something_is_freed() {
    let (frames, _) = allocator(MIB, 0);
    let all: Vec<_> = core::iter::from_fn(|| frames.allocate(0)).collect();
    assert_eq!(all.len(), 255);
    assert_eq!(frames.allocate(0), None);
    frames.free(all[100], 0).unwrap();
    assert_eq!(frames.allocate(0), Some(all[100]));
}
