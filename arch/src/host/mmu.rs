//! A model of a page table: an ordered map of its leaves. It refuses what the real ones refuse, and
//! counts tables of the last level.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::vec::Vec;

use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;

use super::chip::chip;
use crate::types::{Access, MapError, Mapping, Memory, Rights, leaf_tables};

pub const BROADCAST: bool = true;

/// A fictitious device.
pub const DEVICE_RANGES: &[(u64, u64)] = &[(0x0900_0000, PAGE)];

const SIZES: [u64; 3] = [1 << 30, 2 << 20, PAGE];
/// First address of the upper half.
const LOWEST: u64 = 0xffff_8000_0000_0000;

/// Bytes that a table of the last level maps.
const TABLE: u64 = 2 << 20;

/// The kernel's half of the address space. A simulated kernel has the addresses of its process.
fn is_kernels(virt: VirtAddr) -> bool {
    virt.0 >= LOWEST || chip().is_some()
}

#[derive(Debug)]
pub struct PageTable {
    root: PhysAddr,
    leaves: BTreeMap<u64, Mapping>,
    /// Tables of the last level, by address; others are not modelled.
    tables: BTreeMap<u64, PhysAddr>,
}

impl PageTable {
    pub fn new(frames: &dyn Frames) -> Result<Self, MapError> {
        let root = frames.allocate(0).ok_or(MapError::NoMemory)?;
        Ok(PageTable { root, leaves: BTreeMap::new(), tables: BTreeMap::new() })
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
        let aligned = (virt.0 | phys.0 | bytes).is_multiple_of(PAGE) && bytes != 0;
        if !aligned || !is_kernels(virt) || bytes - 1 > u64::MAX - virt.0 {
            return Err(MapError::Range);
        }
        let last = virt.0 + (bytes - 1);
        let below = self.leaves.range(..=last).next_back();
        if below.is_some_and(|(_, leaf)| leaf.virt.0 + (leaf.bytes - 1) >= virt.0) {
            return Err(MapError::Overlap);
        }
        let mut leaves = Vec::new();
        let mut done = 0;
        while done < bytes {
            let (virt, phys) = (virt.plus(done), phys.plus(done));
            let fits = |size: &u64| (virt.0 | phys.0) % size == 0 && *size <= bytes - done;
            let bytes = SIZES.into_iter().find(fits).unwrap_or(PAGE);
            leaves.push((virt.0, Mapping { virt, phys, bytes, memory, rights }));
            done += bytes;
        }
        for (start, _) in leaves.iter().filter(|(_, leaf)| leaf.bytes == PAGE) {
            self.grow(frames, *start)?;
        }
        self.leaves.extend(leaves);
        Ok(())
    }

    /// Allocates the table of the last level for `virt`, if there is none.
    fn grow(&mut self, frames: &dyn Frames, virt: u64) -> Result<(), MapError> {
        if let Entry::Vacant(table) = self.tables.entry(virt & !(TABLE - 1)) {
            table.insert(frames.allocate(0).ok_or(MapError::NoMemory)?);
        }
        Ok(())
    }

    pub fn prune(&mut self, virt: VirtAddr, most: u64) -> Option<PhysAddr> {
        let start = virt.0 & !(TABLE - 1);
        let is_used = self.leaves.range(start..=start + (TABLE - 1)).next().is_some();
        if is_used || most < TABLE { None } else { self.tables.remove(&start) }
    }

    pub fn tables(&self) -> usize {
        1 + self.tables.len()
    }

    pub fn pages(
        &mut self,
        _frames: &dyn Frames,
        virt: VirtAddr,
        phys: PhysAddr,
        bytes: u64,
        _memory: Memory,
    ) -> Result<Pages, MapError> {
        leaf_tables(virt.0, bytes)?;
        let aligned = (virt.0 | phys.0 | bytes).is_multiple_of(PAGE) && bytes != 0;
        if !aligned || !is_kernels(virt) {
            return Err(MapError::Range);
        }
        if let Some(chip) = chip() {
            chip.pages(virt.0, bytes);
        }
        let rights = (0..bytes / PAGE).map(|_| Cell::new(None)).collect();
        Ok(Pages { virt: virt.0, rights })
    }

    pub fn unmap(&mut self, virt: VirtAddr, bytes: u64) -> Result<(), MapError> {
        let mut starts = std::vec::Vec::new();
        let mut done = 0;
        while done < bytes {
            let leaf = self.leaves.get(&(virt.0 + done)).ok_or(MapError::NotMapped)?;
            starts.push(leaf.virt.0);
            done += leaf.bytes;
        }
        if done != bytes || bytes == 0 {
            return Err(MapError::NotMapped);
        }
        self.leaves.retain(|start, _| !starts.contains(start));
        Ok(())
    }

    pub fn reserve(
        &mut self,
        frames: &dyn Frames,
        virt: VirtAddr,
        bytes: u64,
    ) -> Result<(), MapError> {
        (virt.0..virt.0 + bytes).step_by(PAGE as usize).try_for_each(|at| self.grow(frames, at))
    }

    pub fn take(&mut self, virt: VirtAddr, frames: &mut [Option<PhysAddr>]) -> usize {
        let passes = |leaf: &Mapping| {
            (leaf.bytes, leaf.memory, leaf.rights) == (PAGE, Memory::Cached, Rights::ReadWrite)
        };
        debug_assert!(frames.iter().all(Option::is_none), "a frame would be lost");
        let mut count = 0;
        for (at, frame) in (virt.0..).step_by(PAGE as usize).zip(frames) {
            if let Some(leaf) = self.leaves.get(&at).copied().filter(passes) {
                *frame = Some(leaf.phys);
                self.leaves.remove(&at);
                count += 1;
            }
        }
        count
    }

    pub fn give(&mut self, virt: VirtAddr, frames: &mut [Option<PhysAddr>]) -> usize {
        let (memory, rights, mut count) = (Memory::Cached, Rights::ReadWrite, 0);
        for (at, frame) in (virt.0..).step_by(PAGE as usize).zip(frames) {
            let virt = VirtAddr(at);
            let has_table = self.tables.contains_key(&(at & !(TABLE - 1)));
            if has_table
                && self.find(virt).is_none()
                && let Some(phys) = frame.take()
            {
                self.leaves.insert(at, Mapping { virt, phys, bytes: PAGE, memory, rights });
                count += 1;
            }
        }
        count
    }

    pub fn missing(&self, virt: VirtAddr, pages: usize) -> Option<u64> {
        let is_free = |page| self.find(virt.plus(page as u64 * PAGE)).is_none();
        let bit = |page| u64::from(is_free(page)) << page;
        let has_table = self.tables.contains_key(&(virt.0 & !(TABLE - 1)));
        has_table.then(|| (0..pages).fold(0, |missing, page| missing | bit(page)))
    }

    pub fn find(&self, virt: VirtAddr) -> Option<Mapping> {
        let (_, leaf) = self.leaves.range(..=virt.0).next_back()?;
        (virt.0 - leaf.virt.0 < leaf.bytes).then_some(*leaf)
    }

    pub fn walk(&self, visit: &mut dyn FnMut(Mapping)) {
        self.leaves.values().for_each(|&leaf| visit(leaf));
    }

    /// No effect: the host does its own translation.
    /// # Safety
    /// None needed here.
    pub unsafe fn activate(&self) {}

    pub fn root(&self) -> PhysAddr {
        self.root
    }
}

pub struct Pages {
    virt: u64,
    rights: Vec<Cell<Option<Rights>>>,
}

impl Pages {
    pub fn set(&self, page: u64, rights: Option<Rights>) {
        self.rights[page as usize].set(rights);
        if let Some(chip) = chip() {
            chip.set_page(self.virt + page * PAGE, rights);
        }
    }
}

pub fn flush(_virt: VirtAddr, _bytes: u64) {}

pub const CACHES_INVALID: bool = false;

pub fn flush_here(_virt: VirtAddr) {}

pub fn is_spurious(_virt: VirtAddr, _access: Access) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    struct One;
    impl Frames for One {
        fn allocate(&self, _order: u8) -> Option<PhysAddr> {
            Some(PhysAddr(PAGE))
        }
        fn free(&self, _frames: PhysAddr, _order: u8) {}
    }

    #[test]
    fn the_model_uses_large_pages_and_refuses_what_hardware_tables_refuse() {
        let mut table = PageTable::new(&One).unwrap();
        let map = |table: &mut PageTable, virt: u64, phys, bytes| {
            table.map(
                &One,
                VirtAddr(LOWEST + virt),
                PhysAddr(phys),
                bytes,
                Memory::Cached,
                Rights::Read,
            )
        };
        map(&mut table, 0x1f_f000, 0x1f_f000, 0x20_2000).unwrap();
        let mut sizes = Vec::new();
        table.walk(&mut |leaf| sizes.push(leaf.bytes));
        assert_eq!(sizes, [PAGE, 2 << 20, PAGE]);
        assert_eq!(map(&mut table, 0x30_0000, 0, PAGE), Err(MapError::Overlap));
        assert_eq!(map(&mut table, 0x80_0800, 0, PAGE), Err(MapError::Range));
        assert_eq!(map(&mut table, 0x80_0000, 0, 0), Err(MapError::Range));
        assert_eq!(table.unmap(VirtAddr(LOWEST + 0x20_0000), PAGE), Err(MapError::NotMapped));
        assert_eq!(table.unmap(VirtAddr(LOWEST + 0x20_0000), 2 << 20), Ok(()));
        assert_eq!(map(&mut table, 0x20_0000, 0x5000, 2 << 20), Ok(()));
    }

    #[test]
    fn frames_pass_into_free_pages_with_tables_and_out_again() {
        let mut table = PageTable::new(&One).unwrap();
        let at = VirtAddr(LOWEST + 0x1f_f000);
        let frames = [Some(PhysAddr(0x8000)), None, Some(PhysAddr(0x9000))];
        let mut given = frames;
        table.give(at, &mut given);
        assert_eq!(given, frames, "there is no table");
        table.reserve(&One, at, 3 * PAGE).unwrap();
        table.give(at, &mut given);
        assert_eq!(given, [None; 3]);
        let mut other = [Some(PhysAddr(0xa000)); 3];
        table.give(at, &mut other);
        assert_eq!(other.map(|frame| frame.is_some()), [true, false, true], "one page was free");
        let mut taken = [None; 4];
        assert_eq!(table.missing(at.plus(PAGE), 3), Some(4));
        assert_eq!(table.missing(at.plus(TABLE + PAGE), 1), None);
        assert_eq!(table.take(at, &mut taken), 3);
        assert_eq!(taken, [frames[0], Some(PhysAddr(0xa000)), frames[2], None]);
        taken = [None; 4];
        assert_eq!((table.take(at, &mut taken), taken), (0, [None; 4]));

        table.map(&One, at, PhysAddr(0), PAGE, Memory::Cached, Rights::Read).unwrap();
        assert_eq!(table.take(at, &mut taken), 0, "it is read-only");
    }

    #[test]
    fn an_empty_table_is_pruned_once() {
        let mut table = PageTable::new(&One).unwrap();
        let at = VirtAddr(LOWEST + 0x40_0000);
        table.map(&One, at, PhysAddr(0), PAGE, Memory::Cached, Rights::Read).unwrap();
        assert_eq!((table.tables(), table.prune(at, 2 << 20)), (2, None), "it is in use");
        table.unmap(at, PAGE).unwrap();
        assert_eq!(table.prune(at, PAGE), None, "it maps more");
        assert_eq!(table.prune(at, 1 << 30), Some(PhysAddr(PAGE)));
        assert_eq!((table.tables(), table.prune(at, 1 << 30)), (1, None));
    }
}
