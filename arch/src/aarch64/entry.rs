//! From the stub's jump to `kernel_main`, and the code that later entries (other cores, warm boots)
//! share.
//!
//! The stub enters [`_start`] at its physical address with the MMU off: x0 blob, x1 domain, x2
//! epoch, x3 staging area. The boot table maps the image where it runs (identity, to turn the MMU
//! on, and at VA_OFFSET) and, read-only and uncached, the blocks of the blob and of the staging
//! area. Code that runs before the MMU is on must not use a relocated address.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

use abi::boot::{BLOCK, VA_OFFSET};
use base::addr::PhysAddr;

use super::descriptor::{self, ENTRIES, NOT_GLOBAL};
use super::mmio::UART;
use super::registers::{CPACR, MAIR, SCTLR, SCTLR_WXN, TCR, TCR_NO_LOWER};
use super::{early, image, trap};
use crate::types::{Memory, Rights};

/// One table of level 0, one of level 1, and one of level 2 for each GiB with the UART, the image,
/// the blob or the staging area.
const TABLES: usize = 6;
const LARGE: u64 = 2 << 20;

#[repr(C, align(4096))]
pub(super) struct BootTable(UnsafeCell<[[u64; ENTRIES]; TABLES]>);
// SAFETY: core 0 writes it in `make_boot_table` before anything else runs; then it is only walked.
unsafe impl Sync for BootTable {}

/// Kept forever: other cores and warm boots turn the MMU on with its identity half.
pub(super) static BOOT_TABLE: BootTable = BootTable(UnsafeCell::new([[0; ENTRIES]; TABLES]));

unsafe extern "Rust" {
    /// The kernel's first function. MMU, FPU and boot stack are set up, interrupts masked.
    safe fn kernel_main(blob_pa: u64, domain: u64, epoch: u64) -> !;
}

/// Cold boot of core 0.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.entry")]
pub extern "C" fn _start() -> ! {
    naked_asm!(
        "msr daifset, #15",
        "mov x9, #{cpacr}",
        "msr cpacr_el1, x9",
        "isb",
        "mov x19, x0",
        "mov x20, x1",
        "mov x21, x2",
        "mov x22, x3",
        "adrp x9, __boot_stack_top",
        "mov sp, x9",
        "mov x29, xzr",
        "adrp x0, {table}",
        "adrp x1, __text_start",
        "adrp x2, __image_end",
        "mov x3, x19",
        "mov x4, x22",
        "bl {make}",
        "adrp x0, {table}",
        "mov x1, x0",
        "bl {mmu_on}",
        "adrp x9, __boot_stack_top",
        "mov sp, x9",
        "mov x0, x19",
        "mov x1, x20",
        "mov x2, x21",
        "mov x3, x22",
        "mov x30, xzr",
        "b {main}",
        cpacr = const CPACR,
        table = sym BOOT_TABLE,
        make = sym make_boot_table,
        mmu_on = sym mmu_on,
        main = sym boot_main,
    )
}

/// Turns the MMU on with x0 as TTBR1 and x1 as TTBR0, and returns to the caller's virtual address.
/// Entered at its physical address; both tables map the caller. Clobbers x2, x3, x30.
#[unsafe(naked)]
#[unsafe(link_section = ".text.entry")]
pub(super) extern "C" fn mmu_on() {
    naked_asm!(
        "ldr x2, ={mair}",
        "ldr x3, ={tcr}",
        "msr mair_el1, x2",
        "msr tcr_el1, x3",
        "msr ttbr0_el1, x1",
        "msr ttbr1_el1, x0",
        "dsb sy",
        "isb",
        "tlbi vmalle1",
        "ic iallu",
        "dsb nsh",
        "isb",
        "ldr x2, ={sctlr}",
        "msr sctlr_el1, x2",
        "isb",
        "ldr x2, ={offset}",
        "add x30, x30, x2",
        "ret",
        mair = const MAIR,
        tcr = const TCR,
        sctlr = const SCTLR,
        offset = const VA_OFFSET,
    )
}

/// Switches to the kernel's settings: no lower half, W^X, vectors, system errors on. Clobbers x2.
#[unsafe(naked)]
#[unsafe(link_section = ".text.entry")]
pub(super) extern "C" fn kernel_regime() {
    naked_asm!(
        "ldr x2, ={tcr}",
        "msr tcr_el1, x2",
        "isb",
        "tlbi vmalle1",
        "dsb nsh",
        "isb",
        "ldr x2, ={sctlr}",
        "msr sctlr_el1, x2",
        "adrp x2, exception_vectors",
        "add x2, x2, :lo12:exception_vectors",
        "msr vbar_el1, x2",
        "isb",
        "msr daifclr, #4",
        "ret",
        tcr = const TCR | TCR_NO_LOWER,
        sctlr = const SCTLR | SCTLR_WXN,
    )
}

/// Fills the boot table. The MMU is off; all arguments are physical.
extern "C" fn make_boot_table(
    tables: *mut [[u64; ENTRIES]; TABLES],
    image_start: u64,
    image_end: u64,
    blob: u64,
    staging: u64,
) {
    // SAFETY: `_start` passes the static's physical address; no other reference exists yet.
    let tables = unsafe { &mut *tables };
    let level1 = core::ptr::from_ref(&tables[1]) as u64;
    tables[0][0] = descriptor::table(PhysAddr(level1));
    tables[0][ENTRIES / 2] = tables[0][0];
    let data = NOT_GLOBAL | descriptor::bits(Memory::Uncached, Rights::Read);
    let device = NOT_GLOBAL | descriptor::bits(Memory::Device, Rights::ReadWrite);
    map_blocks(tables, blob & !(BLOCK - 1), BLOCK, data);
    map_blocks(tables, staging & !(BLOCK - 1), BLOCK, data);
    map_blocks(tables, UART, LARGE, device);
    let start = image_start & !(LARGE - 1);
    map_blocks(tables, start, image_end - start, descriptor::boot_image());
}

fn map_blocks(tables: &mut [[u64; ENTRIES]; TABLES], start: u64, bytes: u64, bits: u64) {
    let mut pa = start;
    while pa < start + bytes {
        if let Some(level2) = level2_of(tables, pa) {
            tables[level2][(pa / LARGE) as usize % ENTRIES] =
                descriptor::leaf(PhysAddr(pa), bits, descriptor::LAST - 1);
        }
        pa += LARGE;
    }
}

/// Returns the index of the level 2 table for the GiB of `pa`, taking a free one for a new GiB.
fn level2_of(tables: &mut [[u64; ENTRIES]; TABLES], pa: u64) -> Option<usize> {
    let gib = (pa >> 30) as usize % ENTRIES;
    for table in 2..TABLES {
        let entry = descriptor::table(PhysAddr(core::ptr::from_ref(&tables[table]) as u64));
        if tables[1][gib] == entry {
            return Some(table);
        }
        if tables[1][gib] == 0 && !tables[1].contains(&entry) {
            tables[1][gib] = entry;
            return Some(table);
        }
    }
    None
}

/// First code at virtual addresses.
extern "C" fn boot_main(blob: u64, domain: u64, epoch: u64, staging: u64) -> ! {
    trap::set_vectors();
    early::init();
    image::STAGING_PA.store(staging, Ordering::Relaxed);
    kernel_main(blob, domain, epoch)
}
