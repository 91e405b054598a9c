//! What this kernel does about hangs: it reports waits that last too long to the soc, says which
//! domain holds up a page, and abandons a step that others have waited for too long.
//! `docs/design/hangs.md` describes the whole.

use crate::kernel::{self, Kernel};
use abi::hang::{Blame, Item};
use arch::attend::Stall;
use arch::trap::TrapFrame;
use base::id::CoreId;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_node::shootdown::core_kind;

/// Hook: this core has waited long. The domain that it waits for may be INACTIVE, or hang.
pub fn stalled(stall: Stall) {
    let Some(kernel) = kernel::get() else { return };
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

/// Obeys the soc's demand to abandon the step that has a lock, if there is one: on this core, or by
/// an interrupt to the others. Called in the interrupt that announces a demand.
pub fn obey(kernel: &Kernel, frame: &mut TrapFrame) {
    let Some((number, Item::Lock(_))) = kernel.soc.demand() else { return };
    if !abandon_here(kernel, frame) {
        let here = arch::cpu::core();
        let others = (0..kernel.domain().cores as u8).map(CoreId).filter(|&core| core != here);
        others.for_each(|core| arch::irq::send_core(core, core_kind::ABANDON));
    }
    // The soc does not read this answer, but the demand is not obeyed twice.
    kernel.soc.answer_demand(number, Blame::Nothing);
}

/// Abandons the step that this core has interrupted, if it has the lock of the last demand. Returns
/// false if it has not. The step's service starts again.
pub fn abandon_here(kernel: &Kernel, frame: &mut TrapFrame) -> bool {
    let Some((_, Item::Lock(lock))) = kernel.soc.last_demand() else { return false };
    let is_here = arch::exclusion::held() >> lock & 1 != 0;
    let abandoned = is_here && arch::rescue::abandon_interrupted(frame);
    if abandoned {
        ABANDONED.fetch_add(1, Ordering::Relaxed);
    }
    abandoned
}

/// Number of steps that were abandoned because others waited for them.
pub static ABANDONED: AtomicU64 = AtomicU64::new(0);
