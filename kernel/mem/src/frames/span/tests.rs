//! Tests of `span`: blocks that come and go under random load, and every reason to refuse.

use std::collections::BTreeMap;
use std::vec::Vec;

use base::prng::Prng;

use super::*;
use crate::raw::Word;
use crate::testing::memory;

const MIB: u64 = 1 << 20;
const BLOCKS: usize = 4;

/// Creates an allocator with `home` MiB of its own; returns it with its global region's base.
fn allocator(home: u64, frontier: End) -> (FrameAllocator, u64) {
    let (base, global) = (memory(home * MIB, 0), memory(BLOCKS as u64 * BLOCK, 0));
    let tags = base.plus(64 * PAGE);
    let frames = FrameAllocator::new();
    let kept = [(tags, tags.plus(FrameAllocator::tag_frames(BLOCKS) * PAGE))];
    frames.add_region(base, home * MIB, &kept).unwrap();
    frames.adopt_global(global, BLOCKS, tags, frontier);
    (frames, global.0)
}

fn block_of(global: u64, at: PhysAddr) -> Option<usize> {
    let offset = at.0.wrapping_sub(global);
    (offset < BLOCKS as u64 * BLOCK).then_some((offset / BLOCK) as usize)
}

fn word(at: PhysAddr) -> Word {
    Word::at(at.to_virt().0 as usize)
}

/// The owner of a test's movable frames: their addresses and the numbers written into them.
#[derive(Default)]
struct Owner {
    places: BTreeMap<u64, (PhysAddr, u8)>,
    pinned: Option<u64>,
}

impl Mover for Owner {
    fn move_page(&mut self, from: PhysAddr, to: PhysAddr, order: u8) -> Moved {
        let name = word(from).get();
        if self.pinned == Some(name) {
            return Moved::Pinned;
        }
        assert_eq!(self.places.insert(name, (to, order)), Some((from, order)));
        word(to).set(name);
        Moved::Done
    }
}

#[test]
fn a_block_is_added_and_removed_whole() {
    let (frames, global) = allocator(16, End::High);
    let before = frames.statistics();
    assert_eq!(frames.free(PhysAddr(global), 0), Err(crate::frames::FreeError::Foreign));
    for round in 0..3 {
        frames.add_block(2).unwrap();
        assert_eq!(frames.statistics().free, before.free + FRAMES);
        assert_eq!(frames.allocate(MAX_ORDER), Some(PhysAddr(global + 2 * BLOCK)));
        frames.free(PhysAddr(global + 2 * BLOCK), MAX_ORDER).unwrap();
        frames.isolate(2).unwrap();
        assert_eq!(frames.statistics().free, before.free, "round {round}");
        assert_eq!(frames.allocate(MAX_ORDER), None);
        assert_eq!(frames.remove_block(2), Ok(Touched(u64::MAX)));
        assert_eq!(frames.statistics(), before);
    }
}

#[test]
fn removing_a_block_reports_only_touched_parts() {
    let (frames, _) = allocator(1, End::High);
    frames.add_block(0).unwrap();
    frames.isolate(0).unwrap();
    assert_eq!(frames.remove_block(0).unwrap(), Touched(1), "the links of the one chunk");
    frames.add_block(0).unwrap();
    let chunk = frames.allocate(11).unwrap();
    frames.free(chunk, 11).unwrap();
    frames.isolate(0).unwrap();
    let touched = frames.remove_block(0).unwrap();
    assert_eq!((touched, touched.bytes()), (Touched(0x1_ffff_ffff), 33 * PART));
    assert_eq!(touched.parts().last(), Some(8 * MIB));
}

#[test]
fn operations_in_a_wrong_state_are_errors() {
    let (frames, _) = allocator(16, End::High);
    let state = Err(BlockError::State);
    assert_eq!((frames.isolate(0), frames.restore(0)), (state, state));
    assert_eq!(frames.remove_block(0), Err(BlockError::State));
    assert_eq!((frames.add_block(BLOCKS), frames.add_block(usize::MAX)), (state, state));
    frames.add_block(0).unwrap();
    assert_eq!((frames.add_block(0), frames.restore(0)), (state, state));
    assert_eq!(frames.remove_block(0), Err(BlockError::State), "not isolated");
    frames.isolate(0).unwrap();
    assert_eq!((frames.isolate(0), frames.restore(0)), (state, Ok(())));
    assert_eq!(FrameAllocator::new().add_block(0), state, "no global region");
}

#[test]
fn movable_frames_are_placed_at_the_frontier_and_others_far_from_it() {
    for (frontier, near, far) in [(End::High, 2, 1), (End::Low, 1, 2)] {
        let (frames, global) = allocator(1, frontier);
        [1, 2].into_iter().for_each(|index| frames.add_block(index).unwrap());
        let movable = |_| frames.allocate_placed(0, Placing::Movable).unwrap();
        let all: Vec<_> = (0..100).map(movable).collect();
        assert!(all.iter().all(|&at| block_of(global, at) == Some(near)));
        let home = frames.allocate(0).unwrap();
        assert_eq!(block_of(global, home), None, "home first");
        while frames.allocate(4).is_some_and(|at| block_of(global, at).is_none()) {}
        let fixed = frames.allocate(9).unwrap();
        assert_eq!(block_of(global, fixed), Some(far));
    }
}

#[test]
fn a_block_with_unmovable_frames_stays() {
    let (frames, global) = allocator(1, End::High);
    frames.add_block(0).unwrap();
    let fixed = frames.allocate(9).unwrap();
    assert_eq!(block_of(global, fixed), Some(0));
    frames.isolate(0).unwrap();
    let before = frames.statistics();
    let mut owner = Owner::default();
    assert_eq!(frames.evacuate(0, &mut owner), Err(BlockError::Unmovable(fixed)));
    assert_eq!(frames.remove_block(0), Err(BlockError::InUse));
    assert_eq!(frames.statistics(), before, "nothing has changed");
    frames.restore(0).unwrap();
    frames.free(fixed, 9).unwrap();
    frames.isolate(0).unwrap();
    assert_eq!(frames.evacuate(0, &mut owner), Ok(0));
    assert!(frames.remove_block(0).is_ok());
}

#[test]
fn nothing_is_moved_without_room_elsewhere() {
    let (frames, _) = allocator(1, End::High);
    frames.add_block(0).unwrap();
    let all: Vec<_> = (0..300).map(|_| frames.allocate_placed(0, Placing::Movable)).collect();
    frames.isolate(0).unwrap();
    assert_eq!(frames.evacuate(0, &mut Owner::default()), Err(BlockError::NoMemory));
    assert!(all.iter().all(Option::is_some));
}

/// Movable and fixed frames and blocks come and go; all contents survive, and the counts are right.
#[test]
fn blocks_come_and_go_under_random_load() {
    for seed in 0..12 {
        let mut prng = Prng::new(seed);
        let frontier = if prng.chance(1, 2) { End::Low } else { End::High };
        let (frames, global) = allocator(24, frontier);
        let fresh = frames.statistics();
        let (mut owner, mut fixed, mut present) = (Owner::default(), BTreeMap::new(), 0u32);
        let (mut moved, mut left) = (0, 0);
        for name in 1..4000 {
            match prng.below(20) {
                0..11 => {
                    let order = (prng.below(64).trailing_zeros() as u8).min(6);
                    let movable = prng.chance(2, 3);
                    let placing = if movable { Placing::Movable } else { Placing::Fixed };
                    let Some(at) = frames.allocate_placed(order, placing) else { continue };
                    let block = block_of(global, at);
                    assert!(block.is_none_or(|index| present >> index & 1 == 1), "seed {seed}");
                    word(at).set(name);
                    let book = if movable { &mut owner.places } else { &mut fixed };
                    book.insert(name, (at, order));
                }
                11..19 => {
                    let movable = prng.chance(2, 3);
                    let book = if movable { &mut owner.places } else { &mut fixed };
                    let nth = prng.below(book.len().max(1) as u64) as usize;
                    let Some(name) = book.keys().nth(nth).copied() else { continue };
                    let (at, order) = book.remove(&name).unwrap();
                    assert_eq!(word(at).get(), name, "seed {seed}: contents");
                    frames.free(at, order).unwrap();
                }
                _ => {
                    let index = prng.below(BLOCKS as u64) as usize;
                    if present >> index & 1 == 0 {
                        frames.add_block(index).unwrap();
                        present |= 1 << index;
                        continue;
                    }
                    frames.isolate(index).unwrap();
                    owner.pinned = owner.places.keys().nth(prng.below(200) as usize).copied();
                    match frames.evacuate(index, &mut owner) {
                        Ok(count) => {
                            moved += count;
                            left += 1;
                            frames.remove_block(index).unwrap();
                            present &= !(1 << index);
                        }
                        Err(_) => frames.restore(index).unwrap(),
                    }
                }
            }
            let used = owner.places.values().chain(fixed.values());
            let used: usize = used.map(|&(_, order)| 1usize << order).sum();
            let have = fresh.free + present.count_ones() as usize * FRAMES;
            assert_eq!(frames.statistics().free + used, have, "seed {seed}");
        }
        assert!(moved > 0 && left > 3, "seed {seed}: {moved} moved, {left} blocks left");
        for (name, (at, order)) in owner.places.into_iter().chain(fixed) {
            assert_eq!(word(at).get(), name, "seed {seed}: contents");
            frames.free(at, order).unwrap();
        }
        for index in (0..BLOCKS).filter(|index| present >> index & 1 == 1) {
            frames.isolate(index).unwrap();
            frames.remove_block(index).unwrap();
        }
        assert_eq!(frames.statistics(), fresh, "seed {seed}");
    }
}

#[test]
fn a_frame_that_its_owner_frees_meanwhile_is_not_freed_twice() {
    let (frames, _) = allocator(16, End::High);
    frames.add_block(0).unwrap();
    assert!(frames.allocate_placed(0, Placing::Movable).is_some());
    frames.isolate(0).unwrap();
    struct Leaves<'a>(&'a FrameAllocator);
    impl Mover for Leaves<'_> {
        fn move_page(&mut self, from: PhysAddr, _: PhysAddr, order: u8) -> Moved {
            self.0.free(from, order).unwrap();
            Moved::Gone
        }
    }
    let free = frames.statistics().free;
    assert_eq!(frames.evacuate(0, &mut Leaves(&frames)), Ok(0));
    assert_eq!(frames.statistics().free, free);
    assert!(frames.remove_block(0).is_ok());
}

#[test]
fn pressure_is_reported_below_the_threshold() {
    let (frames, _) = allocator(1, End::High);
    let free = frames.free_frames();
    frames.set_low(free);
    assert!(!frames.was_pressed());
    let frame = frames.allocate(0).unwrap();
    assert!(frames.was_pressed() && !frames.was_pressed(), "reported once");
    frames.free(frame, 0).unwrap();
    frames.add_block(0).unwrap();
    assert!(frames.allocate(10).is_some() && !frames.was_pressed());
    frames.set_low(free + 1);
    assert!(!frames.was_pressed());
    frames.isolate(0).unwrap();
    assert!(frames.was_pressed(), "isolated frames do not count");
}
