//! Tests of `stacks`, against models and by seeds.

use std::cell::RefCell;
use std::vec::Vec;

use arch::lock::Rank;

use super::*;
use crate::MemoryManager;
use crate::testing::memory;

const MIB: u64 = 1 << 20;
const TABLE: Rank = Rank::new(50, "page table");

fn kernel(bytes: u64) -> (MemoryManager, Lock<PageTable>) {
    let manager = MemoryManager::new();
    manager.add_region(memory(bytes, 0), bytes, &[]).unwrap();
    let table = PageTable::new(&manager).unwrap();
    (manager, Lock::new(TABLE, table))
}

fn mapped(table: &Lock<PageTable>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    table.lock().walk(&mut |leaf| match ranges.last_mut() {
        Some(last) if last.1 == leaf.virt.0 => last.1 += leaf.bytes,
        _ => ranges.push((leaf.virt.0, leaf.virt.0 + leaf.bytes)),
    });
    ranges
}

#[test]
fn a_stack_lies_between_guards() {
    let (manager, table) = kernel(MIB);
    let stacks = Stacks::new();
    let all: Vec<_> =
        (0..3).map(|_| stacks.allocate(&table, &manager, &|_, _| {}).unwrap()).collect();
    let ranges = mapped(&table);
    assert_eq!(ranges.len(), 3, "no two touch");
    for (stack, &(start, end)) in all.iter().zip(&ranges) {
        assert_eq!((stack.bottom().0, stack.top().0), (start, end));
        assert_eq!(start % SLOT, PAGE, "a guard below");
        assert_eq!(end - start, STACK);
        assert_eq!(end % 16, 0);
    }
}

#[test]
fn released_stacks_are_reused_without_mapping() {
    let (manager, table) = kernel(MIB);
    let stacks = Stacks::new();
    let first = stacks.allocate(&table, &manager, &|_, _| {}).unwrap();
    let place = first.top();
    let free = manager.statistics().free;
    stacks.release(first);
    let again = stacks.allocate(&table, &manager, &|_, _| {}).unwrap();
    assert_eq!(again.top(), place);
    assert_eq!(manager.statistics().free, free);
}

#[test]
fn trimming_flushes_before_it_frees() {
    let (manager, table) = kernel(MIB);
    let stacks = Stacks::new();
    let fresh = manager.statistics().free;
    let all: Vec<_> =
        (0..4).map(|_| stacks.allocate(&table, &manager, &|_, _| {}).unwrap()).collect();
    let with_all = manager.statistics().free;
    all.into_iter().for_each(|stack| stacks.release(stack));
    assert_eq!(stacks.idle(), 4);
    let flushed = RefCell::new(Vec::new());
    let flush = |start: VirtAddr, bytes| {
        assert!(!mapped(&table).iter().any(|range| range.0 == start.0), "still mapped");
        let freed = manager.statistics().free - with_all;
        assert_eq!(freed, flushed.borrow().len() << ORDER, "not freed before");
        flushed.borrow_mut().push(bytes);
    };
    assert_eq!(stacks.trim(1, &table, &manager, &flush), 3);
    assert_eq!(*flushed.borrow(), [STACK; 3]);
    assert_eq!(manager.statistics().free, fresh - (1 << ORDER));
    assert_eq!(stacks.idle(), 1);
    assert_eq!(mapped(&table).len(), 1);
}

#[test]
fn exhaustion_is_an_error_and_loses_no_slot() {
    let (manager, table) = kernel(MIB);
    let stacks = Stacks::new();
    let mut all = Vec::new();
    let error = loop {
        match stacks.allocate(&table, &manager, &|_, _| {}) {
            Ok(stack) => all.push(stack),
            Err(error) => break error,
        }
    };
    assert_eq!(error, StackError::NoMemory);
    assert!(all.len() as u64 * STACK >= MIB / 2);
    stacks.release(all.pop().unwrap());
    assert!(stacks.allocate(&table, &manager, &|_, _| {}).is_ok());

    let (manager, table) = kernel(32 * MIB);
    let stacks = Stacks::new();
    for _ in 0..MAX_STACKS {
        stacks.allocate(&table, &manager, &|_, _| {}).unwrap();
    }
    assert_eq!(stacks.allocate(&table, &manager, &|_, _| {}), Err(StackError::TooMany));
}
