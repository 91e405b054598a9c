//! Pages that pass from one space to another: their frames change hands instead of being copied.
//!
//! ```text
//!   space --take--> Passing --put--> another space, or the same one
//!                      | drop: the frames are freed
//! ```
//! Contract: a page that was taken is open and without memory, so it reads as zeros, as a page does
//! that was never touched. A page without memory is not allocated to be taken: it passes as a page
//! of zeros, and one is left where it is put. Until then nothing writes to what passes.

use super::{BATCH, PageSource, SpaceError, Spaces, TABLE};
use crate::raw;
use alloc::vec::Vec;
use arch::mmu::PageTable;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use core::fmt;

static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// Pages that were taken from a space.
pub struct Passing<'a> {
    frames: Vec<Option<PhysAddr>>,
    /// How many of them are there.
    count: usize,
    from: PageSource<'a>,
}

impl<'a> Passing<'a> {
    /// Returns nothing, with room for so many pages.
    fn with_room(pages: usize, from: PageSource<'a>) -> Option<Passing<'a>> {
        let mut frames = Vec::new();
        frames.try_reserve_exact(pages).ok()?;
        Some(Passing { frames, count: 0, from })
    }

    /// Adds a page with a copy of these bytes, and zeros after them. Returns false without memory.
    fn add_copy(&mut self, bytes: &[u8]) -> bool {
        let Some(frame) = self.from.frames.allocate(0) else { return false };
        raw::fill(frame, bytes);
        self.frames.push(Some(frame));
        self.count += 1;
        true
    }

    /// Returns the bytes of a page; of one that is not there, zeros.
    pub fn page(&self, number: usize) -> &[u8] {
        let frame = self.frames.get(number).copied().flatten();
        frame.map_or(ZEROS.as_slice(), |frame| raw::bytes(self, frame).as_slice())
    }
}

impl fmt::Debug for Passing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages", self.frames.len())
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.frames.iter().flatten().for_each(|&frame| self.from.frames.free(frame, 0));
    }
}

impl Spaces {
    /// Takes the pages of `[at, at + bytes)`, which must be open, and adds a page with a copy of
    /// `rest`, unless that is empty; it must not fault. Returns `None` without memory, with
    /// everything as it was. `flush` as in [`Spaces::protect`].
    pub fn take<'a>(
        &self,
        (at, bytes): (VirtAddr, u64),
        rest: &[u8],
        from: PageSource<'a>,
        flush: &dyn Fn(VirtAddr, u64),
    ) -> Option<Passing<'a>> {
        self.check_open(at, bytes).ok()?;
        let pages = (bytes / PAGE) as usize;
        let mut passing = Passing::with_room(pages + usize::from(!rest.is_empty()), from)?;
        if !rest.is_empty() && !passing.add_copy(rest) {
            return None;
        }
        let copy = passing.frames.pop();
        passing.frames.resize(pages, None);
        let count = from.table.lock().take(at, &mut passing.frames);
        passing.count += count;
        if let Some(copy) = copy {
            passing.frames.push(copy);
        }
        if count > 0 {
            flush(at, bytes);
        }
        self.account(at, 0, count);
        Some(passing)
    }

    /// Makes the page tables for [`Spaces::put`] in `[at, at + bytes)`, which must be open.
    pub fn reserve_tables(
        &self,
        at: VirtAddr,
        bytes: u64,
        from: PageSource<'_>,
    ) -> Result<(), SpaceError> {
        let (slot, offset) = self.check_open(at, bytes)?;
        let mut table = from.table.lock();
        let last = at.plus(bytes - PAGE);
        let is_of_one = at.0 / TABLE == last.0 / TABLE;
        if bytes <= TABLE && has_table(&table, at) && (is_of_one || has_table(&table, last)) {
            return Ok(());
        }
        let reserved = table.reserve(from.frames, at, bytes);
        drop(table);
        // A failed call may have allocated some.
        let space = &mut self.slots.lock()[slot];
        space.mapped_end = space.mapped_end.max(offset + bytes);
        reserved.map_err(|_| SpaceError::NoMemory)
    }

    /// Puts pages in the place of those of `[at, at + bytes)`, which must be open and have their
    /// tables, as many as there are. The pages that were there are freed, and so are those that are
    /// left over.
    pub fn put<'a>(
        &self,
        (at, bytes): (VirtAddr, u64),
        mut passing: Passing<'a>,
        flush: &dyn Fn(VirtAddr, u64),
    ) -> Result<(), Passing<'a>> {
        if self.check_open(at, bytes).is_err() {
            return Err(passing);
        }
        let from = passing.from;
        let pages = passing.frames.len().min((bytes / PAGE) as usize);
        let (mut at, mut given) = (at, 0);
        for batch in passing.frames[..pages].chunks_mut(BATCH) {
            self.clear((at, batch.len()), from, flush);
            let mapped = from.table.lock().give(at, batch);
            self.account(at, mapped, 0);
            given += mapped;
            at = at.plus(batch.len() as u64 * PAGE);
        }
        debug_assert!(passing.frames[..pages].iter().all(Option::is_none), "pages are lost");
        if given == passing.count {
            // None is left to be freed.
            passing.frames.clear();
        }
        Ok(())
    }

    /// Frees the pages at these addresses, at most [`BATCH`].
    pub(super) fn clear(
        &self,
        (at, pages): (VirtAddr, usize),
        from: PageSource<'_>,
        flush: &dyn Fn(VirtAddr, u64),
    ) {
        let mut table = from.table.lock();
        let is_of_one = at.0 / TABLE == at.plus((pages as u64 - 1) * PAGE).0 / TABLE;
        if is_of_one && table.missing(at, pages) == Some(u64::MAX >> (BATCH - pages)) {
            return;
        }
        let mut old = [None; BATCH];
        let count = table.take(at, &mut old[..pages]);
        drop(table);
        if count > 0 {
            flush(at, pages as u64 * PAGE);
            // First promised, then free.
            self.account(at, 0, count);
            old.iter().flatten().for_each(|&frame| from.frames.free(frame, 0));
        }
    }
}

fn has_table(table: &PageTable, at: VirtAddr) -> bool {
    table.missing(at, 1).is_some()
}
