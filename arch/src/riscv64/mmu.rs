//! The kernel's page table: Sv48 with Svpbmt, leaves of 4 KiB, 2 MiB and 1 GiB, upper half only.
//! Tables are accessed through the linear map.

use core::arch::asm;

use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;

use super::pte::{self, ENTRIES};
use super::registers::{read, write};
use crate::types::{Access, MAX_LEAF_TABLES, MapError, Mapping, Memory, Rights, leaf_tables};

/// The kernel interrupts the other cores to make them flush.
pub const BROADCAST: bool = false;

pub const CACHES_INVALID: bool = true;

pub const DEVICE_RANGES: &[(u64, u64)] = super::mmio::RANGES;

/// The root is at level 3, leaves are at levels 0 to 2.
const ROOT_LEVEL: u32 = 3;
const LARGEST_LEAF: u32 = 2;
const UPPER_HALF: u64 = 0xffff_8000_0000_0000;
/// Number of pages above which one flush of everything is cheaper.
const MAX_SINGLE_FLUSHES: u64 = 64;

pub struct PageTable {
    root: PhysAddr,
    tables: usize,
}

/// An entry and its position.
struct Found {
    slot: *mut u64,
    entry: u64,
    level: u32,
}

impl PageTable {
    pub fn new(frames: &dyn Frames) -> Result<Self, MapError> {
        Ok(PageTable { root: PhysAddr(new_table(frames)?), tables: 1 })
    }

    pub fn map(
        &mut self,
        frames: &dyn Frames,
        va: VirtAddr,
        pa: PhysAddr,
        bytes: u64,
        memory: Memory,
        rights: Rights,
    ) -> Result<(), MapError> {
        check_range(va, bytes)?;
        let pa_end = pa.0.checked_add(bytes).ok_or(MapError::Range)?;
        if !pa.is_aligned(PAGE) || pa_end > pte::PHYSICAL_END {
            return Err(MapError::Range);
        }
        // First all tables, so that no leaf is visible, and cached, if this fails.
        let each = || leaves(va.0, pa.0, bytes);
        each().try_for_each(|(v, _, level)| self.make_tables(frames, v, level))?;
        for (v, p, level) in each() {
            store(descend(self.root.0, v, level).slot, pte::leaf(p, memory, rights));
        }
        flush(va, bytes); // a TLB may have cached the invalid entries
        Ok(())
    }

    pub fn unmap(&mut self, va: VirtAddr, bytes: u64) -> Result<(), MapError> {
        check_range(va, bytes)?;
        let mut done = 0;
        while done < bytes {
            let found = self.lookup(va.0 + done);
            let size = size_of_level(found.level);
            let whole = (va.0 + done) % size == 0 && size <= bytes - done;
            if !pte::is_leaf(found.entry) || !whole {
                return Err(MapError::NotMapped);
            }
            done += size;
        }
        self.clear(va.0, bytes);
        flush(va, bytes);
        Ok(())
    }

    pub fn walk(&self, visit: &mut dyn FnMut(Mapping)) {
        walk_table(self.root.0, ROOT_LEVEL, UPPER_HALF & !(u64::MAX >> 16), visit);
    }

    /// # Safety
    /// It maps the running code, the stack and everything else that this core uses.
    pub unsafe fn activate(&self) {
        // SAFETY: the caller's obligation; the fences order the stores to the table before its use.
        unsafe {
            asm!("sfence.vma", options(nostack));
            write!("satp", pte::satp(self.root.0));
            asm!("sfence.vma", options(nostack));
        }
    }

    pub fn root(&self) -> PhysAddr {
        self.root
    }

    pub fn pages(
        &mut self,
        frames: &dyn Frames,
        va: VirtAddr,
        pa: PhysAddr,
        bytes: u64,
        memory: Memory,
    ) -> Result<Pages, MapError> {
        check_range(va, bytes)?;
        let pa_end = pa.0.checked_add(bytes).ok_or(MapError::Range)?;
        if !pa.is_aligned(PAGE) || pa_end > pte::PHYSICAL_END {
            return Err(MapError::Range);
        }
        let mut leaves = leaf_tables(va.0, bytes)?;
        for page in 0..bytes / PAGE {
            let found = self.last(frames, va.0 + page * PAGE)?;
            if pte::is_valid(found.entry) {
                return Err(MapError::Overlap);
            }
            leaves[page as usize / ENTRIES] = found.slot as usize & !(PAGE as usize - 1);
        }
        Ok(Pages { leaves, pa, count: bytes / PAGE, memory })
    }

    /// Returns the entry of the last level for `va`, and makes the tables for it.
    fn last(&mut self, frames: &dyn Frames, va: u64) -> Result<Found, MapError> {
        loop {
            let found = self.lookup(va);
            if found.level == 0 {
                return Ok(found);
            }
            if pte::is_valid(found.entry) {
                return Err(MapError::Overlap);
            }
            store(found.slot, pte::table(self.grow(frames)?));
        }
    }

    pub fn reserve(
        &mut self,
        frames: &dyn Frames,
        va: VirtAddr,
        bytes: u64,
    ) -> Result<(), MapError> {
        check_range(va, bytes)?;
        let table = size_of_level(1);
        for at in (va.0 & !(table - 1)..va.0 + bytes).step_by(table as usize) {
            self.last(frames, at)?;
        }
        Ok(())
    }

    pub fn take(&mut self, va: VirtAddr, frames: &mut [Option<PhysAddr>]) -> usize {
        let mut count = 0;
        debug_assert!(frames.iter().all(Option::is_none), "a frame would be lost");
        self.each_last(va, frames, |slot, frame| {
            let entry = load(slot);
            if pte::passes(entry) {
                *frame = Some(PhysAddr(pte::address(entry)));
                store(slot, 0);
                count += 1;
            }
        });
        count
    }

    pub fn give(&mut self, va: VirtAddr, frames: &mut [Option<PhysAddr>]) -> usize {
        let (bytes, mut count) = (frames.len() as u64 * PAGE, 0);
        order_stores(); // other harts find a page by its walk alone, and then what was stored there
        self.each_last(va, frames, |slot, frame| {
            if load(slot) == 0
                && let Some(pa) = frame.take()
            {
                store(slot, pte::passing(pa.0));
                count += 1;
            }
        });
        flush(va, bytes); // a TLB may have cached the invalid entries
        count
    }

    pub fn missing(&self, va: VirtAddr, pages: usize) -> Option<u64> {
        let found = self.lookup(va.0);
        let is_free = |page| !pte::is_valid(load(found.slot.wrapping_add(page)));
        let bit = |page| u64::from(is_free(page)) << page;
        (found.level == 0).then(|| (0..pages).fold(0, |missing, page| missing | bit(page)))
    }

    /// Calls `work` with the entry of each of these pages that has a table of the last level.
    fn each_last(
        &mut self,
        va: VirtAddr,
        frames: &mut [Option<PhysAddr>],
        mut work: impl FnMut(*mut u64, &mut Option<PhysAddr>),
    ) {
        let (mut at, mut rest) = (va.0, frames);
        while !rest.is_empty() {
            let here = ENTRIES - (at / PAGE) as usize % ENTRIES;
            let (run, others) = rest.split_at_mut(rest.len().min(here));
            rest = others;
            let found = self.lookup(at);
            if found.level == 0 {
                for (place, frame) in run.iter_mut().enumerate() {
                    work(found.slot.wrapping_add(place), frame);
                }
            }
            at += run.len() as u64 * PAGE;
        }
    }

    /// Makes the tables down to `level` for `va`, whose entry there must be free.
    fn make_tables(&mut self, frames: &dyn Frames, va: u64, level: u32) -> Result<(), MapError> {
        loop {
            let found = self.lookup(va);
            if pte::is_valid(found.entry) || found.level < level {
                return Err(MapError::Overlap);
            }
            if found.level == level {
                return Ok(());
            }
            store(found.slot, pte::table(self.grow(frames)?));
        }
    }

    /// Allocates a zeroed table, which may be linked now: other harts see the zeroes first.
    fn grow(&mut self, frames: &dyn Frames) -> Result<u64, MapError> {
        let table = new_table(frames)?;
        self.tables += 1;
        #[cfg(feature = "seeded")]
        if crate::seeded::is(crate::seeded::Seed::BareTable) {
            return Ok(table);
        }
        order_stores();
        Ok(table)
    }

    pub fn prune(&mut self, va: VirtAddr, most: u64) -> Option<PhysAddr> {
        let above = self.lookup(va.0).level + 1;
        if above > ROOT_LEVEL || size_of_level(above) > most {
            return None;
        }
        let link = descend(self.root.0, va.0, above);
        let table = pte::address(link.entry);
        if (0..ENTRIES).any(|index| load(slot_of(table, index)) != 0) {
            return None;
        }
        store(link.slot, 0);
        self.tables -= 1;
        Some(PhysAddr(table))
    }

    pub fn tables(&self) -> usize {
        self.tables
    }

    pub fn find(&self, va: VirtAddr) -> Option<Mapping> {
        let found = self.lookup(va.0);
        let bytes = size_of_level(found.level);
        pte::is_leaf(found.entry)
            .then(|| mapping(VirtAddr(va.0 & !(bytes - 1)), found.entry, bytes))
    }

    /// Returns the leaf for `va`, or the first invalid entry on the path to it.
    fn lookup(&self, va: u64) -> Found {
        find(self.root.0, va)
    }

    /// Clears the leaves of a range that consists of whole leaves.
    fn clear(&mut self, va: u64, bytes: u64) {
        let mut done = 0;
        while done < bytes {
            let found = self.lookup(va + done);
            if pte::is_leaf(found.entry) {
                store(found.slot, 0);
            }
            done += size_of_level(found.level);
        }
    }
}

pub struct Pages {
    /// Tables of the last level.
    leaves: [usize; MAX_LEAF_TABLES],
    pa: PhysAddr,
    count: u64,
    memory: Memory,
}

impl Pages {
    #[inline]
    pub fn set(&self, page: u64, rights: Option<Rights>) {
        assert!(page < self.count, "no such page");
        let leaf = |rights| pte::leaf(self.pa.0 + page * PAGE, self.memory, rights);
        let table = self.leaves[page as usize / ENTRIES] as *mut u64;
        store(table.wrapping_add(page as usize % ENTRIES), rights.map_or(0, leaf));
    }
}

pub fn flush_here(va: VirtAddr) {
    #[cfg(feature = "seeded")]
    if crate::seeded::is(crate::seeded::Seed::NoFaultFlush) {
        return;
    }
    flush(va, PAGE);
}

/// A walk without a lock: a table that it reads is not freed before this hart has served the
/// shootdown.
pub fn is_spurious(va: VirtAddr, access: Access) -> bool {
    let entry = || find(pte::root_of(read!("satp")), va.0).entry;
    let allowed = va.0 >= UPPER_HALF && pte::allows(entry(), access);
    if allowed {
        flush_here(va);
    }
    allowed
}

/// A flush of an address concerns leaves only; a long range (2 MiB or more) drops everything, and
/// with it cached walks.
pub fn flush(va: VirtAddr, bytes: u64) {
    #[cfg(feature = "seeded")]
    if super::seeded::flush(va.0 & !(PAGE - 1), bytes.div_ceil(PAGE)) {
        return;
    }
    if bytes.div_ceil(PAGE) > MAX_SINGLE_FLUSHES {
        // SAFETY: dropping translations is always allowed.
        unsafe { asm!("sfence.vma", options(nostack)) };
        return;
    }
    let mut at = va.0 & !(PAGE - 1);
    while at < va.0.saturating_add(bytes) {
        // SAFETY: as above.
        unsafe { asm!("sfence.vma {}", in(reg) at, options(nostack)) };
        at = at.saturating_add(PAGE);
    }
}

pub fn is_readable(va: u64) -> bool {
    va >= UPPER_HALF && pte::is_leaf(find(pte::root_of(read!("satp")), va).entry)
}

fn find(root: u64, va: u64) -> Found {
    descend(root, va, 0)
}

/// Returns the leaf for `va`, the first invalid entry, or the entry at level `lowest` on that path.
fn descend(root: u64, va: u64, lowest: u32) -> Found {
    let mut table = root;
    let mut level = ROOT_LEVEL;
    loop {
        let slot = slot_of(table, (va >> (12 + 9 * level)) as usize % ENTRIES);
        let entry = load(slot);
        if level == lowest || !pte::is_valid(entry) || pte::is_leaf(entry) {
            return Found { slot, entry, level };
        }
        table = pte::address(entry);
        level -= 1;
    }
}

/// Decodes a leaf at `virt`.
fn mapping(virt: VirtAddr, entry: u64, bytes: u64) -> Mapping {
    let (phys, memory, rights) =
        (PhysAddr(pte::address(entry)), pte::memory(entry), pte::rights(entry));
    Mapping { virt, phys, bytes, memory, rights }
}

fn walk_table(table: u64, level: u32, start: u64, visit: &mut dyn FnMut(Mapping)) {
    let size = size_of_level(level);
    for index in 0..ENTRIES {
        let entry = load(slot_of(table, index));
        let mut va = start.wrapping_add(size.wrapping_mul(index as u64));
        if level == ROOT_LEVEL {
            va = ((va << 16) as i64 >> 16) as u64;
        }
        if pte::is_leaf(entry) {
            visit(mapping(VirtAddr(va), entry, size));
        } else if pte::is_valid(entry) && level > 0 {
            walk_table(pte::address(entry), level - 1, va, visit);
        }
    }
}

/// Page-aligned, not empty, in the upper half.
fn check_range(va: VirtAddr, bytes: u64) -> Result<(), MapError> {
    let aligned = (va.0 | bytes) % PAGE == 0;
    let inside = va.0 >= UPPER_HALF && va.0.checked_add(bytes).is_some();
    if aligned && inside && bytes != 0 { Ok(()) } else { Err(MapError::Range) }
}

/// Returns the virtual and physical addresses and the levels of the leaves that map a range.
fn leaves(va: u64, pa: u64, bytes: u64) -> impl Iterator<Item = (u64, u64, u32)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let (v, p) = (va.wrapping_add(done), pa + done);
        let level = largest_level(v | p, bytes - done);
        (done < bytes).then(|| {
            done += size_of_level(level);
            (v, p, level)
        })
    })
}

fn largest_level(addresses: u64, bytes: u64) -> u32 {
    let fits =
        |&level: &u32| addresses % size_of_level(level) == 0 && bytes >= size_of_level(level);
    (1..=LARGEST_LEAF).rev().find(fits).unwrap_or(0)
}

const fn size_of_level(level: u32) -> u64 {
    PAGE << (9 * level)
}

/// Other harts see earlier stores before later ones.
fn order_stores() {
    // SAFETY: a barrier.
    unsafe { asm!("fence w, w", options(nostack)) };
}

/// Allocates a zeroed table and returns its physical address.
fn new_table(frames: &dyn Frames) -> Result<u64, MapError> {
    let frame = frames.allocate(0).ok_or(MapError::NoMemory)?;
    (0..ENTRIES).for_each(|index| store(slot_of(frame.0, index), 0));
    Ok(frame.0)
}

fn slot_of(table: u64, index: usize) -> *mut u64 {
    (PhysAddr(table).to_virt().0 as *mut u64).wrapping_add(index)
}

fn load(slot: *mut u64) -> u64 {
    // SAFETY: from `slot_of` with an index below ENTRIES and one of our tables, which the linear
    // map contains.
    unsafe { slot.read_volatile() }
}

fn store(slot: *mut u64, entry: u64) {
    // SAFETY: as in `load`; the caller has the table by `&mut`. A concurrent walk sees the old or
    // the new entry, and the fences of `flush` order the store before later accesses.
    unsafe { slot.write_volatile(entry) };
}
