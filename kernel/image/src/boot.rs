//! Boot: from the first line of Rust to the idle loop.
//!
//! ```text
//! blob -> page table -> frames, heap -> interrupts, doorbells -> clock -> kernel -> cores
//!      -> handlers, peers, READY -> devices -> monitor -> idle
//! ```
//! Until the first page table is active, only the image and the blob are mapped. Failures that the
//! kernel cannot run with are panics; the soc reports them and, if the board says so, boots again.
//! Other failures are logged.

use crate::procs::OurProcedures;
use crate::{clock, cores, interrupts};
use abi::boot::{Blob, kind};
use abi::soc::{DomainPage, command};
use alloc::boxed::Box;
use arch::lock::Lock;
use arch::shared::Window;
use base::addr::PhysAddr;
use base::id::{CoreId, DomainId, Epoch};
use base::port::{Stacks, Trace};
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_monitor::monitor;
use kernel_msg::notify::Attendance;
use kernel_node::Node;
use kernel_node::memory::{BootFrames, FRAMES, HEAP, KernelStacks, TABLE};
use kernel_node::soc::Soc;
use kernel_node::{blob, log, ranks};
use kernel_platform::Platform;
use kernel_platform::balloon::Balloons;
use kernel_platform::coherence;
use kernel_platform::devices::Devices;
use kernel_platform::peers::Peers;
use kernel_programs::idle;
use kernel_sched::Scheduler;
use kernel_services::kernel::{self, Kernel};
use kernel_services::services::Services;

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
    let Some(kernel) = assemble(blob, me, Epoch(epoch as u16)) else {
        panic!("a part of the kernel is not in the board's uncached window");
    };
    cores::up(0);
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
    let _ = TABLE.set(Lock::new(ranks::PAGE_TABLE, table));
    let image = kernel_mem::mapping::image_range(&layout);
    let global = kernel_platform::balloon::place(blob, image.1);
    let kept = [image, global.map_or((PhysAddr(0), PhysAddr(0)), |(_, _, tags)| tags)];
    let own = |r: &&abi::boot::Region| r.kind == kind::LOCAL && r.owner == u32::from(me.0);
    for region in blob.regions().iter().filter(own) {
        if let Err(why) = FRAMES.add_region(PhysAddr(region.base), region.size, &kept) {
            panic!("memory at {:#x}: {why:?}", region.base);
        }
    }
    if let Some((base, count, (tags, _))) = global {
        let frontier = kernel_platform::balloon::end(blob, me).other();
        FRAMES.buddy().adopt_global(base, count, tags, frontier);
    }
    HEAP.kernel().init(&FRAMES);
}

fn ring_soc() {
    if let Some(blob) = blob::get() {
        arch::doorbell::ring(blob.soc_slot, 0);
    }
}

fn assemble(blob: &'static Blob, me: DomainId, epoch: Epoch) -> Option<&'static Kernel> {
    let window = Window::uncached(blob, PhysAddr(blob.window.base), blob.window.size)?;
    let page_bytes = size_of::<DomainPage>() as u64;
    let page = PhysAddr(blob.window.domains + u64::from(me.0) * page_bytes);
    let soc = kernel::SOC.set(Soc::new(window, &blob.window, me, ring_soc)).ok()?;
    soc.calibrate_clock();
    let domain = &blob.domains()[me.index()];
    let cores = domain.cores as usize;
    let attendance = |core| Lock::new(ranks::ATTENDANCE, Attendance::new(CoreId(core as u8)));
    let slot = blob.soc_slot;
    let node = Node {
        blob,
        me,
        epoch,
        window,
        own_page: Window::uncached(blob, page, page_bytes)?,
        soc,
        kick: Box::new(move |vector| arch::doorbell::ring(slot, vector)),
        scheduler: Scheduler::new(cores, &STACKS, idle::before_sleep),
        symbols: blob::symbols(),
        attendance: (0..cores).map(attendance).collect(),
        trace: &kernel::TRACE,
        booted_at: arch::time::soc_time(),
        boot_ticks: AtomicU64::new(0),
    };
    let platform = Platform {
        node,
        peers: Peers::new(blob, me, epoch)?,
        balloons: Balloons::new(blob, me, epoch),
        coherence: coherence::new(blob, (me, epoch), soc),
        devices: Box::new(Devices::new(blob, me)),
        others: kernel_platform::twins::new(blob, me),
    };
    kernel::set(Kernel { platform, services: Services::new(blob, me) })
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

extern "C" fn secondary(core: usize) -> ! {
    cores::enter(core);
    match kernel::get() {
        Some(kernel) => kernel.scheduler.run(),
        None => arch::cpu::halt(),
    }
}

fn open_for_business(kernel: &'static Kernel) {
    // Before a peer can ask for one.
    #[cfg(feature = "trials")]
    kernel_monitor::commands::extend(kernel_trials::COMMANDS);
    kernel.peers.start(&OurProcedures);
    cores::unmask_doorbells(kernel.blob);
    kernel.peers.open(kernel);
    if let Some(coherence) = &kernel.coherence {
        let blocks = kernel.balloons.as_ref().map(|balloons| balloons.pure().blocks());
        coherence::claim(coherence, kernel.me, blocks);
        coherence.start();
    }
    kernel.services.start(kernel);
    if kernel.soc.request(command::READY, 0, 0).is_err() {
        log!("the soc refused READY");
    }
    kernel.devices.start(kernel, kernel.services.dma.mode());
    if kernel.spawn("services", None, keep_services, 0).is_err() {
        log!("no memory for the thread of the services");
    }
    kernel.trace.event("boot", u64::from(kernel.epoch.0), 0);
    clock::start(kernel);
    if kernel.balloons.is_some() && kernel.spawn("balloon", None, keep_balloon, 0).is_err() {
        log!("no memory for the balloon");
    }
    kernel_programs::processes::start(kernel);
    crate::host::start(kernel);
    crate::disk::start(kernel);
    kernel_monitor::procfs::start(kernel);
    log!("kernel {} is up", kernel.name());
    if kernel.devices.has_console() {
        let waited = arch::attend::spent();
        kernel.boot_ticks.store(arch::cpu::clock() - waited, Ordering::Relaxed);
        if kernel.spawn("monitor", None, monitor::thread, 0).is_err() {
            log!("no memory for the monitor");
        }
    }
}

fn keep_services(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    kernel.services.keep(kernel);
}

fn keep_balloon(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    if let Some(balloons) = &kernel.balloons {
        balloons.keep(kernel, &kernel.peers);
    }
}
