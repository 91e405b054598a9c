//! Windows: ranges of spaces that show other memory in the place of their own pages. The same
//! memory can be shown in several spaces at once.
//!
//! ```text
//!   reserve_window (a place, page tables) --show--> shown --end_window, release--> gone
//!                  | end_window
//!                  v  gone: nothing has changed
//! ```
//! Contract: showing cannot fail, so a range is reserved before anything depends on it. While a
//! range changes, an access to it faults until the change is over: faults give pages only under the
//! lock of the page table and only to ranges that are no windows, so none is mapped between the
//! removal of a page and the flush of the TLBs. What was there before is freed, and after the
//! window the range is open and without memory, so it reads as zeros. The shown memory stays as
//! long as a range shows it.

use super::{BATCH, PageSource, SLOT, SpaceError, Spaces};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;
use core::sync::atomic::Ordering;

/// Most windows of a kernel, and of one owner.
pub const MAX_WINDOWS: usize = 64;
const OF_OWNER: usize = MAX_WINDOWS / 2;

/// Memory that windows show: whole frames, which stay until it is dropped.
pub trait Shown: Send + Sync {
    fn pages(&self) -> usize;
    /// Returns the frame of a page.
    fn frame(&self, page: usize) -> Option<PhysAddr>;
}

/// Frames that belong to windows alone.
pub struct OwnFrames {
    all: Vec<PhysAddr>,
    from: &'static (dyn Frames + Sync),
}

impl OwnFrames {
    /// Allocates frames, all of them or none.
    pub fn new(pages: usize, from: &'static (dyn Frames + Sync)) -> Option<OwnFrames> {
        let mut all = Vec::new();
        all.try_reserve_exact(pages).ok()?;
        let mut own = OwnFrames { all, from };
        for _ in 0..pages {
            own.all.push(from.allocate(0)?);
        }
        Some(own)
    }

    pub fn pages(&self) -> usize {
        self.all.len()
    }

    pub fn frame(&self, page: usize) -> Option<PhysAddr> {
        self.all.get(page).copied()
    }
}

impl Drop for OwnFrames {
    fn drop(&mut self) {
        self.all.iter().for_each(|&frame| self.from.free(frame, 0));
    }
}

enum State {
    /// The range has its own pages.
    Reserved,
    /// It is about to show memory, or to show it no longer.
    Changes,
    Shows(Arc<dyn Shown>),
}

struct Window {
    id: u64,
    /// Charged for it.
    owner: u32,
    at: VirtAddr,
    bytes: u64,
    state: State,
}

impl Window {
    fn overlaps(&self, at: VirtAddr, bytes: u64) -> bool {
        at.0 < self.at.0 + self.bytes && self.at.0 < at.0 + bytes
    }

    /// Whether the pages in its range are not the space's own.
    fn is_foreign(&self) -> bool {
        !matches!(self.state, State::Reserved)
    }
}

/// The windows of all spaces.
pub(super) struct Windows {
    all: [Option<Window>; MAX_WINDOWS],
    /// Windows made so far.
    made: u64,
}

impl Windows {
    pub(super) const fn new() -> Windows {
        Windows { all: [const { None }; MAX_WINDOWS], made: 0 }
    }

    fn each(&self) -> impl Iterator<Item = &Window> {
        self.all.iter().flatten()
    }

    fn find(&mut self, id: u64) -> Option<&mut Window> {
        self.all.iter_mut().flatten().find(|window| window.id == id)
    }

    fn remove(&mut self, id: u64) {
        let place = self.all.iter_mut().find(|it| it.as_ref().is_some_and(|it| it.id == id));
        if let Some(place) = place {
            *place = None;
        }
    }
}

impl Spaces {
    /// Reserves `[at, at + bytes)`, which must be open, for a window of this owner. Returns its
    /// number. Fails with `Range` if it overlaps another window.
    pub fn reserve_window(
        &self,
        (at, bytes): (VirtAddr, u64),
        owner: u32,
        from: PageSource<'_>,
    ) -> Result<u64, SpaceError> {
        self.reserve_tables(at, bytes, from)?;
        let windows = &mut *self.windows.lock();
        if windows.each().any(|window| window.overlaps(at, bytes)) {
            return Err(SpaceError::Range);
        }
        let has_room = windows.each().filter(|window| window.owner == owner).count() < OF_OWNER;
        let place = windows.all.iter_mut().find(|place| place.is_none()).filter(|_| has_room);
        let place = place.ok_or(SpaceError::TooMany)?;
        windows.made += 1;
        *place = Some(Window { id: windows.made, owner, at, bytes, state: State::Reserved });
        self.window_count.fetch_add(1, Ordering::Relaxed);
        Ok(windows.made)
    }

    /// Shows memory from the start of a reserved range on. Returns false if the range is too short,
    /// or not reserved.
    pub fn show(
        &self,
        id: u64,
        memory: Arc<dyn Shown>,
        from: PageSource<'_>,
        flush: &dyn Fn(VirtAddr, u64),
    ) -> bool {
        let bytes = memory.pages() as u64 * PAGE;
        let mut windows = self.windows.lock();
        let window = windows.find(id).filter(|it| !it.is_foreign() && it.bytes >= bytes);
        let Some(window) = window else { return false };
        (window.bytes, window.state) = (bytes, State::Changes);
        let at = window.at;
        drop(windows);
        for first in (0..memory.pages()).step_by(BATCH) {
            let pages = BATCH.min(memory.pages() - first);
            let mut frames = [None; BATCH];
            let frames = &mut frames[..pages];
            frames.iter_mut().enumerate().for_each(|(page, it)| *it = memory.frame(first + page));
            let at = at.plus(first as u64 * PAGE);
            self.clear((at, pages), from, flush);
            let given = from.table.lock().give(at, frames);
            debug_assert_eq!(given, pages, "a window has a page of the space's own");
        }
        if let Some(window) = self.windows.lock().find(id) {
            window.state = State::Shows(memory);
        }
        true
    }

    /// Ends a window, or a reservation.
    pub fn end_window(&self, id: u64, from: PageSource<'_>, flush: &dyn Fn(VirtAddr, u64)) {
        let mut windows = self.windows.lock();
        let Some(window) = windows.find(id) else { return };
        let at = window.at;
        let shown = match core::mem::replace(&mut window.state, State::Changes) {
            State::Reserved => None,
            // Another thread is about to end it.
            State::Changes => return,
            State::Shows(memory) => Some(memory),
        };
        drop(windows);
        let pages = shown.as_ref().map_or(0, |memory| memory.pages());
        for first in (0..pages).step_by(BATCH) {
            let (at, pages) = (at.plus(first as u64 * PAGE), BATCH.min(pages - first));
            let mut frames = [None; BATCH];
            let taken = from.table.lock().take(at, &mut frames[..pages]);
            flush(at, pages as u64 * PAGE);
            debug_assert_eq!(taken, pages, "a window lacks a page");
        }
        self.windows.lock().remove(id);
        self.window_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the windows of a space that is released.
    pub(super) fn end_windows(
        &self,
        at: VirtAddr,
        from: PageSource<'_>,
        flush: &dyn Fn(VirtAddr, u64),
    ) {
        while self.has_windows() {
            let is_its =
                |it: &&Window| it.overlaps(at, SLOT) && !matches!(it.state, State::Changes);
            let found = self.windows.lock().each().find(is_its).map(|it| it.id);
            let Some(id) = found else { return };
            self.end_window(id, from, flush);
        }
    }

    /// Returns whether there may be windows.
    fn has_windows(&self) -> bool {
        self.window_count.load(Ordering::Relaxed) != 0
    }

    /// Returns whether the page of an address is a window's, and not the space's own.
    pub fn is_foreign(&self, address: u64) -> bool {
        self.foreign_pages(VirtAddr(address & !(PAGE - 1)), 1) != 0
    }

    /// Returns which of these pages are not the space's own, a bit each.
    pub(super) fn foreign_pages(&self, at: VirtAddr, pages: u64) -> u64 {
        if !self.has_windows() {
            return 0;
        }
        let windows = self.windows.lock();
        let is_foreign = |page: u64| {
            let at = at.plus(page * PAGE);
            windows.each().any(|window| window.is_foreign() && window.overlaps(at, PAGE))
        };
        (0..pages).fold(0, |foreign, page| foreign | u64::from(is_foreign(page)) << page)
    }
}

#[cfg(test)]
mod tests;
