//! From the first Rust line to the idle loop.
//!
//! ```text
//! blob -> page table -> frames, heap -> interrupts, doorbells -> clock -> kernel -> cores
//!      -> handlers, peers, READY -> devices -> monitor -> idle
//! ```
//! Until the first page table is active only the image and the blob are mapped. What fails in here
//! ends this kernel with a message; the soc reports it and boots it again if the board says so.

use crate::balloon::Balloons;
use crate::coherence::Coherence;
use crate::devices::Devices;
use crate::kernel::{self, Kernel};
use crate::memory::{self, BootFrames, FRAMES, HEAP, KernelStacks, TABLE};
use crate::peers::Peers;
use crate::services::{self, Services};
use crate::soc::Soc;
use crate::symbols::{Symbols, mapped_bytes};
use crate::{idle, interrupts, log, monitor, ranks, shootdown};
use abi::boot::{Blob, BlobError, FNV_START, fnv, kind};
use abi::soc::{DomainPage, command};
use alloc::boxed::Box;
use arch::attend::Waits;
use arch::lock::{Lock, Once};
use arch::shared::Window;
use arch::types::StartError;
use base::addr::{PAGE, PhysAddr};
use base::id::{CoreId, DomainId, Epoch, Vector};
use base::port::{Frames, Stacks, Trace};
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_msg::notify::Attendance;
use kernel_sched::Scheduler;
use share::Arena;
use zerocopy::{FromBytes, IntoBytes};

static BLOB: Once<Blob> = Once::new();
/// This domain, for a panic before there is a kernel.
static ME: AtomicU64 = AtomicU64::new(0);
static STACKS: KernelStacks = KernelStacks;

/// Where arch's entry arrives: MMU and FPU on, boot stack, interrupts masked.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "the one symbol that arch's entry looks for")]
fn kernel_main(blob_pa: u64, domain: u64, epoch: u64) -> ! {
    arch::trap::install(&interrupts::HANDLERS);
    let blob = match read_blob(blob_pa) {
        Ok(blob) => blob,
        Err(why) => panic!("the board blob at {blob_pa:#x} is not one: {why:?}"),
    };
    #[cfg(feature = "seeded")]
    arch::seeded::choose(abi::boot::text(&blob.arguments));
    let me = DomainId(domain as u8);
    ME.store(domain, Ordering::Relaxed);
    assert!(me.index() < blob.domains().len(), "domain {domain} is not on this board");
    log!("kernel of domain {me}, epoch {epoch}");
    start_memory(blob, me);
    arch::irq::init(blob, me);
    if let Err(why) = arch::doorbell::init(blob) {
        panic!("no doorbells: {why:?}");
    }
    let Some(kernel) = assemble(blob, me, Epoch(epoch as u16)) else {
        panic!("the board's window does not hold what it should");
    };
    core_up(0);
    start_cores(kernel);
    open_for_business(kernel);
    kernel.scheduler.run()
}

fn read_blob(pa: u64) -> Result<&'static Blob, BlobError> {
    let bytes = mapped_bytes(pa, size_of::<Blob>() as u64);
    let mut blob = Blob::read_from_bytes(bytes).map_err(|_| BlobError::Magic)?;
    let checksum = core::mem::take(&mut blob.checksum);
    let sum = fnv(FNV_START, blob.as_bytes());
    blob.checksum = checksum;
    blob.check(sum)?;
    BLOB.set(blob).map_err(|_| BlobError::Magic)
}

/// Page table first, then everything it shows.
fn start_memory(blob: &Blob, me: DomainId) {
    let layout = arch::image::layout();
    let table = match kernel_mem::mapping::kernel_table(blob, me, &layout, &BootFrames) {
        Ok(table) => table,
        Err(why) => panic!("no page table: {why:?}"),
    };
    if let Err(why) = kernel_mem::raw::activate(&table, blob, me) {
        panic!("the page table breaks the rules: {why:?}");
    }
    let _ = TABLE.set(Lock::new(ranks::PAGE_TABLE, table));
    let image = kernel_mem::mapping::image_range(&layout);
    let global = crate::balloon::place(blob, image.1);
    let kept = [image, global.map_or((PhysAddr(0), PhysAddr(0)), |(_, _, tags)| tags)];
    let own = |r: &&abi::boot::Region| r.kind == kind::LOCAL && r.owner == u32::from(me.0);
    for region in blob.regions().iter().filter(own) {
        if let Err(why) = FRAMES.add_region(PhysAddr(region.base), region.size, &kept) {
            panic!("memory at {:#x}: {why:?}", region.base);
        }
    }
    if let Some((base, count, (tags, _))) = global {
        let frontier = crate::balloon::end(blob, me).other();
        FRAMES.buddy().adopt_global(base, count, tags, frontier);
    }
    HEAP.kernel().init(&FRAMES);
}

/// Names of the running image's functions, once the blob tells where they are staged.
pub fn symbols() -> Option<Symbols> {
    let domain = BLOB.get()?.domains().get(ME.load(Ordering::Relaxed) as usize)?;
    Symbols::staged(arch::image::staging_pa(), domain.staging_size)
}

fn ring_soc() {
    if let Some(blob) = BLOB.get() {
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
    kernel::set(Kernel {
        blob,
        me,
        epoch,
        window,
        own_page: Window::uncached(blob, page, page_bytes)?,
        soc,
        scheduler: Scheduler::new(cores, &STACKS, idle::before_sleep),
        peers: Peers::new(blob, me, epoch)?,
        balloons: Balloons::new(blob, me, epoch),
        coherence: crate::coherence::new(blob, me, epoch),
        devices: Devices::new(blob, me),
        services: Services::new(blob, me),
        processes: Box::default(),
        others: crate::twins::new(blob, me),
        symbols: symbols(),
        attendance: (0..cores).map(attendance).collect(),
        trace: &kernel::TRACE,
        booted_at: arch::time::soc_time(),
        boot_ticks: AtomicU64::new(0),
    })
}

/// What every core does before it joins the scheduler.
pub fn core_up(core: usize) {
    arch::attend::install(serve_while_waiting);
    arch::attend::install_stalled(rouse);
    shootdown::core_started();
    if let Some(kernel) = kernel::get() {
        // Who is alone has nobody to look for.
        if kernel.peers.exist() || kernel.balloons.is_some() {
            arch::attend::install_released(poll_after_release);
        }
        kernel.attendance[core].lock().enter(&kernel.own_page);
    }
}

/// Between two looks of a waiting core: shootdowns, pages, and urgent messages, which may lock.
fn serve_while_waiting(waits: Waits) {
    shootdown::serve();
    if let Some(kernel) = kernel::get() {
        if waits == Waits::Event {
            kernel.peers.serve_urgent(kernel);
        }
        if let Some(coherence) = &kernel.coherence {
            coherence.serve();
        }
    }
}

/// Somebody keeps a lock that this core waits for.
fn rouse() {
    if let Some(kernel) = kernel::get() {
        kernel.rouse();
    }
}

/// When a core releases its outermost lock.
fn poll_after_release() {
    if let Some(kernel) = kernel::get() {
        kernel.peers.poll(kernel);
        crate::balloon::look_at_probe(kernel);
    }
}

fn start_cores(kernel: &'static Kernel) {
    for core in 1..kernel.domain().cores as usize {
        let stack = STACKS.allocate();
        let Some(stack) = stack else { panic!("no memory for the stack of core {core}") };
        if let Err(why) = start_core(core, stack, secondary) {
            log!("core {core} does not start: {why:?}");
        }
    }
}

/// Starts a core of this domain that is off.
pub fn start_core(
    core: usize,
    stack: usize,
    entry: extern "C" fn(usize) -> !,
) -> Result<(), StartError> {
    let root = memory::TABLE.get().map_or(PhysAddr(0), |table| table.lock().root());
    arch::smp::start(CoreId(core as u8), entry, stack, core, root)
}

extern "C" fn secondary(core: usize) -> ! {
    arch::trap::install(&interrupts::HANDLERS);
    arch::irq::init_core();
    core_up(core);
    match kernel::get() {
        Some(kernel) => kernel.scheduler.run(),
        None => arch::cpu::halt(),
    }
}

/// Memory for a service of this kernel's own: frames, for ever.
#[allow(unsafe_code, reason = "frames that nobody else has become an arena")]
pub fn arena(service: &str) -> Option<Arena> {
    let (_, bytes) = services::share_of(BLOB.get()?, service)?;
    let order = (bytes / PAGE).next_power_of_two().trailing_zeros();
    let frames = FRAMES.allocate(order as u8)?;
    // SAFETY: just allocated, mapped cacheable and writable, and never given back.
    unsafe { Arena::new(frames.to_virt().0 as usize, (PAGE as usize) << order) }
}

/// A service's part of the memory that kernels share.
#[allow(unsafe_code, reason = "a part of the shared block becomes an arena")]
pub fn shared_arena(coherence: &Coherence, service: &str) -> Option<Arena> {
    let (offset, bytes) = services::share_of(BLOB.get()?, service)?;
    // SAFETY: the block is nobody's but the services', and this part of it this one's, in every
    // kernel; its steps exclude each other; the protocol maps its pages where they are touched.
    unsafe { Arena::new((coherence.base().0 + offset) as usize, bytes as usize) }
}

/// The words of the shared block that are nobody's.
#[allow(unsafe_code, reason = "the end of the shared block becomes words")]
pub fn spare(coherence: &'static Coherence) -> &'static [AtomicU64] {
    let at = coherence.base().0 + abi::boot::BLOCK - services::SPARE;
    // SAFETY: no arena has them; the protocol maps the page where it is touched. A page that is
    // lost is touched within an attempt.
    unsafe { core::slice::from_raw_parts(at as *const AtomicU64, services::SPARE as usize / 8) }
}

/// Doorbells of the fabric that every kernel listens to.
pub fn unmask_doorbells(blob: &Blob) {
    arch::irq::unmask(Vector(blob.vector_msg as u8));
    arch::irq::unmask(Vector(blob.vector_chip as u8));
    arch::irq::unmask(Vector(blob.vector_dsm as u8));
}

fn open_for_business(kernel: &'static Kernel) {
    kernel.peers.handlers.start(kernel);
    unmask_doorbells(kernel.blob);
    kernel.peers.open(kernel);
    if let Some(coherence) = &kernel.coherence {
        coherence.start(kernel);
    }
    kernel.services.start(kernel);
    if kernel.soc.request(command::READY, 0, 0).is_err() {
        log!("the soc does not take READY");
    }
    kernel.devices.start(kernel);
    if kernel.spawn("services", None, services::keeper, 0).is_err() {
        log!("no memory for the services' keeper");
    }
    kernel.trace.event("boot", u64::from(kernel.epoch.0), 0);
    crate::power::start(kernel);
    crate::balloon::start(kernel);
    crate::processes::start(kernel);
    crate::host::start(kernel);
    crate::disk::start(kernel);
    crate::procfs::start(kernel);
    log!("kernel {} is up", kernel.name());
    if kernel.devices.has_console() {
        let waited = arch::attend::spent();
        kernel.boot_ticks.store(arch::cpu::clock() - waited, Ordering::Relaxed);
        if kernel.spawn("monitor", None, monitor::thread, 0).is_err() {
            log!("no memory for the monitor");
        }
    }
}
