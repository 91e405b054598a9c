//! The stub is all that the emulator loads, so it is all that a reset of the emulator overwrites.
//!
//! It runs with the MMU off, on one core, before the kernel. It reads [`StubTable`], then resumes
//! the sleeping kernel in RAM, or copies the staged image to where it must run and enters it. The
//! domain must write the code that it runs itself: emulators do not notice foreign stores to code
//! that they have translated.
//!
//! Each ISA provides `_start` (a stack, then [`stub_main`]), `base`, `ISA`, `put`, `halt`, `copy`,
//! `zero` (multiples of 16 bytes, 16-byte aligned), `clean` (to memory, where caches are on) and
//! `enter` (code barrier, then jump).
#![no_std]
#![no_main]

use abi::boot::{
    BLOB_MAGIC, IMAGE_MAGIC, IMAGE_OFFSET, ImageHeader, STUB_TABLE, StubTable, VERSION,
};

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod imp;
#[cfg(target_arch = "riscv64")]
#[path = "riscv64.rs"]
mod imp;

/// Arguments of a kernel's entry, cold or warm, in register order.
#[derive(Clone, Copy)]
struct Arguments {
    blob: u64,
    domain: u64,
    epoch: u64,
    staging: u64,
}

/// Called by `_start` on core 0, with a stack.
#[unsafe(no_mangle)]
extern "C" fn stub_main() -> ! {
    // SAFETY: the board reserves this page for the table, and the soc wrote it before the domain
    // ran.
    let table = unsafe { ((imp::base() + STUB_TABLE) as *const StubTable).read_volatile() };
    if table.magic != BLOB_MAGIC {
        stop("stub: the soc wrote no boot table\n");
    }
    // SAFETY: the soc's table has the address of this domain's staging area, which starts with a
    // header.
    let header = unsafe { (table.staging_pa as *const ImageHeader).read_volatile() };
    if header.magic != IMAGE_MAGIC || header.version != VERSION || header.isa != imp::ISA {
        stop("stub: no image of this version and ISA is staged; rebuild with ./pen build\n");
    }
    let arguments = Arguments {
        blob: header.blob_pa,
        domain: table.domain,
        epoch: table.epoch,
        staging: table.staging_pa,
    };
    if table.resume_pa != 0 {
        imp::enter(table.resume_pa, arguments);
    }
    load(&header, table.staging_pa + IMAGE_OFFSET);
    imp::enter(header.entry_pa, arguments)
}

/// Copies the image and zeroes the rest of its memory. Stops if the header is inconsistent.
fn load(header: &ImageHeader, from: u64) {
    let sizes = header.image_size | header.memory_size | header.load_pa;
    let end = header.load_pa.checked_add(header.memory_size);
    let entry = header.entry_pa.wrapping_sub(header.load_pa);
    if sizes % 16 != 0
        || header.image_size > header.memory_size
        || end.is_none()
        || entry >= header.image_size
    {
        stop("stub: the header of the staged image is inconsistent\n");
    }
    imp::copy(header.load_pa, from, header.image_size);
    imp::zero(header.load_pa + header.image_size, header.memory_size - header.image_size);
    // Before it sleeps, the kernel cleans only what it has changed, so the rest must be in memory.
    imp::clean(header.load_pa, header.memory_size);
}

/// Prints the reason on the domain's own UART and halts.
fn stop(why: &str) -> ! {
    why.bytes().for_each(imp::put);
    imp::halt()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    stop("stub: panic\n")
}
