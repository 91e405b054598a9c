//! Address space for programs: their memories, code and stacks, with demand paging.
//!
//! A *space* is a slot of [`SLOT`] bytes in a separate part of virtual memory. A prefix of it is
//! *open*: pages there are allocated when they are touched ([`Spaces::handle_fault`]) or in advance
//! ([`Spaces::commit`]). Accesses elsewhere fault. Only the reserver of a space changes it. Several
//! cores may fault in it at the same time, on the same page too. A fault is a read or a write: code
//! is never fetched from a page that was not committed.
//!
//! ```text
//!   reserve --> nothing open --open--> [0, open) allocated on touch --release--> free
//!                                        commit:  allocates a range in advance
//!                                        protect: makes committed pages read-only or executable
//! ```
//! Pages also pass from one space to another ([`Passing`]), and ranges of several spaces can show
//! the same memory ([`Shown`]).
//!
//! A released slot keeps its first last-level page table for its next user, and frees the others.
//! Otherwise a program that touches a page in each of many tables would leave those tables in the
//! slot: memory that no account shows.

use arch::lock::Lock;
use arch::mmu::PageTable;
use arch::types::{MapError, Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::{ranks, raw};

mod passing;
mod windows;

pub use passing::Passing;
use windows::Windows;
pub use windows::{MAX_WINDOWS, OwnFrames, Shown};

/// Address space per slot: 4 GiB and the guard after them.
pub const SLOT: u64 = 8 << 30;
/// Limit on spaces: three per program, one for each further thread, and some for code that is not
/// running.
pub const MAX_SPACES: usize = 1024;
/// Start of the slots, above all stacks.
pub const AREA: VirtAddr = VirtAddr(0xffff_d000_0000_0000);
/// A fault maps the aligned group of this many pages that contains its page.
const AROUND: u64 = 4;
/// Limit on pages or tables that are unmapped between two TLB flushes.
const BATCH: usize = 64;
/// Address range that one last-level table maps.
pub const TABLE: u64 = 2 << 20;
/// The largest range of one table that lies within a slot.
const LARGEST: u64 = 1 << 30;
const _: () = assert!(SLOT.is_multiple_of(LARGEST) && AREA.0.is_multiple_of(LARGEST));

/// Why an operation on a space failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceError {
    /// [`MAX_SPACES`] are in use.
    TooMany,
    /// Larger than a slot, or not a multiple of pages.
    Range,
    /// No such space, or the range is not open.
    NotOpen,
    NoMemory,
}

/// The outcome of a page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The page is mapped now.
    Mapped,
    /// Not in an open part of a space, or the page forbids the access.
    Unhandled,
    /// The page is open, but there is no memory for it.
    NoMemory,
}

#[derive(Clone, Copy)]
struct Space {
    /// Reserved bytes; 0 if the slot is free.
    bytes: u64,
    /// End of the last page that ever had a table.
    mapped_end: u64,
}

const FREE: Space = Space { bytes: 0, mapped_end: 0 };

/// All spaces of a kernel.
pub struct Spaces {
    slots: Lock<[Space; MAX_SPACES]>,
    /// Bytes of each slot that may be touched: read without the lock, changed with it.
    opened: [AtomicU64; MAX_SPACES],
    /// Number of pages of each slot with memory.
    committed: [AtomicU64; MAX_SPACES],
    /// Number of open pages without memory.
    promised: AtomicU64,
    windows: Lock<Windows>,
    /// How many there are, reservations included.
    window_count: AtomicUsize,
}

/// Where pages come from.
#[derive(Clone, Copy)]
pub struct PageSource<'a> {
    /// The kernel's page table.
    pub table: &'a Lock<PageTable>,
    pub frames: &'a (dyn Frames + Sync),
}

/// Memory that is promised until this is dropped.
pub struct Promise<'a> {
    spaces: &'a Spaces,
    pages: u64,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.spaces.promised.fetch_sub(self.pages, Ordering::Relaxed);
    }
}

impl Default for Spaces {
    fn default() -> Self {
        Spaces::new()
    }
}

/// Returns whether `address` lies in the area of the slots.
pub const fn is_inside(address: u64) -> bool {
    address >= AREA.0 && address - AREA.0 < SLOT * MAX_SPACES as u64
}

/// Returns the slot of an address and the offset within it.
fn locate(address: u64) -> Option<(usize, u64)> {
    let offset = address.checked_sub(AREA.0)?;
    let slot = usize::try_from(offset / SLOT).ok().filter(|&slot| slot < MAX_SPACES)?;
    Some((slot, offset % SLOT))
}

fn start_of(slot: usize) -> VirtAddr {
    AREA.plus(slot as u64 * SLOT)
}

impl Spaces {
    pub const fn new() -> Self {
        let slots = Lock::new(ranks::SPACES, [FREE; MAX_SPACES]);
        let windows = Lock::new(ranks::WINDOWS, Windows::new());
        let [opened, committed] = [const { [const { AtomicU64::new(0) }; MAX_SPACES] }; 2];
        let (promised, window_count) = (AtomicU64::new(0), AtomicUsize::new(0));
        Spaces { slots, opened, committed, promised, windows, window_count }
    }

    /// Reserves `bytes` bytes of address space, none of it open.
    pub fn reserve(&self, bytes: u64) -> Result<VirtAddr, SpaceError> {
        if bytes == 0 || bytes > SLOT || !bytes.is_multiple_of(PAGE) {
            return Err(SpaceError::Range);
        }
        let mut slots = self.slots.lock();
        let slot = slots.iter().position(|space| space.bytes == 0).ok_or(SpaceError::TooMany)?;
        slots[slot] = Space { bytes, ..FREE };
        Ok(start_of(slot))
    }

    /// Opens everything up to `at + bytes`.
    pub fn open(&self, at: VirtAddr, bytes: u64) -> Result<(), SpaceError> {
        let (slot, offset) = locate(at.0).ok_or(SpaceError::NotOpen)?;
        let end = offset.checked_add(bytes).ok_or(SpaceError::Range)?;
        let slots = self.slots.lock();
        if end > slots[slot].bytes || !end.is_multiple_of(PAGE) {
            return Err(SpaceError::Range);
        }
        let before = self.opened(slot);
        self.promised.fetch_add(end.saturating_sub(before) / PAGE, Ordering::Relaxed);
        self.opened[slot].store(before.max(end), Ordering::Release);
        Ok(())
    }

    /// Returns the bytes of a slot that may be touched.
    #[inline]
    fn opened(&self, slot: usize) -> u64 {
        self.opened[slot].load(Ordering::Acquire)
    }

    /// Returns the open bytes without memory, over all spaces.
    pub fn promised(&self) -> u64 {
        self.promised.load(Ordering::Relaxed) * PAGE
    }

    /// Promises memory for something else than open pages, until the result is dropped.
    pub fn promise(&self, bytes: u64) -> Promise<'_> {
        let pages = bytes / PAGE;
        self.promised.fetch_add(pages, Ordering::Relaxed);
        Promise { spaces: self, pages }
    }

    /// Returns the bytes of memory that the space at `at` has.
    pub fn committed(&self, at: VirtAddr) -> u64 {
        locate(at.0).map_or(0, |(slot, _)| self.pages(slot) * PAGE)
    }

    /// Returns the number of pages of a slot with memory. One that is taken may be accounted for
    /// before it is accounted as mapped.
    fn pages(&self, slot: usize) -> u64 {
        self.committed[slot].load(Ordering::Relaxed).cast_signed().max(0).cast_unsigned()
    }

    /// Returns whether `address` is in an open part of a space.
    pub fn is_open(&self, address: u64) -> bool {
        locate(address).is_some_and(|(slot, offset)| offset < self.opened(slot))
    }

    /// Checks that a range of whole pages is open. Returns its slot, and its offset there.
    fn check_open(&self, at: VirtAddr, bytes: u64) -> Result<(usize, u64), SpaceError> {
        let (slot, offset) = locate(at.0).ok_or(SpaceError::NotOpen)?;
        let end = offset.checked_add(bytes).ok_or(SpaceError::Range)?;
        if bytes == 0 || !(offset | bytes).is_multiple_of(PAGE) {
            return Err(SpaceError::Range);
        }
        if end > self.opened(slot) {
            return Err(SpaceError::NotOpen);
        }
        Ok((slot, offset))
    }

    /// Handles a page fault at `address`: allocates its page, and some around it, if they are open.
    /// Callable from the fault handler: it waits for locks only.
    pub fn handle_fault(&self, address: u64, from: PageSource<'_>) -> FaultOutcome {
        let Some((slot, offset)) = locate(address) else { return FaultOutcome::Unhandled };
        let open = self.opened(slot);
        if offset >= open {
            return FaultOutcome::Unhandled;
        }
        let first = offset & !(AROUND * PAGE - 1);
        let touched = (offset - first) / PAGE;
        let pages = (open - first).div_ceil(PAGE).min(AROUND);
        match self.map_pages((slot, first), pages, 1 << touched, from) {
            Err(SpaceError::NoMemory) => FaultOutcome::NoMemory,
            Err(_) => FaultOutcome::Unhandled,
            Ok(mapped) if mapped & 1 << touched != 0 => FaultOutcome::Mapped,
            // Another core has changed it since the fault, or its rights forbid the access.
            Ok(_) => changed_meanwhile(start_of(slot).plus(first + touched * PAGE), from),
        }
    }

    /// Allocates all pages of `[at, at + bytes)`, which must be open.
    pub fn commit(&self, at: VirtAddr, bytes: u64, from: PageSource<'_>) -> Result<(), SpaceError> {
        let (slot, offset) = self.check_open(at, bytes)?;
        let (mut first, end) = (offset, offset + bytes);
        while first < end {
            let of_table = (TABLE - first % TABLE) / PAGE;
            let pages = of_table.min((end - first) / PAGE).min(AROUND);
            self.map_pages((slot, first), pages, u64::MAX, from)?;
            first += pages * PAGE;
        }
        Ok(())
    }

    /// Maps zeroed pages where none are mapped, out of at most [`AROUND`] pages of one table. Those
    /// in `must`, a bit each, must get memory, others may. Returns which ones it has mapped.
    fn map_pages(
        &self,
        (slot, first): (usize, u64),
        pages: u64,
        must: u64,
        from: PageSource<'_>,
    ) -> Result<u64, SpaceError> {
        let at = start_of(slot).plus(first);
        let known = from.table.lock().missing(at, pages as usize);
        let missing = known.unwrap_or((1 << pages) - 1) & !self.foreign_pages(at, pages);
        if known.is_none() {
            self.reserve_tables(at, pages * PAGE, from)?;
        }
        let mut frames = [None; AROUND as usize];
        let frames = &mut frames[..pages as usize];
        let mut got = allocate_zeroed(frames, missing & must, from);
        if got != missing & must {
            frames.iter().flatten().for_each(|&frame| from.frames.free(frame, 0));
            return Err(SpaceError::NoMemory);
        }
        got |= allocate_zeroed(frames, missing & !must, from);
        let given = self.give_own(at, frames, from);
        self.account(at, given, 0);
        // Another core has mapped these meanwhile, or they are a window's now.
        for (page, frame) in frames.iter().enumerate() {
            if let Some(frame) = *frame {
                from.frames.free(frame, 0);
                got &= !(1 << page);
            }
        }
        Ok(got)
    }

    /// Maps frames where no page is mapped, except in windows. Removes what it maps from `frames`.
    /// Returns how many.
    fn give_own(
        &self,
        at: VirtAddr,
        frames: &mut [Option<PhysAddr>],
        from: PageSource<'_>,
    ) -> usize {
        let mut table = from.table.lock();
        // A range becomes a window before its pages are taken, under this lock.
        let foreign = self.foreign_pages(at, frames.len() as u64);
        if foreign == 0 {
            return table.give(at, frames);
        }
        let own = frames.iter_mut().enumerate().filter(|(page, _)| foreign >> page & 1 == 0);
        own.map(|(page, frame)| {
            table.give(at.plus(page as u64 * PAGE), core::slice::from_mut(frame))
        })
        .sum()
    }

    /// Accounts for pages of the space at `at` that were mapped, in tables that it has, and
    /// unmapped.
    fn account(&self, at: VirtAddr, mapped: usize, unmapped: usize) {
        let (mapped, unmapped) = (mapped as u64, unmapped as u64);
        if let Some((slot, _)) = locate(at.0) {
            self.committed[slot].fetch_add(mapped.wrapping_sub(unmapped), Ordering::Relaxed);
        }
        // Never less than what is promised: a page is allocated before it is accounted for, and
        // accounted for before it is free.
        self.promised.fetch_add(unmapped.wrapping_sub(mapped), Ordering::Relaxed);
    }

    /// Changes the rights of committed pages. `flush` must flush the TLBs of all cores of this
    /// domain.
    pub fn protect(
        &self,
        at: VirtAddr,
        bytes: u64,
        rights: Rights,
        from: PageSource<'_>,
        flush: &dyn Fn(VirtAddr, u64),
    ) -> Result<(), SpaceError> {
        for page in (0..bytes).step_by(PAGE as usize).map(|page| at.plus(page)) {
            let mut table = from.table.lock();
            let found = table.find(page).ok_or(SpaceError::NotOpen)?;
            if found.rights == rights {
                continue;
            }
            table.unmap(page, PAGE).map_err(|_| SpaceError::NotOpen)?;
            let again = table.map(from.frames, page, found.phys, PAGE, found.memory, rights);
            again.map_err(|_| SpaceError::NoMemory)?;
        }
        flush(at, bytes);
        Ok(())
    }

    /// Maps a frame of the caller's at `at`, in a reserved space of which nothing is open: a fault
    /// there is the caller's to handle. Returns false if a frame is mapped there.
    pub fn map_frame(
        &self,
        at: VirtAddr,
        frame: PhysAddr,
        from: PageSource<'_>,
    ) -> Result<bool, SpaceError> {
        let (slot, offset) = locate(at.0).ok_or(SpaceError::NotOpen)?;
        let (memory, rights) = (Memory::Cached, Rights::ReadWrite);
        let mapped = from.table.lock().map(from.frames, at, frame, PAGE, memory, rights);
        // A failed call may have allocated a table as well.
        let mut slots = self.slots.lock();
        slots[slot].mapped_end = slots[slot].mapped_end.max(offset + PAGE);
        drop(slots);
        match mapped {
            Ok(()) => Ok(true),
            Err(MapError::Overlap) => Ok(false),
            Err(_) => Err(SpaceError::NoMemory),
        }
    }

    /// Unmaps such a frame, which it returns. The TLBs of other cores may still have it.
    pub fn unmap_frame(&self, at: VirtAddr, from: PageSource<'_>) -> Option<PhysAddr> {
        unmap_page(at, from.table)
    }

    /// Releases a space that is no longer used. `flush` as in [`Spaces::protect`].
    pub fn release(&self, at: VirtAddr, from: PageSource<'_>, flush: &dyn Fn(VirtAddr, u64)) {
        let Some((slot, 0)) = locate(at.0) else { return };
        self.end_windows(at, from, flush);
        let (open, mut committed) = (self.opened(slot), self.pages(slot));
        let mapped_end = self.slots.lock()[slot].mapped_end;
        self.promised.fetch_sub((open / PAGE).saturating_sub(committed), Ordering::Relaxed);
        let mut page = 0;
        while committed > 0 && page < open {
            let (mut taken, mut count) = ([PhysAddr(0); BATCH], 0);
            let first = page;
            while count < BATCH && page < open {
                if let Some(frame) = unmap_page(at.plus(page), from.table) {
                    taken[count] = frame;
                    count += 1;
                }
                page += PAGE;
            }
            flush(at.plus(first), page - first);
            taken[..count].iter().for_each(|&frame| from.frames.free(frame, 0));
            committed = committed.saturating_sub(count as u64);
        }
        free_tables(at, mapped_end, from, flush);
        let mut slots = self.slots.lock();
        for per_slot in [&self.opened, &self.committed] {
            per_slot[slot].store(0, Ordering::Release);
        }
        slots[slot] = FREE;
    }
}

/// Allocates zeroed frames for these places, a bit each. Returns those that got one.
fn allocate_zeroed(frames: &mut [Option<PhysAddr>], places: u64, from: PageSource<'_>) -> u64 {
    let mut got = 0;
    for (place, frame) in frames.iter_mut().enumerate().filter(|it| places >> it.0 & 1 != 0) {
        *frame = from.frames.allocate(0);
        if let Some(frame) = *frame {
            raw::zero(frame, 0);
            got |= 1 << place;
        }
    }
    got
}

/// Returns the outcome of a fault on an open page that got no memory by it. One that may be read
/// and written was mapped after the fault. One without memory is in a window that changes, or has
/// left one: the access is repeated.
fn changed_meanwhile(page: VirtAddr, from: PageSource<'_>) -> FaultOutcome {
    let found = from.table.lock().find(page);
    match found.is_none_or(|page| page.rights == Rights::ReadWrite) {
        true => FaultOutcome::Mapped,
        false => FaultOutcome::Unhandled,
    }
}

/// Frees the page tables of a slot without mapped pages, except the first last-level one and those
/// above it. `mapped_end` is the end of the pages that ever had memory.
fn free_tables(at: VirtAddr, mapped_end: u64, from: PageSource<'_>, flush: &dyn Fn(VirtAddr, u64)) {
    let mut end = mapped_end.next_multiple_of(TABLE);
    while end > TABLE {
        let (mut taken, mut count) = ([PhysAddr(0); BATCH], 0);
        while count + 2 <= BATCH && end > TABLE {
            end -= TABLE;
            // After the last table of pages, the table that refers to it can be freed too.
            for _ in 0..2 {
                let table = from.table.lock().prune(at.plus(end), LARGEST);
                let Some(table) = table else { break };
                taken[count] = table;
                count += 1;
            }
        }
        if count > 0 {
            flush(at, SLOT);
            taken[..count].iter().for_each(|&table| from.frames.free(table, 0));
        }
    }
}

fn unmap_page(at: VirtAddr, table: &Lock<PageTable>) -> Option<PhysAddr> {
    let mut table = table.lock();
    let found = table.find(at)?;
    table.unmap(at, PAGE).ok()?;
    Some(found.phys)
}

#[cfg(test)]
mod tests;
