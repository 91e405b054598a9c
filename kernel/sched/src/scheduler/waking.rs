//! Waking the threads of a wait queue.

use super::Scheduler;
use crate::wait::WaitQueue;

impl WaitQueue {
    /// Wakes the thread that has waited longest; returns false if no thread waits.
    pub fn wake_one(&self, scheduler: &Scheduler) -> bool {
        !self.is_empty() && scheduler.wake_first(self)
    }

    /// Wakes the threads that wait now. One that waits again meanwhile is not woken again: a woken
    /// thread of higher priority runs at once, and with a loop over [`WaitQueue::wake_one`] it and
    /// the caller would wake each other without end.
    #[inline]
    pub fn wake_all(&self, scheduler: &Scheduler) {
        if !self.is_empty() {
            scheduler.wake_queue(self);
        }
    }
}
