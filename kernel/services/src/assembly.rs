//! Puts a kernel together: its memory, its parts, and what is started before any program.
//!
//! ```text
//! memory -> (controllers) -> assemble -> open: peers, shared block, services, READY, devices
//! ```
//! A failure that the kernel cannot run with is a panic: the soc reports it and, if the board says
//! so, boots the domain again. Other failures are logged.

use crate::kernel::{self, Kernel};
use crate::names;
use crate::registered::Registered;
use crate::services::{Services, is_driver_shared};
use crate::{clock, duty, hooks, idle, power};
use abi::boot::{Blob, kind};
use abi::soc::{DomainPage, command};
use alloc::boxed::Box;
use arch::lock::Lock;
use arch::mmu::PageTable;
use arch::shared::Window;
use base::addr::PhysAddr;
use base::id::{DomainId, Epoch};
use base::port::{Stacks, Trace};
use core::sync::atomic::AtomicU64;
use kernel_node::attendance::Attendances;
use kernel_node::bulk::Bulk;
use kernel_node::memory::{FRAMES, HEAP, TABLE};
use kernel_node::soc::Soc;
use kernel_node::{Node, blob, log, ranks};
use kernel_platform::Platform;
use kernel_platform::balloon::Balloons;
use kernel_platform::channels::Channels;
use kernel_platform::coherence;
use kernel_platform::devices::Devices;
use kernel_platform::peers::{Peers, Procedures};
use kernel_sched::{PRIORITY_SERVE, Scheduler};

/// Sets up frames and the heap. `table` is active; `image` is the memory that the kernel's image
/// occupies.
pub fn start_memory(blob: &Blob, me: DomainId, table: PageTable, image: (PhysAddr, PhysAddr)) {
    let _ = TABLE.set(Lock::new(ranks::PAGE_TABLE, table));
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

/// Makes the kernel from its parts, and sets what [`kernel::get`] returns. `None` if one of them is
/// not in the board's uncached window.
pub fn assemble(
    blob: &'static Blob,
    (me, epoch): (DomainId, Epoch),
    stacks: &'static (dyn Stacks + Sync),
    bulk: Option<Bulk>,
) -> Option<&'static Kernel> {
    let window = Window::uncached(blob, PhysAddr(blob.window.base), blob.window.size)?;
    let page_bytes = size_of::<DomainPage>() as u64;
    let page = PhysAddr(blob.window.domains + u64::from(me.0) * page_bytes);
    let soc = kernel::SOC.set(Soc::new(window, &blob.window, me, ring_soc)).ok()?;
    soc.calibrate_clock();
    let domain = &blob.domains()[me.index()];
    let cores = domain.cores as usize;
    let slot = blob.soc_slot;
    let node = Node {
        blob,
        me,
        epoch,
        window,
        own_page: Window::uncached(blob, page, page_bytes)?,
        soc,
        kick: Box::new(move |vector| arch::doorbell::ring(slot, vector)),
        scheduler: Scheduler::new(cores, stacks, idle::before_sleep),
        symbols: blob::symbols(),
        attendance: Attendances::new(),
        trace: &kernel::TRACE,
        booted_at: arch::time::soc_time(),
        boot_ticks: AtomicU64::new(0),
    };
    let platform = Platform {
        node,
        peers: Peers::new(blob, me, epoch)?,
        balloons: Balloons::new(blob, me, epoch),
        coherence: coherence::new(blob, (me, epoch), soc),
        devices: Devices::new(blob, me, |kind| is_driver_shared(blob, kind)),
        channels: Channels::new(me, epoch, blob.domains().len() - 1, bulk),
        others: kernel_platform::twins::new(blob, me),
    };
    kernel::set(Kernel {
        platform,
        services: Services::new(blob, (me, epoch)),
        registered: Registered::default(),
    })
}

/// Starts to serve peers, joins the shared services, starts the devices, and reports READY.
/// `procedures` executes the requests of peers.
pub fn open(kernel: &'static Kernel, procedures: &'static dyn Procedures) {
    kernel.peers.start(procedures);
    hooks::unmask_doorbells(kernel.blob);
    kernel.peers.open(kernel);
    kernel.channels.look_at_chip(kernel, &kernel.peers);
    if let Some(coherence) = &kernel.coherence {
        if let Some(balloons) = &kernel.balloons {
            coherence::claim(kernel, coherence, balloons);
        }
        coherence.start();
    }
    kernel.services.start(kernel);
    power::start(kernel);
    if kernel.soc.request(command::READY, 0, 0).is_err() {
        log!("the soc refused READY: peers will treat this kernel as not running");
    }
    kernel.devices.start(kernel, kernel.services.dma.mode());
    duty::look(kernel);
    let made = kernel.scheduler.spawn("devices", PRIORITY_SERVE, None, look_at_devices, 0);
    if made.is_err() {
        log!("no memory for the devices' thread: console, disk and host do not work here");
    }
    if kernel.spawn("services", None, keep_services, 0).is_err() {
        log!("no memory for the services' thread: they miss deaths of kernels, and their timers");
    }
    if kernel.spawn("channels", None, keep_channels, 0).is_err() {
        log!("no memory for the channels' thread: they do not wake kernels, and keep old names");
    }
    if kernel.spawn("names", None, keep_names, 0).is_err() {
        log!("no memory for the names' thread: this kernel has none, and programs may lose theirs");
    }
    kernel.trace.event("boot", u64::from(kernel.epoch.0), 0);
    clock::start(kernel);
    if kernel.balloons.is_some() && kernel.spawn("balloon", None, keep_balloon, 0).is_err() {
        log!("no memory for the balloon's thread: this kernel exchanges no memory blocks");
    }
}

fn look_at_devices(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    // What came for a thread makes that thread ready.
    kernel.scheduler.mark_upkeep();
    kernel.services.look_at_devices(kernel);
}

fn keep_services(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    // A write-back that is due does not postpone a rest.
    kernel.scheduler.mark_upkeep();
    kernel.services.keep(kernel);
}

fn keep_channels(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    names::keep_channels(kernel);
}

fn keep_names(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    names::keep(kernel);
}

fn keep_balloon(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    if let Some(balloons) = &kernel.balloons {
        balloons.keep(kernel, &kernel.peers);
    }
}
