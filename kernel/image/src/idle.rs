//! What a core does around its sleep: it stops polling for messages only when there are none, and
//! says so, so that whoever sends one rings (the proof is in `kernel_msg::notify`).

use crate::kernel;
use kernel_msg::notify::Place;
use kernel_sched::scheduler::IdleHooks;

/// For the scheduler.
pub const HOOKS: IdleHooks = IdleHooks { before, after };

/// False when there is something to look at after all.
fn before() -> bool {
    let Some(kernel) = kernel::get() else { return true };
    let away = {
        let mut attendance = kernel.attendance[arch::cpu::core().index()].lock();
        attendance.leave(&kernel.own_page, || kernel.peers.is_waiting()) == Place::Away
    };
    if !away {
        kernel.peers.poll(kernel);
    }
    away
}

fn after() {
    let Some(kernel) = kernel::get() else { return };
    kernel.attendance[arch::cpu::core().index()].lock().enter(&kernel.own_page);
}
