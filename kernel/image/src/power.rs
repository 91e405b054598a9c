//! Powers this domain off with its memory kept, and resumes it (warm boot).
//!
//! ```text
//! running -1-> quiet -2-> suspended -3-> off -4-> stub -5-> running
//! ```
//! 1. On request, one at a time: the other cores are powered off, and all pages of the shared
//!    block are handed over to peers.
//! 2. Registers are saved, dirty lines are written back.
//! 3. The soc stops and resets the domain.
//! 4. The soc wakes it, at the request of a peer or the host.
//! 5. Controllers, doorbells and clock are set up as after a cold boot.
//!
//! INACTIVE needs none of this: the soc stops the domain where it is, and only the clock has to be
//! calibrated afterwards (`kernel_services::clock`).

use crate::cores;
use abi::soc::command;
use alloc::vec::Vec;
use arch::lock::Lock;
use arch::power::Resume;
use arch::types::{Memory, Rights};
use base::id::{CoreId, DomainId};
use base::port::Trace;
use core::sync::atomic::{AtomicBool, Ordering};
use kernel_node::{log, shootdown};
use kernel_platform::coherence::Coherence;
use kernel_sched::WaitQueue;
use kernel_services::kernel::{self, Kernel};
use kernel_services::{duty, hooks};

/// Priority of the thread that powers the domain off: the highest.
const PRIORITY: u8 = 31;

/// How long to retry the start of a core that has just been powered off: it may still execute its
/// last instructions.
const OUT_NS: u64 = 1_000_000_000;

static RESUME: Lock<Resume> = Lock::new(kernel_node::ranks::POWER, Resume::empty());

/// Why a power-off cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffError {
    /// Another one is in progress.
    UnderWay,
    /// No memory for the thread that does it.
    NoMemory,
}

/// Set from the request, or the start of a rest, until all cores run again.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);
/// The caller has its answer.
static ANSWERED: AtomicBool = AtomicBool::new(false);
static GATE: WaitQueue = WaitQueue::new();

/// Begins a power-off or a rest. Returns false if one is in progress.
pub fn claim() -> bool {
    !UNDER_WAY.swap(true, Ordering::AcqRel)
}

/// Starts the other cores again, and ends what [`claim`] has begun.
pub fn release(kernel: &Kernel) {
    start_others(kernel);
    UNDER_WAY.store(false, Ordering::Release);
}

/// Starts a thread that powers this domain off, with its memory kept, once [`answered_power_off`]
/// is called: a peer that waits for an answer would wake the domain again.
pub fn power_off_soon(kernel: &'static Kernel) -> Result<(), OffError> {
    if !claim() {
        return Err(OffError::UnderWay);
    }
    let made = kernel.scheduler.spawn("power", PRIORITY, Some(CoreId(0)), power_off, 0);
    made.map(|_| ()).map_err(|_| {
        UNDER_WAY.store(false, Ordering::Release);
        OffError::NoMemory
    })
}

/// Reports that the caller of [`power_off_soon`] has its answer: the domain may power off.
pub fn answered_power_off(kernel: &Kernel) {
    ANSWERED.store(true, Ordering::Release);
    GATE.wake_all(&kernel.scheduler);
}

fn power_off(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    kernel.scheduler.wait(&GATE, || ANSWERED.swap(false, Ordering::AcqRel));
    let stopped = stop_others(kernel);
    if stopped && has_handed_over(kernel) {
        kernel.trace.event("power off", u64::from(kernel.epoch.0), 0);
        let on = arch::cpu::irqs_off();
        arch::power::suspend(&mut RESUME.lock(), &mut |warm| sleep(kernel, warm));
        come_back(kernel);
        arch::cpu::irqs_restore(on);
    } else if stopped {
        log!("power off: refused, this domain must keep its pages of the shared block");
    } else {
        log!("power off: no memory to power the other cores off");
    }
    release(kernel);
}

/// Hands over this domain's pages of the shared block. Returns false if it must stay.
pub fn has_handed_over(kernel: &'static Kernel) -> bool {
    let hand_over =
        |coherence: &Coherence| coherence.leave(|| kernel.services.restart_if_lost(kernel));
    kernel.coherence.as_ref().is_none_or(hand_over)
}

/// Powers the other cores off and waits for that. Returns false if there is no memory for the
/// thread of one of them; [`release`] then starts those that are off.
pub fn stop_others(kernel: &'static Kernel) -> bool {
    // A core that never started, or failed to start again, is off already.
    let others = || (1..kernel.domain().cores as usize).filter(|&core| shootdown::is_online(core));
    let stop = |&core: &usize| {
        let here = Some(CoreId(core as u8));
        kernel.scheduler.spawn("offline", PRIORITY, here, offline, 0).is_ok()
    };
    let running = others().count();
    let stopping: Vec<usize> = others().take_while(stop).collect();
    for &core in &stopping {
        arch::attend::until(|| OFFLINE[core].load(Ordering::Acquire));
    }
    stopping.len() == running
}

/// Starts the cores that [`stop_others`] has powered off.
fn start_others(kernel: &Kernel) {
    let out = |&core: &usize| OFFLINE[core].swap(false, Ordering::AcqRel);
    for core in (1..kernel.domain().cores as usize).filter(out) {
        let stack = kernel.scheduler.stack_of(kernel.scheduler.running_on(core));
        // If the domain stayed on, the core may still be executing its last instructions.
        let give_up = arch::time::soc_time() + OUT_NS;
        let mut started = Ok(());
        arch::attend::until(|| {
            started = cores::start(core, stack, online);
            started.is_ok() || arch::time::soc_time() > give_up
        });
        if let Err(why) = started {
            log!("core {core} does not start again: {why:?}");
        }
    }
}

static OFFLINE: [AtomicBool; abi::boot::MAX_CORES] =
    [const { AtomicBool::new(false) }; abi::boot::MAX_CORES];

/// Thread: powers this core off. The core continues in [`online`].
fn offline(_: usize) {
    if let Some(kernel) = kernel::get() {
        // It belongs to a rest.
        kernel.scheduler.mark_upkeep();
    }
    arch::cpu::irqs_off();
    let core = arch::cpu::core().index();
    if let Some(kernel) = kernel::get() {
        // A core that is off does not poll; peers must ring if it fails to start again.
        kernel.attendance.leave(&kernel.own_page, || false);
    }
    shootdown::core_stopped();
    // In a test each core goes off with the interrupt of its timer pending.
    #[cfg(feature = "trials")]
    arch::timer::set(0);
    OFFLINE[core].store(true, Ordering::Release);
    arch::power::cpu_off()
}

/// Entry of a core that was powered on again, on the stack of its `offline` thread, which ends.
extern "C" fn online(_: usize) -> ! {
    cores::enter();
    match kernel::get() {
        Some(kernel) => {
            kernel.scheduler.core_powered_on();
            kernel.scheduler.exit()
        }
        None => arch::cpu::halt(),
    }
}

/// Writes memory back, asks the soc to power the domain off, and waits for that.
///
/// Lines that are dirty at power-off are lost. So after the last `clean`, **no lock is taken**, and
/// nothing is written that is needed again. The last `clean` is of the image's data: it includes
/// the page table's lock, which the walk before it has taken and released.
fn sleep(kernel: &Kernel, warm_entry: u64) {
    duty::release_locks(kernel);
    if let Some(table) = kernel_node::memory::TABLE.get() {
        table.lock().walk(&mut |leaf| {
            if leaf.memory == Memory::Cached && leaf.rights == Rights::ReadWrite {
                arch::cache::clean(leaf.virt.0 as usize, leaf.bytes as usize);
            }
        });
    }
    // Locks and the records of which core holds them are in the image's data.
    let (start, end) = arch::image::layout().data;
    arch::cache::clean(start as usize, (end - start) as usize);
    kernel.soc.request_unanswered(command::OFF, u64::from(kernel.me.0), warm_entry);
    loop {
        arch::cpu::wait();
    }
}

/// Sets the machine up again after a warm boot, on core 0, with interrupts masked.
fn come_back(kernel: &Kernel) {
    arch::irq::init(kernel.blob, DomainId(kernel.me.0));
    if let Err(why) = arch::doorbell::init(kernel.blob) {
        panic!("no doorbells after the power-off: {why:?}");
    }
    kernel.soc.resume();
    kernel.calibrate_clock();
    hooks::unmask_doorbells(kernel.blob);
    kernel.devices.unmask(kernel);
    if kernel.soc.request(command::READY, 0, 0).is_err() {
        log!("the soc refused READY after the power-off");
    }
    rejoin(kernel);
    kernel.trace.event("back from off", u64::from(kernel.epoch.0), 0);
    log!("back from off");
}

/// Joins the other kernels again, with interrupts masked.
pub fn rejoin(kernel: &Kernel) {
    kernel.peers.look_at_chip(kernel);
    if let Some(coherence) = &kernel.coherence {
        coherence.come_back();
    }
    duty::look_at_others(kernel);
    kernel.peers.poll(kernel);
    duty::look_again(kernel);
}
