//! The stub: the only thing an emulator loads, so the only thing its resets write again.
//!
//! Runs with the MMU off, one core, no kernel beside it. Reads [`StubTable`], then resumes
//! the kernel that sleeps in RAM, or copies the staged one to where it must run and enters it.
//! The executing domain itself must write the code it runs: no emulator sees foreign stores to
//! code it has translated.
//!
//! Each ISA gives: `_start` (stack, then [`stub_main`]), `BASE`, `ISA`, `put`, `halt`, `copy`,
//! `zero` (16-byte multiples, 16-byte aligned), `clean` (to memory, as far as caches are on),
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

/// Registers of a kernel's entry, cold or warm, in argument order.
#[derive(Clone, Copy)]
struct Arguments {
    blob: u64,
    domain: u64,
    epoch: u64,
    staging: u64,
}

/// Called by `_start` on core 0 with a stack.
#[unsafe(no_mangle)]
extern "C" fn stub_main() -> ! {
    // SAFETY: the board reserves this page for the table; the soc wrote it before the domain ran.
    let table = unsafe { ((imp::BASE + STUB_TABLE) as *const StubTable).read_volatile() };
    if table.magic != BLOB_MAGIC {
        stop("stub: no table\n");
    }
    // SAFETY: the soc's table names the staging area of this domain, which starts with a header.
    let header = unsafe { (table.staging_pa as *const ImageHeader).read_volatile() };
    if header.magic != IMAGE_MAGIC || header.version != VERSION || header.isa != imp::ISA {
        stop("stub: no image of this version and ISA is staged\n");
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
    place(&header, table.staging_pa + IMAGE_OFFSET);
    imp::enter(header.entry_pa, arguments)
}

/// Copies the image and zeroes the rest of its memory.
fn place(header: &ImageHeader, from: u64) {
    let sizes = header.image_size | header.memory_size | header.load_pa;
    let end = header.load_pa.checked_add(header.memory_size);
    let entry = header.entry_pa.wrapping_sub(header.load_pa);
    if sizes % 16 != 0
        || header.image_size > header.memory_size
        || end.is_none()
        || entry >= header.image_size
    {
        stop("stub: bad image header\n");
    }
    imp::copy(header.load_pa, from, header.image_size);
    imp::zero(header.load_pa + header.image_size, header.memory_size - header.image_size);
    // The kernel writes back what it changes before it sleeps, and counts on the rest.
    imp::clean(header.load_pa, header.memory_size);
}

/// Says why on the domain's own UART and waits for ever.
fn stop(why: &str) -> ! {
    why.bytes().for_each(imp::put);
    imp::halt()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    stop("stub: panic\n")
}
