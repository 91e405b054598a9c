//! What this kernel does about hangs: it reports waits that last too long to the soc, says which
//! domain holds up a page, and abandons a step that others have waited for too long: because the
//! soc demands it, or because the step has kept threads of this kernel from running, or from their
//! turn ([`Watch`]). `docs/design/hangs.md` describes the whole.

mod watch;

use crate::duty;
use crate::kernel::{self, Kernel};
use abi::hang::{Blame, Item};
use abi::lock::LockWord;
use arch::attend::Stall;
use arch::lock::CoreLocal;
use arch::trap::TrapFrame;
use base::id::CoreId;
#[cfg(feature = "trials")]
use core::sync::atomic::AtomicBool;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_node::shootdown::core_kind;
#[cfg(feature = "trials")]
use kernel_platform::coherence::Coherence;
use watch::Watch;

/// Hook: this core has waited long. The domain that it waits for may be INACTIVE, or hang.
pub fn stalled(stall: Stall) {
    let Some(kernel) = kernel::get() else { return };
    // Others may wait for what this kernel keeps, and interrupts may be masked here.
    duty::release_locks(kernel);
    kernel.wake_inactive_peers();
    let suspect = match stall.item {
        Item::Lock(_) => Some(kernel.me),
        Item::Page(_) => stall.suspect,
    };
    if stall.is_late
        && let Some(suspect) = suspect
    {
        let locks = arch::exclusion::held();
        kernel.soc.report_wait(arch::cpu::core(), locks, stall.item, suspect);
    }
}

/// The chip time at which this kernel's cores last looked at their steps for a core that waits.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Hook: this core has waited long for a step of another one, which may hang. Lets the other cores
/// look at their steps, if it is time.
pub fn core_stalled() {
    let Some(kernel) = kernel::get() else { return };
    let (now, last) = (arch::time::soc_time(), LOOKED.load(Ordering::Relaxed));
    let is_time = now.saturating_sub(last) >= watch::LOOK_NS;
    if is_time && LOOKED.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        interrupt_others(kernel);
    }
}

fn interrupt_others(kernel: &Kernel) {
    let here = arch::cpu::core();
    let others = (0..kernel.domain().cores as u8).map(CoreId).filter(|&core| core != here);
    others.for_each(|core| arch::irq::send_core(core, core_kind::ABANDON));
}

/// Hook: the wait that this core has reported is over.
pub fn resumed() {
    if let Some(kernel) = kernel::get() {
        kernel.soc.withdraw_wait(arch::cpu::core());
    }
}

/// Hook of a waiting core, which may have masked the doorbell that announces a demand.
pub fn look_for_demand() {
    if let Some(kernel) = kernel::get() {
        answer(kernel);
    }
}

/// Answers the soc's demand about a page, if there is one. Neither allocates nor waits; if another
/// core handles messages at this moment, that core or a later call answers.
pub fn answer(kernel: &Kernel) {
    let Some((number, Item::Page(page))) = kernel.soc.demand() else { return };
    let blame = match &kernel.coherence {
        None => Some(Blame::Nothing),
        Some(coherence) => coherence.blame(page),
    };
    if let Some(blame) = blame {
        kernel.soc.answer_demand(number, blame);
    }
}

/// Returns this domain's word of a lock with a count that no two steps share. The word itself does
/// not change with a step that finds the lock kept.
fn step_with(kernel: &Kernel, lock: usize) -> LockWord {
    kernel.soc.own_lock(lock).counted(arch::domain_lock::kept_steps(lock as u8))
}

/// The step that the soc has last demanded to abandon: its lock, plus 1, or 0; and its word.
static DEMANDED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Obeys the soc's demand to abandon the step that has a lock, if there is one: on this core, or by
/// an interrupt to the others. Called in the interrupt that announces a demand.
pub fn obey(kernel: &Kernel, frame: &mut TrapFrame) {
    let Some((number, Item::Lock(lock))) = kernel.soc.demand() else { return };
    let [demanded, word] = &DEMANDED;
    word.store(step_with(kernel, lock.into()).0, Ordering::Relaxed);
    demanded.store(u64::from(lock) + 1, Ordering::Release);
    if !abandon_here(kernel, frame) {
        interrupt_others(kernel);
    }
    // The soc does not read this answer, but the demand is not obeyed twice.
    kernel.soc.answer_demand(number, Blame::Nothing);
}

/// Abandons the step that this core has interrupted, if it is the one of the last demand. Returns
/// false if it is not. The step's service starts again.
fn abandon_here(kernel: &Kernel, frame: &mut TrapFrame) -> bool {
    let [demanded, word] = &DEMANDED;
    let Some(lock) = demanded.load(Ordering::Acquire).checked_sub(1) else { return false };
    let is_here = arch::exclusion::held() >> lock & 1 != 0
        && step_with(kernel, lock as usize).0 == word.load(Ordering::Relaxed);
    is_here && abandon(frame)
}

fn abandon(frame: &mut TrapFrame) -> bool {
    let abandoned = arch::rescue::abandon_interrupted(frame);
    if abandoned {
        ABANDONED.fetch_add(1, Ordering::Relaxed);
    }
    abandoned
}

/// What has been seen of each core's steps.
static WATCHES: CoreLocal<Watch> = CoreLocal::new(Watch::new());

/// Looks at the step that this core has interrupted, for a thread that cannot run meanwhile. A step
/// that has lasted too long is abandoned, unless it waits: then that wait is followed.
#[inline]
pub fn look(kernel: &Kernel, frame: &mut TrapFrame) {
    let held = arch::exclusion::held();
    if held != 0 && !arch::attend::waits() {
        look_at(kernel, held, frame);
    }
}

#[cold]
#[inline(never)]
fn look_at(kernel: &Kernel, held: u64, frame: &mut TrapFrame) {
    let now = arch::time::soc_time();
    let word = |lock| step_with(kernel, lock);
    let is_over = WATCHES.with(|watch| watch.look(now, held, word));
    if is_over && abandon(frame) {
        kernel_node::log!("hangs: a step never ended; its service starts again");
    }
}

/// Another core has interrupted this one, for the soc's demand, or because it waits for a step:
/// looks at the step that this core executes.
pub fn interrupted(kernel: &Kernel, frame: &mut TrapFrame) {
    if !abandon_here(kernel, frame) {
        look(kernel, frame);
    }
}

/// For tests: the next fault on the shared block never ends.
#[cfg(feature = "trials")]
pub static HANGS_IN_FAULT: AtomicBool = AtomicBool::new(false);

/// Does so, with the driver's lock.
#[cfg(feature = "trials")]
pub fn hang_in_fault(coherence: &Coherence) {
    if HANGS_IN_FAULT.swap(false, Ordering::Relaxed) {
        coherence.with_pages_fixed(|_| {
            loop {
                core::hint::spin_loop();
            }
        });
    }
}

/// Number of steps that were abandoned because others waited for them.
pub static ABANDONED: AtomicU64 = AtomicU64::new(0);
