//! Tests of `spaces`.

use std::vec::Vec;

use arch::lock::Rank;

use super::*;
use crate::MemoryManager;
use crate::testing::memory;

const MIB: u64 = 1 << 20;

fn kernel(bytes: u64) -> (MemoryManager, Lock<PageTable>) {
    let manager = MemoryManager::new();
    manager.add_region(memory(bytes, 0), bytes, &[]).unwrap();
    let table = PageTable::new(&manager).unwrap();
    (manager, Lock::new(Rank::new(50, "page table"), table))
}

fn nothing(_: VirtAddr, _: u64) {}

#[test]
fn memory_comes_when_it_is_touched_and_goes_with_the_space() {
    let (frames, table) = kernel(4 * MIB);
    let from = From { table: &table, frames: &frames };
    let before = frames.statistics().free;
    let spaces = Spaces::new();
    let at = spaces.reserve(4 << 30).unwrap();
    assert_eq!(spaces.demand(at.0, from), Demand::Other, "nothing is open");
    spaces.open(at, 64 << 10).unwrap();
    assert_eq!(spaces.promised(), 64 << 10);
    assert_eq!(spaces.demand(at.0 + 5 * PAGE + 7, from), Demand::Met);
    assert_eq!(spaces.committed(at), AROUND * PAGE);
    let found = table.lock().find(at.plus(5 * PAGE)).unwrap();
    assert_eq!((found.bytes, found.rights), (PAGE, Rights::ReadWrite));
    assert_eq!(spaces.demand(at.0 + 5 * PAGE, from), Demand::Other, "it is there");
    assert_eq!(spaces.demand(at.0 + (64 << 10), from), Demand::Other, "not open");
    spaces.open(at.plus(64 << 10), 64 << 10).unwrap();
    assert_eq!(spaces.demand(at.0 + (64 << 10), from), Demand::Met);
    spaces.release(at, from, &nothing);
    assert_eq!(frames.statistics().free, before);
    assert_eq!(spaces.promised(), 0);
    assert_eq!(spaces.demand(at.0, from), Demand::Other);
    assert_eq!(spaces.reserve(PAGE).unwrap(), at, "its slot is free again");
}

#[test]
fn code_is_committed_then_protected() {
    let (frames, table) = kernel(4 * MIB);
    let from = From { table: &table, frames: &frames };
    let spaces = Spaces::new();
    let at = spaces.reserve(8 * PAGE).unwrap();
    spaces.open(at, 8 * PAGE).unwrap();
    spaces.commit(at, 8 * PAGE, from).unwrap();
    let frame = table.lock().find(at.plus(PAGE)).unwrap().phys;
    spaces.protect(at.plus(PAGE), 2 * PAGE, Rights::ReadExecute, from, &nothing).unwrap();
    let rights = |page| table.lock().find(at.plus(page * PAGE)).unwrap().rights;
    assert_eq!(
        [0, 1, 2, 3].map(rights).map(|r| r == Rights::ReadExecute),
        [false, true, true, false]
    );
    assert_eq!(table.lock().find(at.plus(PAGE)).unwrap().phys, frame, "what was in it stays");
    assert_eq!(spaces.demand(at.0 + PAGE, from), Demand::Other, "a write to code is not met");
    spaces.release(at, from, &nothing);
}

#[test]
fn without_memory_a_touch_says_so_and_nothing_is_lost() {
    let (frames, table) = kernel(MIB);
    let from = From { table: &table, frames: &frames };
    frames.flush_core();
    let before = frames.statistics().free;
    let spaces = Spaces::new();
    let at = spaces.reserve(16 * MIB).unwrap();
    spaces.open(at, 16 * MIB).unwrap();
    let touched = (0..16 * MIB).step_by(PAGE as usize);
    let last =
        touched.map(|page| spaces.demand(at.0 + page, from)).find(|&d| d == Demand::NoMemory);
    assert_eq!(last, Some(Demand::NoMemory));
    assert_eq!(spaces.commit(at, 16 * MIB, from), Err(SpaceError::NoMemory));
    spaces.release(at, from, &nothing);
    frames.flush_core();
    assert_eq!(frames.statistics().free, before);
}

#[test]
fn limits_are_errors() {
    let spaces = Spaces::new();
    assert_eq!(spaces.reserve(0), Err(SpaceError::Range));
    assert_eq!(spaces.reserve(SLOT + PAGE), Err(SpaceError::Range));
    assert_eq!(spaces.open(VirtAddr(AREA.0 - PAGE), PAGE), Err(SpaceError::NotOpen));
    let all: Vec<_> = (0..MAX_SPACES).map(|_| spaces.reserve(PAGE).unwrap()).collect();
    assert_eq!(spaces.reserve(PAGE), Err(SpaceError::TooMany));
    assert_eq!(spaces.open(all[7], 2 * PAGE), Err(SpaceError::Range));
    assert!(is_inside(all[MAX_SPACES - 1].0 + SLOT - 1));
    assert!(!is_inside(all[MAX_SPACES - 1].0 + SLOT));
}
