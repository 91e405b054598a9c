//! Tests of `cache`, against models and by seeds.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::vec::Vec;

use arch::cpu::machine::Machine;
use base::id::CoreId;
use base::prng::Prng;

use super::*;
use crate::testing::memory;

const MIB: u64 = 1 << 20;

fn manager(bytes: u64) -> MemoryManager {
    let manager = MemoryManager::new();
    manager.add_region(memory(bytes, 0), bytes, &[]).unwrap();
    manager
}

#[test]
fn single_frames_come_from_the_cache_in_batches() {
    let manager = manager(MIB);
    let before = manager.statistics().free;
    let frame = manager.allocate_one().unwrap();
    assert_eq!(manager.statistics().free, before - BATCH);
    manager.free_one(frame).unwrap();
    assert_eq!(manager.allocate_one(), Some(frame), "the last one freed is warm");
    manager.free_one(frame).unwrap();
    manager.flush_core();
    assert_eq!(manager.statistics().free, before);
}

#[test]
fn the_cache_detects_wrong_frees() {
    let manager = manager(MIB);
    let frame = manager.allocate_one().unwrap();
    assert_eq!(manager.free_one(frame.plus(8)), Err(FreeError::NotAllocated));
    assert_eq!(manager.free_one(PhysAddr(0)), Err(FreeError::Foreign));
    manager.free_one(frame).unwrap();
    assert_eq!(manager.free_one(frame), Err(FreeError::NotAllocated), "it is in the cache");
    let pair = manager.allocate(1).unwrap();
    assert_eq!(manager.free_one(pair), Err(FreeError::NotAllocated), "it is a pair");
    manager.free(frame, 0);
    assert_eq!(manager.bad_frees(), 1);
}

#[test]
fn every_frame_can_be_allocated_and_a_large_block_empties_the_cache() {
    let manager = manager(MIB);
    let all: Vec<_> = core::iter::from_fn(|| manager.allocate(0)).collect();
    assert_eq!(all.len(), 255);
    all.iter().for_each(|&frame| manager.free(frame, 0));
    assert!(manager.allocate(7).is_some(), "although frames of it were in the cache");
    assert_eq!(manager.bad_frees(), 0);
}

/// Four cores allocate, free, and pass frames to each other: no frame is allocated twice.
#[test]
fn four_cores_never_allocate_a_frame_twice() {
    let manager = manager(4 * MIB);
    let fresh = manager.statistics();
    let machine = Machine::real_time();
    let out = Mutex::new(BTreeSet::new());
    let passed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for core in 0..4 {
            let (manager, machine, out, passed) = (&manager, &machine, &out, &passed);
            scope.spawn(move || {
                machine.enter(CoreId(core));
                let mut prng = Prng::new(u64::from(core));
                for _ in 0..20_000 {
                    if prng.chance(1, 2) {
                        let Some(frame) = manager.allocate(0) else { continue };
                        assert!(out.lock().unwrap().insert(frame), "{frame:?} was allocated twice");
                        passed.lock().unwrap().push(frame);
                    } else if let Some(frame) = passed.lock().unwrap().pop() {
                        assert!(out.lock().unwrap().remove(&frame));
                        manager.free_one(frame).unwrap();
                    }
                }
                manager.flush_core();
            });
        }
    });
    passed.into_inner().unwrap().into_iter().for_each(|frame| manager.free_one(frame).unwrap());
    manager.flush_core();
    assert_eq!(manager.statistics(), fresh);
    assert_eq!(manager.bad_frees(), 0);
}

#[test]
fn caches_keep_no_frame_of_an_isolated_block() {
    let (base, global) = (memory(MIB, 0), memory(abi::boot::BLOCK, 0));
    let manager = MemoryManager::new();
    let tags = base.plus(4096);
    manager.add_region(base, MIB, &[(tags, tags.plus(4096))]).unwrap();
    manager.buddy().adopt_global(global, 1, tags, crate::blocks::End::High);
    manager.buddy().add_block(0).unwrap();
    let in_block = |at: &PhysAddr| (global.0..global.0 + abi::boot::BLOCK).contains(&at.0);
    let all: Vec<_> = (0..400).map(|_| manager.allocate_one().unwrap()).collect();
    let (mut here, mut inside): (Vec<_>, Vec<_>) = all.into_iter().partition(|at| !in_block(at));
    let last = inside.pop().unwrap();
    inside.into_iter().for_each(|frame| manager.free_one(frame).unwrap());
    manager.buddy().isolate(0).unwrap();
    manager.flush_core();
    manager.free_one(last).unwrap();
    while let Some(frame) = manager.allocate_one() {
        assert!(!in_block(&frame), "{frame:?} was allocated from the isolated block");
        here.push(frame);
    }
    assert!(manager.buddy().remove_block(0).is_ok());
    here.into_iter().for_each(|frame| manager.free_one(frame).unwrap());
}

#[test]
fn movable_frames_bypass_the_caches() {
    let manager = manager(MIB);
    let free = manager.statistics().free;
    let frame = manager.allocate_movable(0).unwrap();
    assert_eq!(manager.statistics().free, free - 1);
    manager.free_one(frame).unwrap();
    assert_eq!(manager.statistics().free, free);
    assert_eq!(manager.free_one(frame), Err(FreeError::NotAllocated));
}
