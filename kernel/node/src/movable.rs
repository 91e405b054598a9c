//! Movable pages, as test data for the balloon: pages that the monitor's `balloon fill` allocates,
//! and that the frame allocator may move to empty a block.
//!
//! Each page is filled with words that depend on its number and its kernel, so that [`check`]
//! detects a page that is lost, torn, mixed up with another, or used by another kernel as well.
//!
//! Pages are looked up by address, in one table of slots for each 2 MiB, so moving a page needs no
//! search. A page that is being moved is in no table: the mover owns it, and copies it without the
//! lock and with interrupts unmasked.

use crate::memory::FRAMES;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::addr::{PAGE, PhysAddr};
use kernel_mem::frames::span::{BATCH, Move, Moved, Mover};
use kernel_mem::page::Page;

/// Slots of a table.
const SLOTS: usize = 512;
/// Bytes that a table covers.
const REACH: u64 = SLOTS as u64 * PAGE;

/// A page with its number.
type Named = (Page, u64);

/// Pages by address.
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

    /// Makes sure that there is a slot for a page at `at`. Returns false without memory.
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

    /// Stores a page in its slot, which [`Pages::prepare`] has made.
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

    /// Returns the first page at `at` or above, with the address of its slot.
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

/// The result of [`check`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub pages: usize,
    /// Pages with wrong contents.
    pub wrong: usize,
}

fn word(name: u64, index: usize) -> u64 {
    let name = name << 8 | u64::from(crate::blob::me().0);
    name.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64
}

/// Allocates and fills `count` pages, or as many as there is memory for. Returns their number.
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

/// Checks every word of every page.
pub fn check() -> Count {
    let (mut count, mut at) = (Count::default(), PhysAddr(0));
    // The lock is taken for each page separately, so that other cores can take it in between.
    loop {
        let all = PAGES.lock();
        let Some((place, (page, name))) = all.first(at) else { return count };
        let right = (0..Page::WORDS).all(|index| page.get(index) == word(*name, index));
        count.pages += 1;
        count.wrong += usize::from(!right || page.at() != place);
        at = place.plus(PAGE);
    }
}

/// Frees up to `count` pages, the lowest first. Returns how many it has freed.
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

/// Returns the number of pages.
pub fn count() -> usize {
    PAGES.lock().count
}

/// Moves the pages for the balloon.
pub struct Owner;

impl Owner {
    /// Takes pages out of their tables, after preparing the slots of their new addresses.
    fn take(moves: &mut [Move]) -> [Option<Named>; BATCH] {
        let mut taken = [const { None }; BATCH];
        let mut all = PAGES.lock();
        // Consecutive addresses mostly share a table.
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
