//! Address space for programs: where their memories, their code and their stacks lie.
//!
//! A *space* is a slot of [`SLOT`] bytes in a part of virtual memory of its own, of which a
//! beginning is *open*. Memory comes when it is touched ([`Spaces::demand`]), or when it is asked
//! for ([`Spaces::commit`]); what is not open faults. Whoever reserved a space is the only one who
//! changes it; a fault in it comes from its own thread.
//!
//! ```text
//!   reserve --> nothing open --open--> [0, open) comes when touched --release--> free
//!                                        commit: all of a range, at once
//!                                        protect: committed pages read-only, or code
//! ```
//! Tables of the page table stay where a space was, for the next one, but at most one that holds
//! pages: who touches a page in each of many tables would otherwise have them taken for ever, in
//! each slot, and nobody counts them.

use arch::lock::Lock;
use arch::mmu::PageTable;
use arch::types::{MapError, Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::{ranks, raw};

/// Bytes of address space that each has: 4 GiB and guards behind them.
pub const SLOT: u64 = 8 << 30;
/// Most spaces: three a program, and some for code that nobody runs now.
pub const MAX_SPACES: usize = 1024;
/// Where the slots begin: above all stacks.
pub const AREA: VirtAddr = VirtAddr(0xffff_d000_0000_0000);
/// Pages that come with a touched one.
const AROUND: u64 = 4;
/// Pages, or tables, that are taken away between two flushes.
const BATCH: usize = 64;
/// What a table of pages maps.
pub const TABLE: u64 = 2 << 20;
/// The largest that a slot has to itself.
const LARGEST: u64 = 1 << 30;
const _: () = assert!(SLOT.is_multiple_of(LARGEST) && AREA.0.is_multiple_of(LARGEST));

/// Why there is no such memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceError {
    /// [`MAX_SPACES`] are in use.
    TooMany,
    /// Larger than a slot, or not of pages.
    Range,
    /// There is no such space, or not so much of it is open.
    NotOpen,
    /// No frames.
    NoMemory,
}

/// What a fault in a space came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The page is there now.
    Met,
    /// Not in an open part of any space.
    Other,
    /// It is open, but there are no frames.
    NoMemory,
}

/// One slot.
#[derive(Clone, Copy)]
struct Space {
    /// Bytes that were asked for; 0: free.
    bytes: u64,
    /// Bytes that may be touched.
    open: u64,
    /// Pages that have memory.
    committed: u64,
    /// Bytes up to the last of them.
    reach: u64,
}

const FREE: Space = Space { bytes: 0, open: 0, committed: 0, reach: 0 };

/// All spaces of a kernel.
pub struct Spaces {
    slots: Lock<[Space; MAX_SPACES]>,
    /// Pages that are open and have no memory yet.
    promised: AtomicU64,
}

/// The memory that pages come from.
#[derive(Clone, Copy)]
pub struct From<'a> {
    /// The kernel's table.
    pub table: &'a Lock<PageTable>,
    /// Frames.
    pub frames: &'a dyn Frames,
}

impl Default for Spaces {
    fn default() -> Self {
        Spaces::new()
    }
}

/// Is it in the part of virtual memory where spaces are?
pub const fn is_inside(address: u64) -> bool {
    address >= AREA.0 && address - AREA.0 < SLOT * MAX_SPACES as u64
}

/// The slot of an address, and how far it is in.
fn locate(address: u64) -> Option<(usize, u64)> {
    let offset = address.checked_sub(AREA.0)?;
    let slot = usize::try_from(offset / SLOT).ok().filter(|&slot| slot < MAX_SPACES)?;
    Some((slot, offset % SLOT))
}

fn start_of(slot: usize) -> VirtAddr {
    AREA.plus(slot as u64 * SLOT)
}

impl Spaces {
    /// None in use.
    pub const fn new() -> Self {
        let slots = Lock::new(ranks::SPACES, [FREE; MAX_SPACES]);
        Spaces { slots, promised: AtomicU64::new(0) }
    }

    /// Address space of `bytes` bytes, none of it open.
    pub fn reserve(&self, bytes: u64) -> Result<VirtAddr, SpaceError> {
        if bytes == 0 || bytes > SLOT || !bytes.is_multiple_of(PAGE) {
            return Err(SpaceError::Range);
        }
        let mut slots = self.slots.lock();
        let slot = slots.iter().position(|space| space.bytes == 0).ok_or(SpaceError::TooMany)?;
        slots[slot] = Space { bytes, ..FREE };
        Ok(start_of(slot))
    }

    /// `bytes` bytes at `at` may be touched from now on, and everything below them.
    pub fn open(&self, at: VirtAddr, bytes: u64) -> Result<(), SpaceError> {
        let (slot, offset) = locate(at.0).ok_or(SpaceError::NotOpen)?;
        let end = offset.checked_add(bytes).ok_or(SpaceError::Range)?;
        let mut slots = self.slots.lock();
        let space = &mut slots[slot];
        if end > space.bytes || !end.is_multiple_of(PAGE) {
            return Err(SpaceError::Range);
        }
        self.promised.fetch_add(end.saturating_sub(space.open) / PAGE, Ordering::Relaxed);
        space.open = space.open.max(end);
        Ok(())
    }

    /// Bytes that are open and have no memory yet, of all spaces.
    pub fn promised(&self) -> u64 {
        self.promised.load(Ordering::Relaxed) * PAGE
    }

    /// Bytes of memory that the space at `at` has.
    pub fn committed(&self, at: VirtAddr) -> u64 {
        locate(at.0).map_or(0, |(slot, _)| self.slots.lock()[slot].committed * PAGE)
    }

    /// Is it in an open part of a space?
    pub fn is_open(&self, address: u64) -> bool {
        locate(address).is_some_and(|(slot, offset)| offset < self.slots.lock()[slot].open)
    }

    /// A fault at `address`: brings its page, and some around it, where it is open. For the fault
    /// handler: waits for locks only.
    pub fn demand(&self, address: u64, from: From<'_>) -> Demand {
        let Some((slot, offset)) = locate(address) else { return Demand::Other };
        let open = self.slots.lock()[slot].open;
        if offset >= open {
            return Demand::Other;
        }
        let first = offset & !(AROUND * PAGE - 1);
        let touched = offset & !(PAGE - 1);
        match self.bring(slot, touched, from) {
            Err(SpaceError::NoMemory) => return Demand::NoMemory,
            // It has its page, which forbids what was tried.
            Ok(false) | Err(_) => return Demand::Other,
            Ok(true) => {}
        }
        let end = open.min(first + AROUND * PAGE);
        let around = (first..end).step_by(PAGE as usize).filter(|&page| page != touched);
        // Who touches them asks again.
        around.for_each(|page| {
            let _ = self.bring(slot, page, from);
        });
        Demand::Met
    }

    /// Memory for all of `[at, at + bytes)`, which is open.
    pub fn commit(&self, at: VirtAddr, bytes: u64, from: From<'_>) -> Result<(), SpaceError> {
        let (slot, offset) = locate(at.0).ok_or(SpaceError::NotOpen)?;
        let end = offset.checked_add(bytes).ok_or(SpaceError::Range)?;
        if end > self.slots.lock()[slot].open {
            return Err(SpaceError::NotOpen);
        }
        (offset..end).step_by(PAGE as usize).try_for_each(|page| {
            self.bring(slot, page, from)?;
            Ok(())
        })
    }

    /// A zeroed page, unless one is there; was there none?
    fn bring(&self, slot: usize, page: u64, from: From<'_>) -> Result<bool, SpaceError> {
        let at = start_of(slot).plus(page);
        if from.table.lock().find(at).is_some() {
            return Ok(false);
        }
        let frame = from.frames.allocate(0).ok_or(SpaceError::NoMemory)?;
        raw::zero(frame, 0);
        let mapped =
            from.table.lock().map(from.frames, at, frame, PAGE, Memory::Cached, Rights::ReadWrite);
        let mut slots = self.slots.lock();
        let space = &mut slots[slot];
        space.committed += u64::from(mapped.is_ok());
        // There may be a table for it whatever came of it.
        space.reach = space.reach.max(page + PAGE);
        drop(slots);
        if let Err(why) = mapped {
            from.frames.free(frame, 0);
            // Another fault of the same page was faster.
            return if why == MapError::Overlap { Ok(false) } else { Err(SpaceError::NoMemory) };
        }
        self.promised.fetch_sub(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Changes what may be done with committed pages. `flush` reaches all cores of this domain.
    pub fn protect(
        &self,
        at: VirtAddr,
        bytes: u64,
        rights: Rights,
        from: From<'_>,
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

    /// Gives all of it back. Nobody refers to it any more. `flush` as in [`Spaces::protect`].
    pub fn release(&self, at: VirtAddr, from: From<'_>, flush: &dyn Fn(VirtAddr, u64)) {
        let Some((slot, 0)) = locate(at.0) else { return };
        let Space { open, mut committed, reach, .. } = self.slots.lock()[slot];
        self.promised.fetch_sub((open / PAGE).saturating_sub(committed), Ordering::Relaxed);
        let mut page = 0;
        while committed > 0 && page < open {
            let (mut taken, mut count) = ([PhysAddr(0); BATCH], 0);
            let first = page;
            while count < BATCH && page < open {
                if let Some(frame) = take(at.plus(page), from.table) {
                    taken[count] = frame;
                    count += 1;
                }
                page += PAGE;
            }
            flush(at.plus(first), page - first);
            taken[..count].iter().for_each(|&frame| from.frames.free(frame, 0));
            committed = committed.saturating_sub(count as u64);
        }
        prune(at, reach, from, flush);
        self.slots.lock()[slot] = FREE;
    }
}

/// Gives back the tables of a slot without pages, but for the first one. Nothing of them lies
/// beyond `reach`.
fn prune(at: VirtAddr, reach: u64, from: From<'_>, flush: &dyn Fn(VirtAddr, u64)) {
    let mut end = reach.next_multiple_of(TABLE);
    while end > TABLE {
        let (mut taken, mut count) = ([PhysAddr(0); BATCH], 0);
        while count + 2 <= BATCH && end > TABLE {
            end -= TABLE;
            // Behind the last table of pages the one that names them goes too.
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

fn take(at: VirtAddr, table: &Lock<PageTable>) -> Option<PhysAddr> {
    let mut table = table.lock();
    let found = table.find(at)?;
    table.unmap(at, PAGE).ok()?;
    Some(found.phys)
}

#[cfg(test)]
mod tests;
