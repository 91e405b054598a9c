//! Tests of windows.

use super::super::tests::{free, kernel, nothing};
use super::super::{FaultOutcome, PageSource, Spaces};
use super::*;
use crate::MemoryManager;
use arch::cpu::machine::Machine;
use arch::lock::Lock;
use arch::mmu::PageTable;
use base::id::CoreId;
use std::boxed::Box;
use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::vec::Vec;

const MIB: u64 = 1 << 20;

impl Shown for OwnFrames {
    fn pages(&self) -> usize {
        OwnFrames::pages(self)
    }

    fn frame(&self, page: usize) -> Option<PhysAddr> {
        OwnFrames::frame(self, page)
    }
}

fn machine(bytes: u64) -> (&'static MemoryManager, Lock<PageTable>) {
    let (frames, table) = kernel(bytes);
    (Box::leak(Box::new(frames)), table)
}

/// A space of so many open pages.
fn space(spaces: &Spaces, pages: u64) -> VirtAddr {
    let at = spaces.reserve(pages * PAGE).unwrap();
    spaces.open(at, pages * PAGE).unwrap();
    at
}

fn frame_at(table: &Lock<PageTable>, at: VirtAddr) -> Option<PhysAddr> {
    table.lock().find(at).map(|found| found.phys)
}

#[test]
fn two_spaces_show_the_same_memory_and_their_own_pages_are_free() {
    let (frames, table) = machine(4 * MIB);
    let from = PageSource { table: &table, frames };
    let spaces = Spaces::new();
    let (here, there) = (space(&spaces, 8), space(&spaces, 8));
    spaces.commit(here, 8 * PAGE, from).unwrap();
    let memory = Arc::new(OwnFrames::new(3, frames).unwrap());
    let first = spaces.reserve_window((here.plus(2 * PAGE), 3 * PAGE), 1, from).unwrap();
    let second = spaces.reserve_window((there, 8 * PAGE), 1, from).unwrap();
    let before = free(frames);

    let flushed = Cell::new(0);
    let flush = |at: VirtAddr, bytes: u64| {
        flushed.set(flushed.get() + bytes);
        // Another core faults before its TLB is flushed.
        assert_eq!(spaces.handle_fault(at.0, from), FaultOutcome::Mapped, "it is repeated");
        assert_eq!(frame_at(&table, at), None);
    };
    assert!(spaces.show(first, memory.clone(), from, &flush));
    assert_eq!((flushed.get(), free(frames)), (3 * PAGE, before + 3));
    assert!(spaces.show(second, memory.clone(), from, &flush));
    assert_eq!(flushed.get(), 3 * PAGE, "no page was there");
    for page in 0..3 {
        let shown = memory.frame(page as usize);
        assert_eq!(frame_at(&table, here.plus((2 + page) * PAGE)), shown);
        assert_eq!(frame_at(&table, there.plus(page * PAGE)), shown);
    }
    assert_eq!((spaces.committed(here), spaces.committed(there)), (5 * PAGE, 0));
    // A window that is shorter than what was reserved leaves the rest alone.
    assert_eq!(spaces.handle_fault(there.0 + 3 * PAGE, from), FaultOutcome::Mapped);
    assert_eq!(spaces.committed(there), PAGE, "those around it are the window's");

    spaces.end_window(first, from, &flush);
    assert_eq!((flushed.get(), frame_at(&table, here.plus(2 * PAGE))), (6 * PAGE, None));
    assert_eq!(spaces.handle_fault(here.0 + 3 * PAGE, from), FaultOutcome::Mapped, "its own again");
    assert_ne!(frame_at(&table, here.plus(3 * PAGE)), memory.frame(1));
    spaces.release(there, from, &nothing);
    assert_eq!(Arc::strong_count(&memory), 1, "a space that is gone shows nothing");
    drop(memory);
    spaces.release(here, from, &nothing);
    assert_eq!((spaces.promised(), free(frames)), (0, before + 3 + 8 - 1 + 1));
}

#[test]
fn what_was_reserved_is_as_before_until_it_shows_something() {
    let (frames, table) = machine(4 * MIB);
    let from = PageSource { table: &table, frames };
    let spaces = Spaces::new();
    let at = space(&spaces, 8);
    let id = spaces.reserve_window((at, 4 * PAGE), 1, from).unwrap();
    assert_eq!(spaces.handle_fault(at.0, from), FaultOutcome::Mapped);
    assert_eq!(spaces.committed(at), 4 * PAGE);
    for (at, bytes, why) in [
        (at.plus(3 * PAGE), PAGE, SpaceError::Range),
        (at.plus(7 * PAGE), 2 * PAGE, SpaceError::NotOpen),
        (at.plus(5 * PAGE + 1), PAGE, SpaceError::Range),
        (at.plus(5 * PAGE), 0, SpaceError::Range),
    ] {
        assert_eq!(spaces.reserve_window((at, bytes), 1, from), Err(why));
    }
    let long = Arc::new(OwnFrames::new(5, frames).unwrap());
    assert!(!spaces.show(id, long.clone(), from, &nothing), "longer than what was reserved");
    spaces.end_window(id, from, &nothing);
    assert!(!spaces.show(id, long, from, &nothing), "nothing is reserved");
    assert_eq!(spaces.committed(at), 4 * PAGE);
    // As many as an owner, and all owners can have, of which none is lost.
    let most = MAX_WINDOWS as u64;
    let many = space(&spaces, most + 1);
    for _ in 0..2 {
        let one =
            |page: u64, owner| spaces.reserve_window((many.plus(page * PAGE), PAGE), owner, from);
        let mut all: Vec<u64> = (0..most / 2).map(|page| one(page, 1).unwrap()).collect();
        assert_eq!(one(most, 1), Err(SpaceError::TooMany));
        all.extend((most / 2..most).map(|page| one(page, 2).unwrap()));
        assert_eq!(one(most, 3), Err(SpaceError::TooMany));
        all.into_iter().for_each(|id| spaces.end_window(id, from, &nothing));
    }
}

#[test]
fn windows_of_several_batches_lie_across_tables() {
    let (frames, table) = machine(16 * MIB);
    let from = PageSource { table: &table, frames };
    let spaces = Spaces::new();
    let pages = 2 * BATCH + 3;
    let at = space(&spaces, 4 * MIB / PAGE);
    let start = at.plus(super::super::TABLE - 70 * PAGE);
    let memory = Arc::new(OwnFrames::new(pages, frames).unwrap());
    let id = spaces.reserve_window((start, pages as u64 * PAGE), 1, from).unwrap();
    spaces.commit(start.plus(9 * PAGE), 70 * PAGE, from).unwrap();
    assert!(spaces.show(id, memory.clone(), from, &nothing));
    let shown = |page: usize| frame_at(&table, start.plus(page as u64 * PAGE));
    assert!((0..pages).all(|page| shown(page) == memory.frame(page)));
    assert_eq!(spaces.committed(at), 0);
    spaces.end_window(id, from, &nothing);
    assert!((0..pages).all(|page| shown(page).is_none()));
}

/// Threads fault in and around a range that shows memory again and again.
#[test]
fn faults_of_other_cores_never_bring_a_page_into_a_window() {
    let (frames, table) = machine(8 * MIB);
    let from = PageSource { table: &table, frames };
    let spaces = Spaces::new();
    let at = space(&spaces, 8);
    let memory = Arc::new(OwnFrames::new(5, frames).unwrap());
    let (machine, is_over) = (Machine::real_time(), AtomicBool::new(false));
    machine.enter(CoreId(0));
    thread::scope(|scope| {
        for core in 1..3 {
            let (spaces, machine, is_over) = (&spaces, &machine, &is_over);
            scope.spawn(move || {
                machine.enter(CoreId(core));
                let mut page = u64::from(core);
                while !is_over.load(Ordering::Relaxed) {
                    page = (page * 5 + 3) % 8;
                    let found = spaces.handle_fault(at.0 + page * PAGE, from);
                    assert_eq!(found, FaultOutcome::Mapped);
                    thread::yield_now();
                }
            });
        }
        let yields = |_: VirtAddr, _: u64| thread::yield_now();
        for _ in 0..300 {
            let id = spaces.reserve_window((at.plus(PAGE), 5 * PAGE), 1, from).unwrap();
            assert!(spaces.show(id, memory.clone(), from, &yields));
            for page in 0..5 {
                let shown = frame_at(&table, at.plus((1 + page as u64) * PAGE));
                assert_eq!(shown, memory.frame(page));
            }
            spaces.end_window(id, from, &yields);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    spaces.release(at, from, &nothing);
    assert_eq!((spaces.promised(), Arc::strong_count(&memory)), (0, 1));
}
