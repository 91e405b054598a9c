//! What a core does around its sleep: it stops polling for messages only when there are none, and
//! says so, so that whoever sends one rings (the proof is in `kernel_msg::notify`).

use crate::kernel::{self, Kernel};
use kernel_msg::notify::Place;

/// For the scheduler: false when there is something to look at after all.
pub fn before_sleep() -> bool {
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

/// An interrupt came, and what it was about is dealt with; it may have ended a sleep.
#[inline]
pub fn awake(kernel: &Kernel) {
    kernel.attendance[arch::cpu::core().index()].lock().enter(&kernel.own_page);
}
