//! The kernel's page table: 4 KiB granule, four levels, for the upper half, through TTBR1.
//!
//! Tables are frames accessed through the linear map. Nothing writable is executable: `Rights` has
//! no such value, and SCTLR.WXN is on from `activate`. Entries of this table are global. Those of
//! the boot table are not, and this table is activated under another ASID, so TLB entries of the
//! boot table do not match after the switch.

use core::arch::asm;

use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;

use super::descriptor::{self, ENTRIES, LAST, index, is_table, operand, span};
use super::mmio::{BARS, BARS_SIZE, ECAM, GICD, UART};
use super::registers::{KERNEL_ASID, SCTLR, SCTLR_WXN, TCR, TCR_NO_LOWER, write};
use crate::types::{Access, MAX_LEAF_TABLES, MapError, Mapping, Memory, Rights, leaf_tables};

pub const BROADCAST: bool = true;

/// The architecture forbids it.
pub const CACHES_INVALID: bool = false;

pub const DEVICE_RANGES: &[(u64, u64)] =
    &[(UART, PAGE), (GICD, 0x3_0000), (ECAM, 1 << 20), (BARS, BARS_SIZE)];

/// Number of pages above which `flush` drops the whole TLB.
const FLUSH_LIMIT: u64 = 512;

pub struct PageTable {
    root: PhysAddr,
    tables: usize,
}

/// Position of an entry.
#[derive(Clone, Copy)]
struct Slot {
    table: PhysAddr,
    index: usize,
    level: usize,
}

impl Slot {
    fn pointer(self) -> *mut u64 {
        let table = self.table.to_virt().0 as *mut u64;
        table.wrapping_add(self.index)
    }

    fn get(self) -> u64 {
        // SAFETY: `table` is one of our tables (the root, or from a table entry), so a whole frame
        // in the linear map, and `index` is below ENTRIES by `descriptor::index` or a loop bound.
        unsafe { self.pointer().read_volatile() }
    }

    fn set(self, entry: u64) {
        // SAFETY: as in `get`; the caller's `&mut PageTable` excludes other writers.
        unsafe { self.pointer().write_volatile(entry) }
    }
}

/// Allocates a zeroed table.
fn new_table(frames: &dyn Frames) -> Result<PhysAddr, MapError> {
    let table = frames.allocate(0).ok_or(MapError::NoMemory)?;
    for index in 0..ENTRIES {
        Slot { table, index, level: 0 }.set(0);
    }
    Ok(table)
}

fn check(virt: VirtAddr, bytes: u64) -> Result<(), MapError> {
    let aligned = virt.0 % PAGE == 0 && bytes % PAGE == 0 && bytes != 0;
    // The last byte may be the last of the address space, so compare without adding 1.
    let fits = virt.0 >= descriptor::LOWEST && bytes.wrapping_sub(1) <= u64::MAX - virt.0;
    if aligned && fits { Ok(()) } else { Err(MapError::Range) }
}

impl PageTable {
    pub fn new(frames: &dyn Frames) -> Result<Self, MapError> {
        Ok(PageTable { root: new_table(frames)?, tables: 1 })
    }

    pub fn root(&self) -> PhysAddr {
        self.root
    }

    pub fn map(
        &mut self,
        frames: &dyn Frames,
        virt: VirtAddr,
        phys: PhysAddr,
        bytes: u64,
        memory: Memory,
        rights: Rights,
    ) -> Result<(), MapError> {
        check(virt, bytes)?;
        let last = phys.0.checked_add(bytes - 1).ok_or(MapError::Range)?;
        if phys.0 % PAGE != 0 || last > descriptor::LAST_PA {
            return Err(MapError::Range);
        }
        let bits = descriptor::bits(memory, rights);
        // First all tables, so that no page is visible, and cached, if this fails.
        for stores in [false, true] {
            let mut done = 0;
            while done < bytes {
                let phys = phys.plus(done);
                let slot = self.free_slot(frames, virt.plus(done), phys, bytes - done)?;
                if stores {
                    slot.set(descriptor::leaf(phys, bits, slot.level));
                }
                done += span(slot.level);
            }
        }
        publish();
        Ok(())
    }

    /// Returns the slot of the largest page that fits at `virt`, and makes the tables for it.
    fn free_slot(
        &mut self,
        frames: &dyn Frames,
        virt: VirtAddr,
        phys: PhysAddr,
        left: u64,
    ) -> Result<Slot, MapError> {
        let mut slot = Slot { table: self.root, index: index(virt, 0), level: 0 };
        loop {
            let size = span(slot.level);
            let entry = slot.get();
            let fits = slot.level > 0 && (virt.0 | phys.0) % size == 0 && left >= size;
            let is_free = entry == 0 || overwrites(entry, slot.level);
            if fits && is_free {
                return Ok(slot);
            }
            slot = match entry {
                0 => self.grow(frames, slot, virt)?,
                table if is_table(table, slot.level) => down(slot, virt),
                _ => return Err(MapError::Overlap),
            };
        }
    }

    pub fn pages(
        &mut self,
        frames: &dyn Frames,
        virt: VirtAddr,
        phys: PhysAddr,
        bytes: u64,
        memory: Memory,
    ) -> Result<Pages, MapError> {
        check(virt, bytes)?;
        let last = phys.0.checked_add(bytes - 1).ok_or(MapError::Range)?;
        if phys.0 % PAGE != 0 || last > descriptor::LAST_PA {
            return Err(MapError::Range);
        }
        let mut leaves = leaf_tables(virt.0, bytes)?;
        for page in 0..bytes / PAGE {
            let slot = self.last(frames, virt.plus(page * PAGE))?;
            if slot.get() != 0 {
                return Err(MapError::Overlap);
            }
            leaves[page as usize / ENTRIES] = slot.table.0 as usize;
        }
        Ok(Pages { leaves, phys, count: bytes / PAGE, memory })
    }

    /// Returns the slot of the last level for a page, and makes the tables for it.
    fn last(&mut self, frames: &dyn Frames, at: VirtAddr) -> Result<Slot, MapError> {
        let mut slot = Slot { table: self.root, index: index(at, 0), level: 0 };
        while slot.level < LAST {
            slot = match slot.get() {
                0 => self.grow(frames, slot, at)?,
                table if is_table(table, slot.level) => down(slot, at),
                _ => return Err(MapError::Overlap),
            };
        }
        Ok(slot)
    }

    pub fn reserve(
        &mut self,
        frames: &dyn Frames,
        virt: VirtAddr,
        bytes: u64,
    ) -> Result<(), MapError> {
        check(virt, bytes)?;
        let first = virt.0 & !(span(LAST - 1) - 1);
        let tables = (first..virt.0 + bytes).step_by(span(LAST - 1) as usize);
        for at in tables {
            self.last(frames, VirtAddr(at))?;
        }
        publish();
        Ok(())
    }

    pub fn take(&mut self, virt: VirtAddr, frames: &mut [Option<PhysAddr>]) -> usize {
        let mut count = 0;
        debug_assert!(frames.iter().all(Option::is_none), "a frame would be lost");
        self.each_last(virt, frames, |slot, frame| {
            let entry = slot.get();
            if descriptor::passes(entry) {
                *frame = Some(descriptor::address(entry));
                slot.set(0);
                count += 1;
            }
        });
        count
    }

    pub fn give(&mut self, virt: VirtAddr, frames: &mut [Option<PhysAddr>]) -> usize {
        let mut count = 0;
        publish(); // other cores find a page by its walk alone, and then what was stored there
        self.each_last(virt, frames, |slot, frame| {
            if slot.get() == 0
                && let Some(phys) = frame.take()
            {
                slot.set(descriptor::passing(phys));
                count += 1;
            }
        });
        publish();
        count
    }

    pub fn missing(&self, virt: VirtAddr, pages: usize) -> Option<u64> {
        let table = self.table_of(virt)?;
        let is_free = |index| Slot { table, index, level: LAST }.get() == 0;
        let first = index(virt, LAST);
        let bit = |page| u64::from(is_free(first + page)) << page;
        Some((0..pages).fold(0, |missing, page| missing | bit(page)))
    }

    /// Calls `work` with the slot of each of these pages that has a table of the last level.
    fn each_last(
        &mut self,
        virt: VirtAddr,
        frames: &mut [Option<PhysAddr>],
        mut work: impl FnMut(Slot, &mut Option<PhysAddr>),
    ) {
        let (mut at, mut rest) = (virt, frames);
        while !rest.is_empty() {
            let first = index(at, LAST);
            let (run, others) = rest.split_at_mut(rest.len().min(ENTRIES - first));
            rest = others;
            if let Some(table) = self.table_of(at) {
                for (place, frame) in run.iter_mut().enumerate() {
                    work(Slot { table, index: first + place, level: LAST }, frame);
                }
            }
            at = at.plus(run.len() as u64 * PAGE);
        }
    }

    /// Returns the table of the last level for a page, if there is one.
    fn table_of(&self, at: VirtAddr) -> Option<PhysAddr> {
        let mut slot = Slot { table: self.root, index: index(at, 0), level: 0 };
        while slot.level < LAST {
            if !is_table(slot.get(), slot.level) {
                return None;
            }
            slot = down(slot, at);
        }
        Some(slot.table)
    }

    /// Links a new table into an empty slot, and descends into it.
    fn grow(&mut self, frames: &dyn Frames, slot: Slot, virt: VirtAddr) -> Result<Slot, MapError> {
        let table = new_table(frames)?;
        self.tables += 1;
        #[cfg(feature = "seeded")]
        if crate::seeded::is(crate::seeded::Seed::BareTable) {
            slot.set(descriptor::table(table));
            return Ok(down(slot, virt));
        }
        publish(); // the walker must see zeroes before it sees the table
        slot.set(descriptor::table(table));
        Ok(down(slot, virt))
    }

    pub fn unmap(&mut self, virt: VirtAddr, bytes: u64) -> Result<(), MapError> {
        check(virt, bytes)?;
        let mut done = 0;
        while done < bytes {
            let at = virt.plus(done);
            let size = self.leaf(at).map(|slot| span(slot.level)).ok_or(MapError::NotMapped)?;
            if at.0 % size != 0 || size > bytes - done {
                return Err(MapError::NotMapped);
            }
            done += size;
        }
        self.clear(virt, bytes);
        Ok(())
    }

    pub fn prune(&mut self, virt: VirtAddr, most: u64) -> Option<PhysAddr> {
        let (mut slot, mut link) =
            (Slot { table: self.root, index: index(virt, 0), level: 0 }, None);
        while is_table(slot.get(), slot.level) {
            link = Some(slot);
            slot = down(slot, virt);
        }
        let link = link.filter(|link| span(link.level) <= most)?;
        if (0..ENTRIES).any(|index| Slot { index, ..slot }.get() != 0) {
            return None;
        }
        link.set(0);
        self.tables -= 1;
        Some(slot.table)
    }

    pub fn tables(&self) -> usize {
        self.tables
    }

    /// Clears the leaves of a range that consists of whole leaves, and flushes it.
    fn clear(&mut self, virt: VirtAddr, bytes: u64) {
        let mut done = 0;
        while done < bytes {
            let Some(slot) = self.leaf(virt.plus(done)) else { break };
            slot.set(0);
            done += span(slot.level);
        }
        flush(virt, bytes);
    }

    fn leaf(&self, virt: VirtAddr) -> Option<Slot> {
        let mut slot = Slot { table: self.root, index: index(virt, 0), level: 0 };
        loop {
            let entry = slot.get();
            if entry == 0 {
                return None;
            }
            if !is_table(entry, slot.level) {
                return Some(slot);
            }
            slot = down(slot, virt);
        }
    }

    pub fn find(&self, virt: VirtAddr) -> Option<Mapping> {
        let slot = self.leaf(virt)?;
        let start = VirtAddr(virt.0 & !(span(slot.level) - 1));
        Some(descriptor::mapping(start, slot.get(), slot.level))
    }

    pub fn walk(&self, visit: &mut dyn FnMut(Mapping)) {
        walk_table(self.root, 0, VirtAddr(descriptor::LOWEST), visit);
    }

    /// # Safety
    /// It maps the running code, the stack, all statics and [`DEVICE_RANGES`] at their current
    /// addresses.
    pub unsafe fn activate(&self) {
        publish();
        // SAFETY: the caller's obligation; one write changes table and ASID together.
        unsafe {
            write!("ttbr1_el1", self.root.0 | KERNEL_ASID);
            write!("tcr_el1", TCR | TCR_NO_LOWER);
            asm!("isb", "tlbi vmalle1", "dsb nsh", "isb", options(nostack));
            write!("sctlr_el1", SCTLR | SCTLR_WXN);
            asm!("isb", options(nostack));
        }
    }
}

pub struct Pages {
    /// Tables of the last level.
    leaves: [usize; MAX_LEAF_TABLES],
    phys: PhysAddr,
    count: u64,
    memory: Memory,
}

impl Pages {
    #[inline]
    pub fn set(&self, page: u64, rights: Option<Rights>) {
        assert!(page < self.count, "no such page");
        let table = PhysAddr(self.leaves[page as usize / ENTRIES] as u64);
        let slot = Slot { table, index: page as usize % ENTRIES, level: LAST };
        let phys = self.phys.plus(page * PAGE);
        let bits = rights.map(|rights| descriptor::bits(self.memory, rights));
        slot.set(bits.map_or(0, |bits| descriptor::leaf(phys, bits, LAST)));
        publish();
    }
}

/// Returns the slot of the next level for `virt`; `slot` holds a table.
fn down(slot: Slot, virt: VirtAddr) -> Slot {
    let level = slot.level + 1;
    Slot { table: descriptor::address(slot.get()), index: index(virt, level), level }
}

fn walk_table(table: PhysAddr, level: usize, base: VirtAddr, visit: &mut dyn FnMut(Mapping)) {
    for index in 0..ENTRIES {
        let entry = Slot { table, index, level }.get();
        let virt = base.plus(index as u64 * span(level));
        if is_table(entry, level) {
            debug_assert!(level < LAST);
            walk_table(descriptor::address(entry), level + 1, virt, visit);
        } else if entry != 0 {
            visit(descriptor::mapping(virt, entry, level));
        }
    }
}

/// Makes earlier table stores visible to the walkers of all cores.
fn publish() {
    // SAFETY: barriers.
    unsafe { asm!("dsb ishst", "isb", options(nostack)) };
}

/// Returns whether a mapping is replaced directly: only with a seeded bug.
#[cfg(feature = "seeded")]
fn overwrites(entry: u64, level: usize) -> bool {
    crate::seeded::is(crate::seeded::Seed::Overwrite) && !is_table(entry, level)
}

#[cfg(not(feature = "seeded"))]
const fn overwrites(_: u64, _: usize) -> bool {
    false
}

/// Also drops cached walks.
pub fn flush_here(virt: VirtAddr) {
    #[cfg(feature = "seeded")]
    if crate::seeded::is(crate::seeded::Seed::NoFaultFlush) {
        return;
    }
    let operand = operand(virt.0 / PAGE);
    // SAFETY: as in `flush`.
    unsafe {
        asm!("dsb nshst", "tlbi vaae1, {}", "dsb nsh", "isb", in(reg) operand, options(nostack));
    }
}

/// Only the shared block's pages gain rights while they are mapped, and faults on them are handled
/// before this is called.
pub fn is_spurious(_virt: VirtAddr, _access: Access) -> bool {
    false
}

/// Also drops cached walks.
pub fn flush(virt: VirtAddr, bytes: u64) {
    let pages = bytes.div_ceil(PAGE);
    #[cfg(feature = "seeded")]
    if super::seeded::flush(virt.0 / PAGE, pages) {
        return;
    }
    // SAFETY: dropping translations is always allowed; the barriers order it after the table stores
    // and complete it before anything that follows.
    unsafe {
        asm!("dsb ishst", options(nostack));
        if pages > FLUSH_LIMIT {
            asm!("tlbi vmalle1is", options(nostack));
        } else {
            for page in 0..pages {
                let operand = operand(virt.0 / PAGE + page);
                asm!("tlbi vaae1is, {}", in(reg) operand, options(nostack));
            }
        }
        asm!("dsb ish", "isb", options(nostack));
    }
}
