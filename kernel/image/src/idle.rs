//! What a core does around its sleep, and around programs: it stops polling for messages only when
//! there are none, and says so, so that whoever sends one rings (the proof is in
//! `kernel_msg::notify`).

use crate::kernel::{self, Kernel};
use kernel_msg::notify::Presence;

/// For the scheduler: false when there is something to look at after all.
pub fn before_sleep() -> bool {
    let Some(kernel) = kernel::get() else { return true };
    let away = {
        let mut attendance = kernel.attendance[arch::cpu::core().index()].lock();
        attendance.leave(&kernel.own_page, || kernel.peers.is_waiting()) == Presence::Away
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

/// The core goes on in a program, which polls nothing: behind each interrupt of one, and behind
/// each wait of one in the kernel, where this thread may have come onto another core.
pub fn to_program(kernel: &Kernel) {
    // Whom nobody else is there for nobody rings.
    while kernel.peers.are_served() {
        let away = {
            let mut attendance = kernel.attendance[arch::cpu::core().index()].lock();
            let presence = match attendance.presence() {
                Presence::Away => Presence::Away,
                _ => attendance.leave(&kernel.own_page, || kernel.peers.is_waiting()),
            };
            presence == Presence::Away
        };
        if away {
            return;
        }
        kernel.peers.poll(kernel);
    }
}
