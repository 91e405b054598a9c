//! Pages that may be moved: those of the monitor's `balloon fill`, until programs have theirs.
//!
//! A page's words say which page it is, so that one that is lost, torn or mixed up is found.
//!
//! Pages are found by their place: a table of slots for each 2 MiB, as a page table would have it,
//! for moving a page must not cost a search. A page on its way is in no table: it is the mover's
//! alone, who copies it without a lock and so without masking interrupts.

use crate::memory::FRAMES;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::addr::{PAGE, PhysAddr};
use kernel_mem::frames::span::{BATCH, Move, Moved, Mover};
use kernel_mem::raw::Page;

/// Pages that share a table.
const SLOTS: usize = 512;
/// Bytes of them.
const REACH: u64 = SLOTS as u64 * PAGE;

/// A page with its name.
type Named = (Page, u64);

/// Pages by their place.
struct Pages {
    tables: BTreeMap<u64, Vec<Option<Named>>>,
    count: usize,
    next: u64,
}

static PAGES: Lock<Pages> =
    Lock::new(crate::ranks::MOVABLE, Pages { tables: BTreeMap::new(), count: 0, next: 1 });

impl Pages {
    fn slot(&mut self, at: PhysAddr) -> Option<&mut Option<Named>> {
        let table = self.tables.get_mut(&(at.0 / REACH))?;
        table.get_mut((at.0 % REACH / PAGE) as usize)
    }

    /// Makes room for a page at `at`; false without memory.
    fn prepare(&mut self, at: PhysAddr) -> bool {
        if self.tables.contains_key(&(at.0 / REACH)) {
            return true;
        }
        let mut table = Vec::new();
        if table.try_reserve_exact(SLOTS).is_err() {
            return false;
        }
        table.resize_with(SLOTS, || None);
        self.tables.insert(at.0 / REACH, table);
        true
    }

    /// Puts a page where [`Pages::prepare`] made room.
    fn put(&mut self, named: Named) {
        if let Some(slot) = self.slot(named.0.at()) {
            *slot = Some(named);
            self.count += 1;
        }
    }

    fn take(&mut self, at: PhysAddr) -> Option<Named> {
        let named = self.slot(at)?.take()?;
        self.count -= 1;
        Some(named)
    }

    /// The first page from `at` on, with its place.
    fn first(&self, at: PhysAddr) -> Option<(PhysAddr, &Named)> {
        let mut skip = (at.0 % REACH).div_ceil(PAGE) as usize;
        for (&number, table) in self.tables.range(at.0 / REACH..) {
            let skipped = if number == at.0 / REACH { core::mem::take(&mut skip) } else { 0 };
            let mut slots = table.iter().enumerate().skip(skipped);
            if let Some((index, named)) = slots.find_map(|(i, slot)| Some((i, slot.as_ref()?))) {
                return Some((PhysAddr(number * REACH + index as u64 * PAGE), named));
            }
        }
        None
    }
}

/// Pages of this kernel, counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// All.
    pub pages: usize,
    /// With wrong contents.
    pub wrong: usize,
}

fn word(name: u64, index: usize) -> u64 {
    name.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64
}

/// Makes `count` pages, or as many as there is memory for; how many.
pub fn fill(count: u64) -> u64 {
    for made in 0..count {
        let Some(mut page) = Page::movable(&FRAMES) else { return made };
        let mut all = PAGES.lock();
        if !all.prepare(page.at()) {
            drop(all);
            page.free(&FRAMES);
            return made;
        }
        let name = all.next;
        all.next += 1;
        (0..Page::WORDS).for_each(|index| page.set(index, word(name, index)));
        all.put((page, name));
    }
    count
}

/// Looks at every word of every page.
pub fn check() -> Count {
    let (mut count, mut at) = (Count::default(), PhysAddr(0));
    // Page by page, so that others get the lock.
    loop {
        let all = PAGES.lock();
        let Some((place, (page, name))) = all.first(at) else { return count };
        let right = (0..Page::WORDS).all(|index| page.get(index) == word(*name, index));
        count.pages += 1;
        count.wrong += usize::from(!right || page.at() != place);
        at = place.plus(PAGE);
    }
}

/// Gives up to `count` pages back, the lowest first; how many.
pub fn drop_pages(count: u64) -> u64 {
    let mut at = PhysAddr(0);
    for dropped in 0..count {
        let mut all = PAGES.lock();
        let place = all.first(at).map(|(place, _)| place);
        let first = place.and_then(|place| all.take(place));
        drop(all);
        let Some((page, _)) = first else { return dropped };
        at = page.at();
        page.free(&FRAMES);
    }
    count
}

/// How many there are.
pub fn count() -> usize {
    PAGES.lock().count
}

/// Their owner, for the balloon.
pub struct Owner;

impl Owner {
    /// Takes the pages out of their tables: from here on they are the mover's alone.
    fn take(moves: &mut [Move]) -> [Option<Named>; BATCH] {
        let mut taken = [const { None }; BATCH];
        let mut all = PAGES.lock();
        // Places that follow each other mostly share a table.
        let mut prepared = None;
        for (one, slot) in moves.iter_mut().zip(&mut taken) {
            let table = Some(one.to.0 / REACH);
            if prepared != table && all.prepare(one.to) {
                prepared = table;
            }
            if one.order == 0 && prepared == table {
                *slot = all.take(one.from);
                one.moved = if slot.is_some() { Moved::Done } else { Moved::Gone };
            }
        }
        taken
    }
}

impl Mover for Owner {
    fn move_page(&mut self, from: PhysAddr, to: PhysAddr, order: u8) -> Moved {
        let mut one = [Move { from, to, order, moved: Moved::Pinned }];
        self.move_all(&mut one);
        one[0].moved
    }

    fn move_all(&mut self, moves: &mut [Move]) {
        let mut taken = Self::take(moves);
        for (one, slot) in moves.iter().zip(&mut taken) {
            if let Some((page, _)) = slot {
                page.relocate(one.to);
            }
        }
        let mut all = PAGES.lock();
        taken.into_iter().flatten().for_each(|named| all.put(named));
    }
}
