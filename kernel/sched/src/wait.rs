//! Wait queues: threads that wait for one kind of event, in FIFO order.
//!
//! The list is in the thread table; a queue holds only its head. Both change only under the
//! scheduler's lock. Checking whether any thread waits takes no lock, and misses no waiter:
//!
//! ```text
//! waiter:  store head; fence; check condition      waker:  set condition; fence; load head
//! ```
//! At least one of the two sees the other's store.

use crate::runqueue::{Index, Links, NONE};
use core::sync::atomic::{AtomicU16, Ordering, fence};

/// A wait queue. [`Scheduler::wait`](crate::Scheduler::wait) waits in it.
#[derive(Debug)]
pub struct WaitQueue(AtomicU16);

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitQueue {
    pub const fn new() -> Self {
        WaitQueue(AtomicU16::new(NONE))
    }

    /// Returns whether no thread waits, without the lock. If the caller has changed the condition
    /// first, no thread that checked it earlier is missed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) == NONE
    }

    /// Changes the head. The caller holds the scheduler's lock.
    #[inline(always)]
    pub(crate) fn with_head<R>(&self, change: impl FnOnce(&mut Index) -> R) -> R {
        let mut head = self.0.load(Ordering::Relaxed);
        let result = change(&mut head);
        self.0.store(head, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        result
    }
}

/// Appends a thread to the list that starts at `head`.
#[inline]
pub(crate) fn append(links: &mut Links, head: &mut Index, index: Index) {
    if *head == NONE {
        *head = index;
        return;
    }
    append_after(links, *head, index);
}

#[inline(never)]
fn append_after(links: &mut Links, first: Index, index: Index) {
    let mut last = first;
    while links[last as usize] != NONE {
        last = links[last as usize];
    }
    links[last as usize] = index;
}

/// Removes a thread from the list that starts at `head`.
#[inline(never)]
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
