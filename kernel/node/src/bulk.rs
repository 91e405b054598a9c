//! Bulk memory: a region of each kernel, which its owner writes and the other kernels read. A home
//! of `unsafe`: memory is accessed by its address.
//!
//! No two kernels' caches are coherent. So the owner writes back what it lends ([`Bulk::clean`])
//! before it says where that is, and a reader drops its lines before it loads them
//! ([`Bulk::append`]). Pages are lent whole, so what is lent shares no line with anything else.
//!
//! A reader does not hold what it reads: the owner may have freed the pages, and may write to them,
//! meanwhile. **So a reader asks the owner afterwards whether they are still lent**, and drops the
//! copy if not. The barrier before a message is published separates the copy from that question.

#![allow(unsafe_code, reason = "a home of unsafe: the regions are accessed by their addresses")]

use abi::boot::{Blob, MAX_DOMAINS};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::id::DomainId;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Bytes of a page.
const BYTES: usize = PAGE as usize;

/// A region.
#[derive(Clone, Copy, Debug, Default)]
struct Area {
    /// Its virtual address in this kernel.
    at: usize,
    bytes: usize,
}

impl Area {
    fn of(blob: &Blob, owner: DomainId) -> Area {
        let region = kernel_mem::mapping::bulk(blob, owner);
        region.map_or(Area::default(), |region| Area {
            at: PhysAddr(region.base).to_virt().0 as usize,
            bytes: region.size as usize,
        })
    }

    /// Returns the address of `bytes` bytes from `offset` on, if they are in the region.
    fn place(&self, offset: u64, bytes: usize) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        is_inside.then(|| self.at + offset)
    }
}

/// Which pages of this kernel's region are lent.
struct Map(Box<[bool]>);

impl Map {
    /// Takes so many pages in a row, the first that are free. Returns the number of the first one.
    fn take(&mut self, count: usize) -> Option<usize> {
        let mut free = 0;
        let is_end = |(_, is_lent): &(usize, &bool)| {
            free = if **is_lent { 0 } else { free + 1 };
            free == count
        };
        let (last, _) = self.0.iter().enumerate().find(is_end)?;
        let first = last + 1 - count;
        self.0.get_mut(first..=last)?.fill(true);
        Some(first)
    }

    fn free(&mut self, first: usize, count: usize) {
        if let Some(pages) = self.0.get_mut(first..first + count) {
            pages.fill(false);
        }
    }
}

/// The regions of all kernels, as one of them uses them.
pub struct Bulk {
    me: DomainId,
    areas: [Area; MAX_DOMAINS],
    pages: Arc<Lock<Map>>,
}

impl Bulk {
    /// Returns the regions, if the board has any and nothing uses them yet. They are mapped.
    pub fn take(blob: &Blob, me: DomainId) -> Option<Bulk> {
        let areas = core::array::from_fn(|owner| Area::of(blob, DomainId(owner as u8)));
        let own = areas.get(me.index())?;
        if areas.iter().all(|area| area.bytes == 0) || IS_TAKEN.swap(true, Ordering::Relaxed) {
            return None;
        }
        let pages = Map(vec![false; own.bytes / BYTES].into_boxed_slice());
        let pages = Arc::new(Lock::new(crate::ranks::BULK, pages));
        Some(Bulk { me, areas, pages })
    }

    fn own(&self) -> Area {
        self.areas.get(self.me.index()).copied().unwrap_or_default()
    }

    /// Copies bytes to where other kernels can read them. Returns `None` if there is no room. A
    /// program's memory must have been touched: a fault while this owns pages would lose them.
    pub fn lend(&self, bytes: &[u8]) -> Option<Loan> {
        let pages = self.pages(bytes.len().div_ceil(BYTES))?;
        // SAFETY: the region has as many pages as there are entries, and is mapped for good. These
        // pages were free, so nothing of this kernel uses them; other kernels only read them.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), pages.start() as *mut u8, bytes.len());
        }
        Some(Loan { pages, length: bytes.len() })
    }

    /// Returns pages of this kernel's region, at least one, for memory that programs access, too.
    /// What is in them is of the last use. Returns `None` if there is no room.
    pub fn pages(&self, count: usize) -> Option<Pages> {
        let count = count.max(1);
        let first = self.pages.lock().take(count)?;
        Some(Pages { at: self.own().at, first, count, map: self.pages.clone() })
    }

    /// Writes back `bytes` bytes of this kernel's region, so that other kernels read what was
    /// written there.
    pub fn clean(&self, place: u64, bytes: usize) {
        if let Some(at) = self.own().place(place, bytes) {
            arch::cache::clean(at, bytes);
        }
    }

    /// Appends bytes of another kernel's region, as they are now, to a vector that has room for
    /// them. Appends nothing if there is no room, or they are not in the region.
    pub fn append(&self, owner: DomainId, place: u64, bytes: usize, to: &mut Vec<u8>) {
        let Some(room) = to.spare_capacity_mut().get_mut(..bytes) else { return };
        if self.copy(owner, place, room) {
            // SAFETY: there was room for the bytes, and they are there now.
            unsafe { to.set_len(to.len() + bytes) };
        }
    }

    /// Copies bytes of another kernel's region, as they are now. Returns false if they are not in
    /// the region.
    pub fn read(&self, owner: DomainId, place: u64, into: &mut [u8]) -> bool {
        // SAFETY: what is written there is bytes.
        let into = unsafe { &mut *(core::ptr::from_mut(into) as *mut [MaybeUninit<u8>]) };
        self.copy(owner, place, into)
    }

    fn copy(&self, owner: DomainId, place: u64, into: &mut [MaybeUninit<u8>]) -> bool {
        let area = self.areas.get(owner.index()).filter(|_| owner != self.me);
        let Some(at) = area.and_then(|area| area.place(place, into.len())) else { return false };
        // No line is dirty, so nothing is written back. An instruction that only invalidates needs
        // the right to write on AArch64.
        arch::cache::clean_invalidate(at, into.len());
        // SAFETY: the bytes are in a region that is mapped for good. Nothing of this kernel writes
        // them, and they are in no Rust object: another kernel's stores can only make the copy
        // worthless.
        unsafe {
            core::ptr::copy_nonoverlapping(at as *const u8, into.as_mut_ptr().cast(), into.len());
        }
        true
    }
}

/// Bytes that other kernels can read. They do not change until this is dropped.
pub struct Loan {
    pages: Pages,
    length: usize,
}

impl Loan {
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `lend` has written these bytes, and their pages are lent until this is dropped.
        unsafe { core::slice::from_raw_parts(self.pages.start() as *const u8, self.length) }
    }

    /// Their offset in this kernel's region.
    pub fn place(&self) -> u64 {
        self.pages.place()
    }
}

impl core::fmt::Debug for Loan {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes at {:#x}", self.length, self.place())
    }
}

/// Pages of this kernel's region, until this is dropped.
pub struct Pages {
    /// Where the region begins.
    at: usize,
    first: usize,
    count: usize,
    map: Arc<Lock<Map>>,
}

impl Pages {
    /// Returns the address of their first byte.
    fn start(&self) -> usize {
        self.at + self.first * BYTES
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the frame of one of them.
    pub fn frame(&self, page: usize) -> Option<PhysAddr> {
        let at = VirtAddr((self.start() + page * BYTES) as u64);
        (page < self.count).then(|| at.to_phys())
    }

    /// Their offset in this kernel's region.
    pub fn place(&self) -> u64 {
        (self.first * BYTES) as u64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.map.lock().free(self.first, self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_lent_in_rows_to_one_at_a_time() {
        let mut pages = Map(vec![false; 8].into_boxed_slice());
        assert_eq!(pages.take(9), None);
        assert_eq!((pages.take(3), pages.take(2), pages.take(3)), (Some(0), Some(3), Some(5)));
        assert_eq!(pages.take(1), None);
        pages.free(3, 2);
        assert_eq!((pages.take(3), pages.take(1), pages.take(1)), (None, Some(3), Some(4)));
        pages.free(0, 3);
        pages.free(3, 1);
        assert_eq!(pages.take(4), Some(0));
    }

    /// A kernel with memory of the host for its region and for that of another one.
    fn two(own: &mut [u8], other: &[u8]) -> Bulk {
        let mut areas = [Area::default(); MAX_DOMAINS];
        areas[0] = Area { at: own.as_mut_ptr() as usize, bytes: own.len() };
        areas[1] = Area { at: other.as_ptr() as usize, bytes: other.len() };
        let pages = Map(vec![false; own.len() / BYTES].into_boxed_slice());
        let pages = Arc::new(Lock::new(crate::ranks::BULK, pages));
        Bulk { me: DomainId(0), areas, pages }
    }

    #[test]
    fn what_is_lent_stays_until_it_is_dropped() {
        let (mut own, other) = (vec![0; 3 * BYTES], []);
        let bulk = two(&mut own, &other);
        let first = bulk.lend(&[1; BYTES + 1]).unwrap();
        let second = bulk.lend(&[2; 5]).unwrap();
        assert!(bulk.lend(&[3]).is_none(), "there is no page left");
        assert_eq!((first.place(), second.place()), (0, 2 * BYTES as u64));
        drop(first);
        let third = bulk.lend(&[3; BYTES]).unwrap();
        assert_eq!((second.bytes(), third.bytes()), (&[2; 5][..], &[3; BYTES][..]));
        assert_eq!(third.place(), 0);
    }

    #[test]
    fn pages_are_frames_of_the_region_until_they_are_dropped() {
        let (mut own, other) = (vec![0; 4 * BYTES], []);
        let bulk = two(&mut own, &other);
        let _first = bulk.lend(&[1]).unwrap();
        let pages = bulk.pages(2).unwrap();
        assert_eq!((pages.count(), pages.place()), (2, BYTES as u64));
        let at = |page: usize| VirtAddr((own.as_ptr() as usize + page * BYTES) as u64).to_phys();
        assert_eq!([0, 1].map(|page| pages.frame(page)), [Some(at(1)), Some(at(2))]);
        assert_eq!(pages.frame(2), None);
        assert!(bulk.pages(2).is_none());
        drop(pages);
        assert!(bulk.pages(3).is_some());
    }

    #[test]
    fn only_bytes_of_the_region_are_read() {
        let (mut own, other) = (vec![0; BYTES], [7; 100]);
        let bulk = two(&mut own, &other);
        let read = |owner, place, bytes, room| {
            let mut to = Vec::with_capacity(room);
            bulk.append(DomainId(owner), place, bytes, &mut to);
            to
        };
        assert_eq!(read(1, 90, 10, 10), [7; 10]);
        assert_eq!(read(1, 90, 11, 11), []);
        assert_eq!(read(1, u64::MAX, 1, 1), []);
        assert_eq!(read(1, 0, 20, 10).len() % 20, 0, "all or nothing");
        assert_eq!(read(0, 0, 1, 1), [], "its own is no other kernel's");
        assert_eq!((read(2, 0, 1, 1), read(200, 0, 1, 1)), (vec![], vec![]));
    }
}
