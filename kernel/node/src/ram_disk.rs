//! A disk in memory, which all kernels have: a region that the soc fills before they run. A home of
//! `unsafe`: memory is accessed by its address.
//!
//! Every kernel maps the region cacheable, and none of their caches is coherent with another's. A
//! kernel therefore treats it like memory that a device accesses too: it writes back what it has
//! written before the request is done, and drops its lines before it reads. So RAM has the disk's
//! contents between requests, and they outlive each kernel. A line is dirty only during a write to
//! its sector, and the file service issues no two requests for a sector at the same time.

#![allow(unsafe_code, reason = "a home of unsafe: the region is accessed by its address")]

use abi::boot::Blob;
use base::addr::{PhysAddr, VirtAddr};
use core::sync::atomic::{AtomicBool, Ordering};

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The only access of this kernel to the region.
pub struct RamDisk {
    at: VirtAddr,
    bytes: usize,
    /// Whether other kernels access it too.
    is_shared: bool,
}

impl RamDisk {
    /// Returns the disk, if the board has one and nothing of this kernel uses it yet.
    pub fn take(blob: &Blob) -> Option<RamDisk> {
        let region = kernel_mem::mapping::disk(blob)?;
        let is_free = !IS_TAKEN.swap(true, Ordering::Relaxed);
        is_free.then(|| RamDisk {
            at: PhysAddr(region.base).to_virt(),
            bytes: region.size as usize,
            is_shared: blob.domains().len() > 1,
        })
    }

    /// Copies bytes from offset `from` on. Returns whether all of them are in the region.
    #[must_use]
    pub fn read(&mut self, from: u64, into: &mut [u8]) -> bool {
        let Some(at) = self.place(from, into.len()) else { return false };
        if self.is_shared {
            arch::cache::invalidate(at, into.len());
        }
        // SAFETY: the bytes are in the region, which is mapped for good; `take` gives out one
        // `RamDisk`, so nothing of this kernel writes them meanwhile. They are in no Rust object.
        unsafe { core::ptr::copy_nonoverlapping(at as *const u8, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies `data` to offset `to`. Returns whether there is room.
    #[must_use]
    pub fn write(&mut self, to: u64, data: &[u8]) -> bool {
        let Some(at) = self.place(to, data.len()) else { return false };
        // SAFETY: as in `read`.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), at as *mut u8, data.len()) };
        if self.is_shared {
            arch::cache::clean(at, data.len());
        }
        true
    }

    /// Returns the address of `bytes` bytes from `offset` on, if they are in the region.
    fn place(&self, offset: u64, bytes: usize) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        is_inside.then(|| self.at.0 as usize + offset)
    }
}
