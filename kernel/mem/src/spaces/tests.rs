//! Tests of `spaces`.

use std::cell::Cell;
use std::vec::Vec;

use arch::lock::Rank;

use super::*;
use crate::MemoryManager;
use crate::testing::memory;

const MIB: u64 = 1 << 20;

pub(super) fn kernel(bytes: u64) -> (MemoryManager, Lock<PageTable>) {
    let manager = MemoryManager::new();
    manager.add_region(memory(bytes, 0), bytes, &[]).unwrap();
    let table = PageTable::new(&manager).unwrap();
    (manager, Lock::new(Rank::new(50, "page table"), table))
}

/// Returns the number of free frames, including those in the core's cache.
pub(super) fn free(frames: &MemoryManager) -> usize {
    frames.flush_core();
    frames.statistics().free
}

pub(super) fn nothing(_: VirtAddr, _: u64) {}

#[test]
fn a_touch_allocates_memory_and_release_frees_it() {
    let (frames, table) = kernel(4 * MIB);
    let from = PageSource { table: &table, frames: &frames };
    let before = free(&frames);
    let spaces = Spaces::new();
    let at = spaces.reserve(4 << 30).unwrap();
    assert_eq!(spaces.handle_fault(at.0, from), FaultOutcome::Unhandled, "nothing is open");
    spaces.open(at, 64 << 10).unwrap();
    assert_eq!(spaces.promised(), 64 << 10);
    assert_eq!(spaces.handle_fault(at.0 + 5 * PAGE + 7, from), FaultOutcome::Mapped);
    assert_eq!(spaces.committed(at), AROUND * PAGE);
    let found = table.lock().find(at.plus(5 * PAGE)).unwrap();
    assert_eq!((found.bytes, found.rights), (PAGE, Rights::ReadWrite));
    let committed = spaces.committed(at);
    // As on a core that faulted before another one had mapped the page.
    assert_eq!(spaces.handle_fault(at.0 + 5 * PAGE, from), FaultOutcome::Mapped, "it is there");
    assert_eq!(spaces.committed(at), committed);
    assert_eq!(spaces.handle_fault(at.0 + (64 << 10), from), FaultOutcome::Unhandled, "not open");
    spaces.open(at.plus(64 << 10), 64 << 10).unwrap();
    assert_eq!(spaces.handle_fault(at.0 + (64 << 10), from), FaultOutcome::Mapped);
    spaces.release(at, from, &nothing);
    assert_eq!(free(&frames), before - 1, "all but the table");
    assert_eq!(spaces.promised(), 0);
    assert_eq!(spaces.handle_fault(at.0, from), FaultOutcome::Unhandled);
    assert_eq!(spaces.reserve(PAGE).unwrap(), at, "its slot is free again");
}

#[test]
fn code_is_committed_then_protected() {
    let (frames, table) = kernel(4 * MIB);
    let from = PageSource { table: &table, frames: &frames };
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
    assert_eq!(
        spaces.handle_fault(at.0 + PAGE, from),
        FaultOutcome::Unhandled,
        "code is not writable"
    );
    spaces.release(at, from, &nothing);
}

#[test]
fn a_touch_without_memory_fails_and_loses_nothing() {
    let (frames, table) = kernel(MIB);
    let from = PageSource { table: &table, frames: &frames };
    let before = free(&frames);
    let spaces = Spaces::new();
    let at = spaces.reserve(16 * MIB).unwrap();
    spaces.open(at, 16 * MIB).unwrap();
    let touched = (0..16 * MIB).step_by(PAGE as usize);
    let last = touched
        .map(|page| spaces.handle_fault(at.0 + page, from))
        .find(|&d| d == FaultOutcome::NoMemory);
    assert_eq!(last, Some(FaultOutcome::NoMemory));
    assert_eq!(spaces.commit(at, 16 * MIB, from), Err(SpaceError::NoMemory));
    spaces.release(at, from, &nothing);
    assert_eq!(free(&frames), before - 1, "the slot's first table stays");
}

#[test]
fn exceeded_limits_are_errors() {
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

/// Touches one page in each of `tables` tables, starting with table `first`.
fn touch_sparsely(spaces: &Spaces, at: VirtAddr, first: u64, tables: u64, from: PageSource<'_>) {
    spaces.open(at, (first + tables) * TABLE).unwrap();
    for table in first..first + tables {
        assert_eq!(
            spaces.handle_fault(at.0 + table * TABLE + TABLE / 2, from),
            FaultOutcome::Mapped
        );
    }
}

#[test]
fn tables_of_a_sparse_space_are_freed_with_it() {
    let (frames, table) = kernel(16 * MIB);
    let from = PageSource { table: &table, frames: &frames };
    let (before, tables) = (free(&frames), || table.lock().tables());
    let spaces = Spaces::new();
    // Occupies a slot each, so that the next program gets the next slot.
    for slot in 1..=20 {
        let at = spaces.reserve(SLOT).unwrap();
        touch_sparsely(&spaces, at, 0, 200, from);
        assert_eq!(tables(), slot + 200);
        spaces.release(at, from, &nothing);
        assert_eq!(tables(), slot + 1, "a slot keeps its first one");
        let at = spaces.reserve(PAGE).unwrap();
        spaces.open(at, PAGE).unwrap();
        spaces.commit(at, PAGE, from).unwrap();
        assert_eq!(tables(), slot + 1, "which is there for the next");
    }
    assert_eq!(free(&frames), before - 20 * 2);
}

#[test]
fn tables_are_flushed_before_they_are_freed() {
    let (frames, table) = kernel(16 * MIB);
    let from = PageSource { table: &table, frames: &frames };
    let before = free(&frames);
    let spaces = Spaces::new();
    let at = spaces.reserve(SLOT).unwrap();
    let many = 3 * BATCH as u64;
    touch_sparsely(&spaces, at, 1, many, from);
    let whole = core::cell::Cell::new(0);
    let flush = |start: VirtAddr, bytes| {
        if bytes == SLOT {
            let left = table.lock().tables() - 1;
            assert_eq!(start, at);
            assert!(
                free(&frames) + left < before,
                "those that are out, but not flushed, are not free"
            );
            whole.set(whole.get() + 1);
        }
    };
    spaces.release(at, from, &flush);
    assert_eq!((free(&frames), table.lock().tables()), (before, 1));
    assert_eq!(whole.get(), many.div_ceil(BATCH as u64 - 1));
}

#[test]
fn a_space_of_one_table_needs_no_additional_flush() {
    let (frames, table) = kernel(4 * MIB);
    let from = PageSource { table: &table, frames: &frames };
    let spaces = Spaces::new();
    let at = spaces.reserve(SLOT).unwrap();
    spaces.open(at, 2 * MIB).unwrap();
    assert_eq!(spaces.handle_fault(at.0 + 2 * MIB - 1, from), FaultOutcome::Mapped);
    spaces.release(at, from, &|_, bytes| assert!(bytes < SLOT));
    assert_eq!(table.lock().tables(), 2);
}

#[test]
fn random_spaces_never_share_tables() {
    for seed in 0..20 {
        let (frames, table) = kernel(16 * MIB);
        let from = PageSource { table: &table, frames: &frames };
        let spaces = Spaces::new();
        let mut random = seed * 2 + 1;
        let mut next = |below: u64| {
            random = u64::wrapping_mul(random, 6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut all: Vec<(VirtAddr, Vec<u64>)> = Vec::new();
        for _ in 0..200 {
            if all.len() < 4 && next(2) == 0 {
                let at = spaces.reserve(SLOT).unwrap();
                spaces.open(at, 40 * MIB).unwrap();
                all.push((at, Vec::new()));
            } else if !all.is_empty() && next(3) == 0 {
                let (at, _) = all.swap_remove(next(all.len() as u64) as usize);
                spaces.release(at, from, &nothing);
            } else if let Some((at, touched)) = all.first_mut() {
                let offset = next(40 * MIB);
                if spaces.handle_fault(at.0 + offset, from) == FaultOutcome::Mapped {
                    touched.push(offset);
                }
            }
            let is_there = |at: VirtAddr| table.lock().find(at).is_some();
            assert!(all.iter().all(|(at, pages)| pages.iter().all(|&p| is_there(at.plus(p)))));
        }
        all.iter().for_each(|(at, _)| spaces.release(*at, from, &nothing));
        let kept = table.lock().tables() - 1;
        assert!(kept <= 4, "{kept} tables of 4 slots");
    }
}

/// Two spaces, the first with a table and 8 open pages, the second with 8 open ones.
fn two_spaces(from: PageSource<'_>) -> (Spaces, [VirtAddr; 2]) {
    let spaces = Spaces::new();
    let at = [(); 2].map(|()| spaces.reserve(8 * PAGE).unwrap());
    at.iter().for_each(|at| spaces.open(*at, 8 * PAGE).unwrap());
    (spaces.reserve_tables(at[1], 8 * PAGE, from).map(|()| spaces).unwrap(), at)
}

#[test]
fn pages_pass_from_one_space_to_another_and_leave_zeros() {
    let (frames, table) = kernel(4 * MIB);
    let from = PageSource { table: &table, frames: &frames };
    let before = free(&frames);
    let (spaces, [here, there]) = two_spaces(from);
    spaces.commit(here, 2 * PAGE, from).unwrap();
    spaces.commit(there, PAGE, from).unwrap();
    let frame_at = |at: VirtAddr| table.lock().find(at).map(|found| found.phys);
    let first = frame_at(here);
    raw::fill(first.unwrap(), &[7; PAGE as usize]);

    let flushed = Cell::new(0);
    let flush = |_: VirtAddr, bytes: u64| flushed.set(flushed.get() + bytes);
    let passing = spaces.take((here, 3 * PAGE), b"rest", from, &flush).unwrap();
    assert_eq!((flushed.get(), spaces.committed(here)), (3 * PAGE, 0));
    assert_eq!(spaces.promised(), 15 * PAGE, "what was taken is promised again");
    assert_eq!([0, 1, 2].map(|page| passing.page(page)[4095]), [7, 0, 0]);
    assert_eq!(&passing.page(3)[..6], b"rest\0\0");
    assert_eq!(frame_at(here), None);

    spaces.put((there, 4 * PAGE), passing, &flush).unwrap();
    assert_eq!(flushed.get(), 7 * PAGE, "a page was there");
    assert_eq!(frame_at(there), first);
    let has_page = [0, 1, 2, 3].map(|page| frame_at(there.plus(page * PAGE)).is_some());
    assert_eq!(has_page, [true, true, false, true], "a page without memory needs none");
    assert_eq!((spaces.committed(there), spaces.promised()), (3 * PAGE, 13 * PAGE));
    assert_eq!(spaces.handle_fault(here.0, from), FaultOutcome::Mapped);
    for at in [here, there] {
        spaces.release(at, from, &nothing);
    }
    assert_eq!((free(&frames), spaces.promised()), (before - 2, 0), "all but two tables");
}

#[test]
fn pages_that_pass_are_freed_or_go_back() {
    let (frames, table) = kernel(4 * MIB);
    let from = PageSource { table: &table, frames: &frames };
    let (spaces, [here, _]) = two_spaces(from);
    spaces.commit(here, 8 * PAGE, from).unwrap();
    let before = free(&frames);
    let first = table.lock().find(here).unwrap().phys;
    let passing = spaces.take((here, 2 * PAGE), b"rest", from, &nothing).unwrap();
    assert_eq!(free(&frames), before - 1, "the copy of the rest");
    spaces.put((here, 2 * PAGE), passing, &nothing).unwrap();
    assert_eq!((free(&frames), spaces.committed(here)), (before, 8 * PAGE));
    assert_eq!(table.lock().find(here).unwrap().phys, first);
    drop(spaces.take((here, 8 * PAGE), &[], from, &nothing));
    assert_eq!((free(&frames), spaces.committed(here)), (before + 8, 0));
}

#[test]
fn more_pages_than_a_batch_pass_over_the_end_of_a_table() {
    let (frames, table) = kernel(8 * MIB);
    let from = PageSource { table: &table, frames: &frames };
    let spaces = Spaces::new();
    let pages = 2 * BATCH as u64 + 3;
    let [here, there] = [(); 2].map(|()| spaces.reserve(4 * MIB).unwrap());
    for at in [here, there] {
        spaces.open(at, 4 * MIB).unwrap();
        spaces.reserve_tables(at, 4 * MIB, from).unwrap();
    }
    let (from_here, to_there) = (here.plus(TABLE - 5 * PAGE), there.plus(TABLE - 70 * PAGE));
    let length = pages * PAGE;
    spaces.commit(from_here, length, from).unwrap();
    spaces.commit(to_there.plus(3 * PAGE), length - 3 * PAGE, from).unwrap();
    let before = free(&frames);
    let frame_at = |at: VirtAddr| table.lock().find(at).map(|found| found.phys);
    let all = |at: VirtAddr| (0..pages).map(|page| frame_at(at.plus(page * PAGE))).collect();
    let was: Vec<_> = all(from_here);
    let passing = spaces.take((from_here, length), &[], from, &nothing).unwrap();
    spaces.put((to_there, length), passing, &nothing).unwrap();
    let is: Vec<_> = all(to_there);
    assert_eq!(is, was);
    assert_eq!(free(&frames), before + pages as usize - 3);
    assert_eq!((spaces.committed(here), spaces.committed(there)), (0, length));
    assert_eq!(spaces.promised(), 2 * 4 * MIB - length);
}

#[test]
fn only_whole_open_pages_pass() {
    let (frames, table) = kernel(4 * MIB);
    let from = PageSource { table: &table, frames: &frames };
    let (spaces, [here, there]) = two_spaces(from);
    for range in [(here, 9 * PAGE), (here.plus(8), PAGE), (here, 0), (here, 5), (AREA, u64::MAX)] {
        assert!(spaces.take(range, &[], from, &nothing).is_none());
        let passing = spaces.take((there, PAGE), &[], from, &nothing).unwrap();
        assert!(spaces.put(range, passing, &nothing).is_err());
        assert!(spaces.reserve_tables(range.0, range.1, from).is_err());
    }
}
