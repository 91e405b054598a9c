//! Waking the threads of a wait queue.

use super::{Scheduler, here};
use crate::wait::WaitQueue;
use arch::cpu;

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

impl Scheduler {
    fn wake_first(&self, queue: &WaitQueue) -> bool {
        let mut table = self.table.lock();
        let woken = queue.with_head(|head| table.wake_first(head, here(), cpu::clock()));
        self.announce(&mut table);
        woken
    }

    /// Wakes all threads of a queue in one step.
    fn wake_queue(&self, queue: &WaitQueue) {
        let mut table = self.table.lock();
        let (core, now) = (here(), cpu::clock());
        let is_next = queue.with_head(|head| {
            let is_next = table.wake_next(head, core, now);
            while !is_next && table.wake_first(head, core, now) {}
            is_next
        });
        if !is_next || !table.is_timed(core) {
            self.announce(&mut table);
        }
    }
}
