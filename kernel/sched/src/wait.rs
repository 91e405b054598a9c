//! Wait queues: threads that wait for one kind of event, first come first served.
//!
//! The list lives in the thread table; a queue is its head. Both change under the scheduler's lock
//! only. Who only looks whether somebody waits needs no lock, and misses nobody:
//!
//! ```text
//! waiter:  head = me; fence; look at the condition         waker:  condition; fence; load head
//! ```
//! At least one of the two sees the other's store.

use crate::runqueue::{Index, Links, NONE};
use crate::scheduler::Scheduler;
use core::sync::atomic::{AtomicU16, Ordering, fence};

/// A wait queue; [`Scheduler::wait`] is how to wait in it.
#[derive(Debug)]
pub struct WaitQueue(AtomicU16);

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitQueue {
    /// Nobody waits.
    pub const fn new() -> Self {
        WaitQueue(AtomicU16::new(NONE))
    }

    /// Does somebody wait, as far as can be told without the lock? Whoever changed a condition
    /// before asking wakes everybody that looked at it before.
    #[inline]
    pub fn is_empty(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) == NONE
    }

    /// Wakes the one that has waited longest; false when nobody waits.
    pub fn wake_one(&self, scheduler: &Scheduler) -> bool {
        !self.is_empty() && scheduler.wake_first(self)
    }

    /// Wakes everybody.
    #[inline]
    pub fn wake_all(&self, scheduler: &Scheduler) {
        while self.wake_one(scheduler) {}
    }

    /// Changes the head; only with the scheduler's lock held.
    pub(crate) fn with_head<R>(&self, change: impl FnOnce(&mut Index) -> R) -> R {
        let mut head = self.0.load(Ordering::Relaxed);
        let result = change(&mut head);
        self.0.store(head, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        result
    }
}

/// Puts a thread at the end of the list that `head` begins.
pub(crate) fn append(links: &mut Links, head: &mut Index, index: Index) {
    if *head == NONE {
        *head = index;
        return;
    }
    let mut last = *head;
    while links[last as usize] != NONE {
        last = links[last as usize];
    }
    links[last as usize] = index;
}

/// Takes a thread out of the list that `head` begins.
pub(crate) fn unlink(links: &mut Links, head: &mut Index, index: Index) {
    if *head == index {
        *head = links[index as usize];
        return;
    }
    let mut before = *head;
    while before != NONE {
        let next = links[before as usize];
        if next == index {
            links[before as usize] = links[index as usize];
            return;
        }
        before = next;
    }
}
