//! Boot: from the first line of Rust to the idle loop.
//!
//! ```text
//! blob -> page table -> frames, heap -> interrupts, doorbells -> clock -> kernel -> cores
//!      -> handlers, peers, READY -> devices -> monitor -> idle
//! ```
//! Until the first page table is active, only the image and the blob are mapped. A failure that the
//! kernel cannot run with is a panic: the soc reports it and, if the board says so, boots the
//! domain again. Other failures are logged.

use crate::procs::OurProcedures;
use crate::{cores, interrupts};
use abi::boot::Blob;
use base::id::{DomainId, Epoch};
use base::port::Stacks;
use core::sync::atomic::Ordering;
use kernel_monitor::monitor;
use kernel_node::bulk::Bulk;
use kernel_node::memory::{BootFrames, KernelStacks};
use kernel_node::{blob, log};
use kernel_services::kernel::{self, Kernel};
use kernel_services::{assembly, hooks};

static STACKS: KernelStacks = KernelStacks;

/// Entry point, called by `arch` with MMU and FPU on, on the boot stack, with interrupts masked.
/// `blob_pa` is the physical address of the board's description.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "the one symbol that arch's entry looks for")]
fn kernel_main(blob_pa: u64, domain: u64, epoch: u64) -> ! {
    arch::trap::install(&interrupts::HANDLERS);
    let blob = match blob::read(blob_pa) {
        Ok(blob) => blob,
        Err(why) => panic!("no valid board blob at {blob_pa:#x}: {why:?}"),
    };
    #[cfg(feature = "seeded")]
    arch::seeded::choose(abi::boot::text(&blob.arguments));
    let me = DomainId(domain as u8);
    blob::set_me(me);
    assert!(me.index() < blob.domains().len(), "domain {domain} is not on this board");
    log!("kernel of domain {me}, epoch {epoch}");
    start_memory(blob, me);
    arch::irq::init(blob, me);
    if let Err(why) = arch::doorbell::init(blob) {
        panic!("no doorbells: {why:?}");
    }
    let (this, bulk) = ((me, Epoch(epoch as u16)), Bulk::take(blob, me));
    let Some(kernel) = assembly::assemble(blob, this, &STACKS, bulk) else {
        panic!("a part of the kernel is not in the board's uncached window");
    };
    hooks::up();
    start_cores(kernel);
    open_for_business(kernel);
    kernel.scheduler.run()
}

/// Builds and activates the page table, then sets up frames and the heap.
fn start_memory(blob: &Blob, me: DomainId) {
    let layout = arch::image::layout();
    let table = match kernel_mem::mapping::kernel_table(blob, me, &layout, &BootFrames) {
        Ok(table) => table,
        Err(why) => panic!("no page table: {why:?}"),
    };
    if let Err(why) = kernel_mem::activation::activate(&table, blob, me) {
        panic!("the page table violates an invariant: {why:?}");
    }
    assembly::start_memory(blob, me, table, kernel_mem::mapping::image_range(&layout));
}

fn start_cores(kernel: &'static Kernel) {
    for core in 1..kernel.domain().cores as usize {
        let stack = STACKS.allocate();
        let Some(stack) = stack else { panic!("no memory for the stack of core {core}") };
        if let Err(why) = cores::start(core, stack, secondary) {
            log!("core {core} does not start: {why:?}");
        }
    }
}

extern "C" fn secondary(_: usize) -> ! {
    cores::enter();
    match kernel::get() {
        Some(kernel) => kernel.scheduler.run(),
        None => arch::cpu::halt(),
    }
}

fn open_for_business(kernel: &'static Kernel) {
    // Before a peer can request one of these commands.
    #[cfg(feature = "trials")]
    kernel_monitor::commands::extend(kernel_trials::COMMANDS);
    assembly::open(kernel, &OurProcedures);
    kernel_programs::processes::start(kernel);
    crate::host::start(kernel);
    crate::disk::start(kernel);
    kernel_monitor::procfs::start(kernel);
    kernel_monitor::namefs::start(kernel);
    crate::rest::start(kernel);
    log!("kernel {} is up", kernel.name());
    if kernel.services.console.is_local() {
        let waited = arch::attend::spent();
        kernel.boot_ticks.store(arch::cpu::clock() - waited, Ordering::Relaxed);
        if kernel.spawn("monitor", None, monitor::thread, 0).is_err() {
            log!("no memory for the monitor's thread: the console stays silent");
        }
    }
}
