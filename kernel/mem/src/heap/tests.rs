//! Tests of `heap`, against models and by seeds.

use std::boxed::Box;
use std::collections::BTreeMap;

use base::prng::Prng;

use super::*;
use crate::KernelHeap;
use crate::MemoryManager;
use crate::testing::memory;

const MIB: u64 = 1 << 20;

fn manager(bytes: u64) -> &'static MemoryManager {
    let manager = Box::leak(Box::new(MemoryManager::new()));
    manager.add_region(memory(bytes, 0), bytes, &[]).unwrap();
    manager
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn layouts_map_to_size_classes_and_frames() {
    assert_eq!(backing(layout(1, 1)), Backing::Class(0));
    assert_eq!(backing(layout(48, 16)), Backing::Class(2));
    assert_eq!(backing(layout(48, 64)), Backing::Class(3), "aligned to 64");
    assert_eq!(backing(layout(2048, 2048)), Backing::Class(13));
    assert_eq!(backing(layout(2049, 1)), Backing::Frames(1));
    assert_eq!(backing(layout(8, 4096)), Backing::Frames(1));
    assert_eq!(backing(layout(8, 16384)), Backing::Frames(4), "aligned to four frames");
    assert_eq!(backing(layout(4097, 1)), Backing::Frames(2));
    assert_eq!(backing(layout(100_000, 1)), Backing::Frames(25));
    assert_eq!(backing(layout(16 << 20, 1)), Backing::Frames(4096));
    assert_eq!(backing(layout((16 << 20) + 1, 1)), Backing::TooLarge);
    assert_eq!(backing(layout(isize::MAX as usize, 1)), Backing::TooLarge);
}

/// Random objects against a model: aligned, disjoint, and nothing is lost at the end.
#[test]
fn random_objects_match_a_model() {
    for seed in 0..20 {
        let (manager, heap) = (manager(8 * MIB), Heap::new());
        let fresh = manager.statistics();
        let mut prng = Prng::new(seed);
        let mut out: BTreeMap<usize, Layout> = BTreeMap::new();
        for _ in 0..4000 {
            if prng.chance(11, 20) {
                let largest = 1 << (1 + prng.below(14));
                let layout = layout(1 + prng.below(largest) as usize, 1 << prng.below(8));
                let Some(at) = heap.allocate(manager, layout) else { continue };
                let at = at.get();
                assert_eq!(at % layout.align(), 0, "seed {seed}: {layout:?}");
                let below = out.range(..at + layout.size()).next_back();
                assert!(below.is_none_or(|(start, l)| start + l.size() <= at), "seed {seed}");
                out.insert(at, layout);
                // The heap writes into free memory, which must not be part of any object.
                if layout.size() >= 8 {
                    Word::at(at & !7).set(at as u64);
                }
            } else if let Some((&at, &layout)) =
                out.iter().nth(prng.below(out.len().max(1) as u64) as usize)
            {
                if layout.size() >= 8 {
                    assert_eq!(Word::at(at & !7).get(), at as u64, "seed {seed}");
                }
                out.remove(&at);
                heap.free(manager, NonZeroUsize::new(at).unwrap(), layout);
            }
        }
        for (at, layout) in out {
            heap.free(manager, NonZeroUsize::new(at).unwrap(), layout);
        }
        let usage = heap.usage();
        assert_eq!(usage.used, 0, "seed {seed}");
        let at_most: usize = SIZES.iter().map(|&size| slab_bytes(size)).sum();
        assert!(usage.taken <= at_most, "seed {seed}: more than one empty slab per class");
        manager.flush_core();
        let kept = (fresh.free - manager.statistics().free) * PAGE as usize;
        assert_eq!(kept, usage.taken, "seed {seed}");
        assert_eq!(manager.bad_frees(), 0, "seed {seed}");
    }
}

#[test]
fn a_heap_without_memory_fails_and_recovers() {
    let (manager, heap) = (manager(MIB), Heap::new());
    let small = layout(1000, 8);
    let all: std::vec::Vec<_> = core::iter::from_fn(|| heap.allocate(manager, small)).collect();
    assert!(all.len() > 900 && heap.allocate(manager, small).is_none());
    assert!(heap.allocate(manager, layout(64 << 10, 8)).is_none());
    all.into_iter().for_each(|at| heap.free(manager, at, small));
    assert!(heap.allocate(manager, layout(256 << 10, 8)).is_some());
}

#[test]
#[allow(unsafe_code, reason = "the interface of global allocators is unsafe")]
fn the_heap_works_as_global_allocator() {
    use core::alloc::GlobalAlloc;
    let heap = KernelHeap::new();
    let (small, large) = (layout(100, 8), layout(100_000, 8));
    // SAFETY: each allocation is freed once, with its layout, and used within its size.
    unsafe {
        assert!(heap.alloc(small).is_null(), "before init");
        heap.init(manager(MIB));
        let object = heap.alloc(small);
        object.write_bytes(7, 100);
        assert_eq!(heap.realloc(object, small, 120), object, "the same class");
        let object = heap.realloc(object, layout(120, 8), 100_000);
        assert!((0..100).all(|i| object.add(i).read() == 7));
        assert!(heap.realloc(object, large, 10 << 20).is_null(), "too large: the old one stays");
        assert_eq!(object.read(), 7);
        let object = heap.realloc(object, large, 8);
        assert_eq!(object.read(), 7);
        heap.dealloc(object, layout(8, 8));
        heap.flush_core();
        assert_eq!(heap.usage().used, 0);
        let zeroed = heap.alloc_zeroed(large);
        assert!((0..100_000).all(|i| zeroed.add(i).read() == 0));
        heap.dealloc(zeroed, large);
    }
}

/// Objects by way of the magazines against a model: disjoint, and only the magazines' contents are
/// left at the end.
#[test]
#[allow(unsafe_code, reason = "the interface of global allocators is unsafe")]
fn what_cores_keep_is_given_out_once() {
    use core::alloc::GlobalAlloc;
    let (heap, mut prng) = (KernelHeap::new(), Prng::new(9));
    heap.init(manager(8 * MIB));
    let mut out: BTreeMap<usize, Layout> = BTreeMap::new();
    let free = |out: &mut BTreeMap<usize, Layout>, nth: usize| {
        let (&at, &layout) = out.iter().nth(nth).unwrap();
        assert_eq!(Word::at(at).get(), at as u64);
        out.remove(&at);
        // SAFETY: it was allocated with this layout, and is no longer in the model.
        unsafe { heap.dealloc(at as *mut u8, layout) };
    };
    for _ in 0..20_000 {
        if prng.chance(11, 20) && out.len() < 1000 {
            let layout = layout(8 + prng.below(3000) as usize, 8);
            // SAFETY: the layout has a size.
            let at = unsafe { heap.alloc(layout) } as usize;
            assert!(at != 0);
            let below = out.range(..at + layout.size()).next_back();
            assert!(below.is_none_or(|(start, l)| start + l.size() <= at));
            Word::at(at).set(at as u64);
            out.insert(at, layout);
        } else if !out.is_empty() {
            let nth = prng.below(out.len() as u64) as usize;
            free(&mut out, nth);
        }
    }
    while !out.is_empty() {
        free(&mut out, 0);
    }
    let most = 6 * SIZES.iter().sum::<usize>();
    assert!((1..=most).contains(&heap.usage().used), "{}", heap.usage().used);
    heap.flush_core();
    assert_eq!(heap.usage().used, 0);
}
