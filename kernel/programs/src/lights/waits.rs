//! The sleep of threads that wait for notifications ([`super::waiting`]), and the lock of what the
//! book says of them.

use abi::light::state::MOST_WAITERS;
use arch::lock::Lock;
use core::sync::atomic::{AtomicBool, Ordering};
use kernel_node::ranks;
use kernel_platform::Platform;
use kernel_sched::WaitQueue;

/// The threads of one process and one kernel that wait.
pub struct Waits {
    pub(super) queue: WaitQueue,
    /// Held while the book's state is changed: several threads of this kernel may be inside.
    pub(super) book: Lock<()>,
    /// By the place in the book: its sleep is over.
    pub(super) is_over: [AtomicBool; MOST_WAITERS],
}

impl Default for Waits {
    fn default() -> Waits {
        Waits::new()
    }
}

impl Waits {
    pub fn new() -> Waits {
        let is_over = [const { AtomicBool::new(false) }; MOST_WAITERS];
        Waits { queue: WaitQueue::new(), book: Lock::new(ranks::WAITERS, ()), is_over }
    }

    /// Ends the sleep of the thread at a place. From any context.
    pub(super) fn notified(&self, platform: &Platform, place: usize) {
        if let Some(is_over) = self.is_over.get(place) {
            is_over.store(true, Ordering::Release);
            self.queue.wake_all(&platform.scheduler);
        }
    }
}
