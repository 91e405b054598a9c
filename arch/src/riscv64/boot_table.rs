//! The first page table, in the image's bss: the image (cacheable), the UART, and the 16 MiB blocks
//! of the blob and of the staging area (uncached, read-only), all in the upper half only.
//!
//! The first code of the image builds it, at physical addresses, before the MMU is on: code here
//! may use its arguments and its stack, but no static that contains an address.

use core::cell::UnsafeCell;

use abi::boot::{BLOCK, VA_OFFSET};

use super::mmio::UART;
use super::pte::{self, ENTRIES};
use crate::types::{Memory, Rights};

/// The root, one table of 1 GiB entries, and at most five of 2 MiB entries: UART, blob, staging
/// area, image (two).
const TABLES: usize = 7;
const LARGE: u64 = 2 << 20;

type Table = [u64; ENTRIES];

#[repr(C, align(4096))]
pub(super) struct Tables(UnsafeCell<[Table; TABLES]>);
// SAFETY: written only by `build`, which runs once, before anything else.
unsafe impl Sync for Tables {}

pub(super) static BOOT_TABLES: Tables = Tables(UnsafeCell::new([[0; ENTRIES]; TABLES]));

/// The unused tables, and the table of 1 GiB entries.
struct Builder {
    gigabytes: *mut Table,
    next: *mut Table,
    end: *mut Table,
}

/// Fills the zeroed `tables` and returns their satp. All arguments are physical addresses.
pub(super) unsafe extern "C" fn build(
    tables: *mut Table,
    image_start: u64,
    image_end: u64,
    blob: u64,
    staging: u64,
) -> u64 {
    let mut builder = Builder {
        gigabytes: tables.wrapping_add(1),
        next: tables.wrapping_add(2),
        end: tables.wrapping_add(TABLES),
    };
    // SAFETY: `tables` are the TABLES tables above, ours alone.
    unsafe { set(tables, VA_OFFSET >> 39, pte::table(builder.gigabytes as u64)) };
    let image = image_start & !(LARGE - 1);
    builder.map(image, image_end, pte::boot_image_leaf);
    let uart = UART & !(LARGE - 1);
    builder.map(uart, uart + LARGE, |pa| pte::leaf(pa, Memory::Device, Rights::ReadWrite));
    for inside in [blob, staging] {
        let block = inside & !(BLOCK - 1);
        builder.map(block, block + BLOCK, |pa| pte::leaf(pa, Memory::Uncached, Rights::Read));
    }
    pte::satp(tables as u64)
}

impl Builder {
    /// Maps `[start, end)` with 2 MiB leaves; `start` is aligned.
    fn map(&mut self, start: u64, end: u64, leaf: impl Fn(u64) -> u64) {
        let mut pa = start;
        while pa < end {
            if let Some(table) = self.table_of(pa) {
                // SAFETY: one of our tables.
                unsafe { set(table, pa >> 21, leaf(pa)) };
            }
            pa += LARGE;
        }
    }

    /// Returns the table of 2 MiB entries for `pa`. With none left the range stays unmapped, so
    /// using it faults.
    fn table_of(&mut self, pa: u64) -> Option<*mut Table> {
        let index = pa >> 30;
        // SAFETY: our table.
        let entry = unsafe { get(self.gigabytes, index) };
        if pte::is_valid(entry) {
            return Some(pte::address(entry) as *mut Table);
        }
        if self.next == self.end {
            return None;
        }
        let table = self.next;
        self.next = table.wrapping_add(1);
        // SAFETY: our table.
        unsafe { set(self.gigabytes, index, pte::table(table as u64)) };
        Some(table)
    }
}

/// # Safety
/// `table` is valid and not shared.
unsafe fn set(table: *mut Table, index: u64, entry: u64) {
    let index = index as usize % ENTRIES;
    // SAFETY: in bounds by the line above; the rest is the caller's obligation.
    unsafe { table.cast::<u64>().wrapping_add(index).write(entry) };
}

/// # Safety
/// `table` is valid.
unsafe fn get(table: *mut Table, index: u64) -> u64 {
    let index = index as usize % ENTRIES;
    // SAFETY: as in `set`.
    unsafe { table.cast::<u64>().wrapping_add(index).read() }
}
