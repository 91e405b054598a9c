//! Before a core sleeps or runs a program, it stops polling for messages: it clears its attending
//! word, so that senders ring its doorbell, and polls once more (`kernel_msg::notify` has the
//! protocol). While no other kernel runs, nothing can have arrived, and no core looks. When one
//! begins to run, the chip page changes, and this kernel polls.

use crate::kernel::{self, Kernel};
use arch::attend::{self, Reason};
use kernel_platform::Platform;

/// Records whether some other kernel runs. The caller polls afterwards: the others may have sent
/// something before they stopped, or since they began.
pub fn set_others_run(run: bool) {
    attend::set_reason(Reason::Messages, run);
}

/// Returns whether another kernel may have sent something since the last poll.
#[inline]
pub fn others_run() -> bool {
    attend::has_reason(Reason::Messages)
}

/// Hook of the scheduler, called before a core sleeps. Returns false if a message has arrived; the
/// core must not sleep then.
#[inline]
pub fn before_sleep() -> bool {
    let Some(kernel) = kernel::get() else { return true };
    let is_away = leave(kernel);
    if !is_away {
        kernel.peers.poll(kernel);
    }
    is_away
}

/// Declares that this core polls again. Called in each interrupt, which may have ended a sleep.
#[inline]
pub fn awake(kernel: &Kernel) {
    kernel.attendance.enter(&kernel.own_page);
}

/// Declares that this core does not poll, because it returns to a program, or has long work to do.
/// Called after each interrupt of a program, and after each wait of a program's thread in the
/// kernel, after which it may be on another core. Handles the messages that have arrived first.
#[inline]
pub fn to_program(kernel: &Platform) {
    // Without peers there are no messages.
    while kernel.peers.are_served() {
        if kernel.attendance.is_away() || leave(kernel) {
            return;
        }
        kernel.peers.poll(kernel);
    }
}

/// Declares that this core does not poll. Returns false if it must, because a message has arrived.
fn leave(kernel: &Platform) -> bool {
    let has_arrived = || others_run() && kernel.peers.is_waiting();
    kernel.attendance.leave(&kernel.own_page, has_arrived)
}
