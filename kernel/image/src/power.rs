//! Power of this domain: off with memory kept, back on, and the clock after any wake.
//!
//! ```text
//! running -1-> quiet -2-> suspended -3-> off -4-> stub -5-> running
//! ```
//! 1 one request at a time; the other cores are off, shared pages are handed over;
//! 2 registers saved, dirty lines written back;
//! 3 the soc stops and resets the domain; 4 somebody wakes it;
//! 5 controllers, doorbells and clock as after a cold boot.
//! Being INACTIVE needs nothing of this: the soc stops the domain where it is, and only the clock
//! is behind afterwards.

use crate::coherence::Coherence;
use crate::kernel::{self, Kernel};
use crate::{cores, log, shootdown};
use abi::soc::command;
use alloc::vec::Vec;
use arch::lock::Lock;
use arch::power::Resume;
use arch::types::{Memory, Rights};
use base::id::{CoreId, DomainId};
use base::port::Trace;
use core::sync::atomic::{AtomicBool, Ordering};
use kernel_sched::WaitQueue;

/// Of the thread that turns the domain off: before everything else.
const PRIORITY: u8 = 31;

/// Longer than a core takes from saying that it is out until it is.
const OUT_NS: u64 = 1_000_000_000;

static RESUME: Lock<Resume> = Lock::new(crate::ranks::POWER, Resume::empty());

/// Why this domain does not go off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffError {
    /// It is about to, or on its way back.
    UnderWay,
    /// For the thread that does it.
    NoMemory,
}

/// From the request until all cores run again.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);
/// Who asked has been answered.
static ANSWERED: AtomicBool = AtomicBool::new(false);
static GATE: WaitQueue = WaitQueue::new();

impl Kernel {
    /// Powers this domain off, memory kept, as soon as [`Kernel::answered_power_off`] says so: a
    /// caller without an answer would wake it again.
    pub fn power_off_soon(&'static self) -> Result<(), OffError> {
        if UNDER_WAY.swap(true, Ordering::AcqRel) {
            return Err(OffError::UnderWay);
        }
        let made = self.scheduler.spawn("power", PRIORITY, Some(CoreId(0)), power_off, 0);
        made.map(|_| ()).map_err(|_| {
            UNDER_WAY.store(false, Ordering::Release);
            OffError::NoMemory
        })
    }

    /// The answer to who asked for it is where the caller will look.
    pub fn answered_power_off(&self) {
        ANSWERED.store(true, Ordering::Release);
        GATE.wake_all(&self.scheduler);
    }
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
        log!("power off: it has pages of which nobody else has what is in them");
    } else {
        log!("power off: no memory for it");
    }
    start_others(kernel);
    UNDER_WAY.store(false, Ordering::Release);
}

/// Gives pages that kernels share to the others.
fn has_handed_over(kernel: &'static Kernel) -> bool {
    let hand_over = |coherence: &Coherence| coherence.leave(|| kernel.services.look(kernel));
    kernel.coherence.as_ref().is_none_or(hand_over)
}

/// Takes the other cores out. False when one could not be told to, for lack of memory; those that
/// were told are out by then.
fn stop_others(kernel: &'static Kernel) -> bool {
    // One that never started, or did not come back, has nothing to be told.
    let others = || (1..kernel.domain().cores as usize).filter(|&core| shootdown::is_online(core));
    let tell = |&core: &usize| {
        let here = Some(CoreId(core as u8));
        kernel.scheduler.spawn("offline", PRIORITY, here, offline, 0).is_ok()
    };
    let running = others().count();
    let told: Vec<usize> = others().take_while(tell).collect();
    for &core in &told {
        arch::attend::until(|| OFFLINE[core].load(Ordering::Acquire));
    }
    told.len() == running
}

/// Brings back the cores that are out.
fn start_others(kernel: &Kernel) {
    let out = |&core: &usize| OFFLINE[core].swap(false, Ordering::AcqRel);
    for core in (1..kernel.domain().cores as usize).filter(out) {
        let stack = kernel.scheduler.stack_of(kernel.scheduler.running_on(core));
        // One that was not off with its domain may still be on the last steps of its way out.
        let give_up = arch::time::soc_time() + OUT_NS;
        let mut started = Ok(());
        arch::attend::until(|| {
            started = cores::start(core, stack, online);
            started.is_ok() || arch::time::soc_time() > give_up
        });
        if let Err(why) = started {
            log!("core {core} does not come back: {why:?}");
        }
    }
}

static OFFLINE: [AtomicBool; abi::boot::MAX_CORES] =
    [const { AtomicBool::new(false) }; abi::boot::MAX_CORES];

/// Takes this core out, as its running thread, until [`online`].
fn offline(_: usize) {
    arch::cpu::irqs_off();
    let core = arch::cpu::core().index();
    if let Some(kernel) = kernel::get() {
        // Other kernels ring, if this one comes back without this core.
        kernel.attendance[core].lock().leave(&kernel.own_page, || false);
    }
    shootdown::core_stopped();
    OFFLINE[core].store(true, Ordering::Release);
    arch::power::cpu_off()
}

/// The core is back, on the stack of its `offline` thread, which ends.
extern "C" fn online(core: usize) -> ! {
    cores::enter(core);
    match kernel::get() {
        Some(kernel) => {
            kernel.scheduler.core_powered_on();
            kernel.scheduler.exit()
        }
        None => arch::cpu::halt(),
    }
}

/// Everything saved: memory is written back, the soc is asked, and the rest is waiting.
///
/// What is dirty when the power goes is lost. So **no lock is taken behind the last `clean`**, nor
/// anything else written that is needed again: the walk's own lock would be nobody's for ever.
fn sleep(kernel: &Kernel, warm_entry: u64) {
    if let Some(table) = crate::memory::TABLE.get() {
        table.lock().walk(&mut |leaf| {
            if leaf.memory == Memory::Cached && leaf.rights == Rights::ReadWrite {
                arch::cache::clean(leaf.virt.0 as usize, leaf.bytes as usize);
            }
        });
    }
    // Locks and the bookkeeping of who holds them are the image's own data.
    let (start, end) = arch::image::layout().data;
    arch::cache::clean(start as usize, (end - start) as usize);
    kernel.soc.last_words(command::OFF, u64::from(kernel.me.0), warm_entry);
    loop {
        arch::cpu::wait();
    }
}

/// After a warm boot, on core 0, interrupts masked.
fn come_back(kernel: &Kernel) {
    arch::irq::init(kernel.blob, DomainId(kernel.me.0));
    if let Err(why) = arch::doorbell::init(kernel.blob) {
        panic!("no doorbells after the sleep: {why:?}");
    }
    kernel.soc.resume();
    kernel.calibrate_clock();
    cores::unmask_doorbells(kernel.blob);
    kernel.devices.unmask(kernel);
    if kernel.soc.request(command::READY, 0, 0).is_err() {
        log!("the soc does not take READY after the sleep");
    }
    kernel.peers.look_at_chip(kernel);
    if let Some(coherence) = &kernel.coherence {
        coherence.come_back();
    }
    kernel.peers.poll(kernel);
    kernel.trace.event("back from off", u64::from(kernel.epoch.0), 0);
    log!("back from off");
}
