//! Pages that may be moved: those of the monitor's `balloon fill`, until programs have theirs.
//!
//! A page's words say which page it is, so that one that is lost, torn or mixed up is found.

use crate::memory::FRAMES;
use alloc::collections::BTreeMap;
use arch::lock::Lock;
use base::addr::PhysAddr;
use kernel_mem::frames::span::{Moved, Mover};
use kernel_mem::raw::Page;

/// Pages by their place, with their names.
struct Pages {
    pages: BTreeMap<PhysAddr, (Page, u64)>,
    next: u64,
}

static PAGES: Lock<Pages> =
    Lock::new(crate::ranks::MOVABLE, Pages { pages: BTreeMap::new(), next: 1 });

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
        let name = all.next;
        all.next += 1;
        (0..Page::WORDS).for_each(|index| page.set(index, word(name, index)));
        all.pages.insert(page.at(), (page, name));
    }
    count
}

/// Looks at every word of every page.
pub fn check() -> Count {
    let (mut count, mut at) = (Count::default(), PhysAddr(0));
    // Page by page, so that others get the lock.
    loop {
        let all = PAGES.lock();
        let Some((&place, (page, name))) = all.pages.range(at..).next() else { return count };
        let right = (0..Page::WORDS).all(|index| page.get(index) == word(*name, index));
        count.pages += 1;
        count.wrong += usize::from(!right || page.at() != place);
        at = place.plus(1);
    }
}

/// Gives up to `count` pages back, the lowest first; how many.
pub fn drop_pages(count: u64) -> u64 {
    for dropped in 0..count {
        let first = PAGES.lock().pages.pop_first();
        let Some((_, (page, _))) = first else { return dropped };
        page.free(&FRAMES);
    }
    count
}

/// How many there are.
pub fn count() -> usize {
    PAGES.lock().pages.len()
}

/// Their owner, for the balloon.
pub struct Owner;

impl Mover for Owner {
    fn move_page(&mut self, from: PhysAddr, to: PhysAddr, order: u8) -> Moved {
        let mut all = PAGES.lock();
        if order != 0 {
            return Moved::Pinned;
        }
        let Some((mut page, name)) = all.pages.remove(&from) else { return Moved::Gone };
        page.relocate(to);
        all.pages.insert(to, (page, name));
        Moved::Done
    }
}
