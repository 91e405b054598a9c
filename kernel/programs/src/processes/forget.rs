//! Coherent blocks of kernels that have died. One is freed when no kernel has frames of it mapped:
//! when all living ones have answered [`Procedure::ForgetLight`].

use crate::lights::turn::{self, Turn};
use crate::lights::{frames, list};
use alloc::sync::Arc;
use base::id::DomainId;
use core::sync::atomic::{AtomicBool, Ordering};
use kernel_msg::Level;
use kernel_platform::Platform;
use kernel_platform::peers::{CallFailure, Procedure};
use kernel_services::kernel::Kernel;
use kernel_services::session::Session;

/// Interval at which [`here`] looks again.
const AGAIN_NS: u64 = 10_000_000;
/// How often it looks for processes of kernels that have died.
const LOOKS: u32 = 200;

/// A domain's state may have changed since the blocks of dead kernels were looked for.
static MUST_LOOK: AtomicBool = AtomicBool::new(true);
/// A thread frees blocks of kernels that have died.
static FORGETS: AtomicBool = AtomicBool::new(false);

/// Looks for such blocks, if there may be some. By the thread that tends turns.
pub fn dead(kernel: &'static Kernel) {
    if !MUST_LOOK.swap(false, Ordering::AcqRel) || frames::orphans(kernel).is_empty() {
        return;
    }
    if !FORGETS.swap(true, Ordering::AcqRel) && kernel.spawn("forget", None, forget, 0).is_err() {
        FORGETS.store(false, Ordering::Release);
        MUST_LOOK.store(true, Ordering::Release);
    }
}

/// Thread: frees the blocks of kernels that have died, once no kernel has frames of them mapped.
fn forget(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let orphans = frames::orphans(kernel);
    let session = Session::at(kernel, Level(0));
    let has_forgotten = |peer: DomainId| {
        let asked = session.call(peer, Procedure::ForgetLight, &[], &mut []);
        matches!(asked, Ok(_) | Err(CallFailure::PeerLost))
    };
    let is_done = here(kernel) && kernel.others().all(has_forgotten);
    if let Some(balloons) = kernel.balloons.as_ref().filter(|_| is_done) {
        orphans.into_iter().for_each(|index| balloons.free_coherent(kernel, index));
    } else {
        // A kernel is slow, or stopped.
        kernel.scheduler.sleep_until(arch::time::soc_time() + 100 * AGAIN_NS);
    }
    FORGETS.store(false, Ordering::Release);
    look_again(kernel);
}

/// Waits until this kernel has unmapped the memory of all processes that a dead kernel shared.
/// Returns false if that takes too long.
pub fn here(kernel: &'static Kernel) -> bool {
    let is_lost = |turn: &Arc<Turn>| turn.has_lost_peer(kernel);
    for _ in 0..LOOKS {
        if list::all().is_some_and(|turns| !turns.iter().any(is_lost)) {
            return true;
        }
        turn::wake_keeper(kernel);
        kernel.scheduler.sleep_until(arch::time::soc_time() + AGAIN_NS);
    }
    false
}

/// Reports that a domain may have died. From any context.
pub fn look_again(platform: &Platform) {
    MUST_LOOK.store(true, Ordering::Release);
    turn::wake_keeper(platform);
}
