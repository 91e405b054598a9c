//! Waiting at an address for a notification of any thread of the process, on either kernel
//! (`memory.atomic.wait`, `notify`). The threads that wait are listed in the book.
//!
//! ```text
//!   inside: begin_wait --> leave --> sleep --> enter --> end_wait: notified, or not
//! ```
//! A thread that was notified finds that in the book when it has the turn again; the notice of the
//! other kernel only ends its sleep.

use super::turn::Turn;
use abi::light::{LightNotice, notice, waiter};
use core::sync::atomic::Ordering;
use kernel_platform::Platform;

impl Turn {
    fn kind(&self) -> u8 {
        if self.is_weak() { waiter::LIGHT } else { waiter::NORMAL }
    }

    /// Records that the calling thread, which is inside, waits, if `is_expected`. Returns its
    /// place, if there is one. A thread that changes the value and then notifies finds it, or it
    /// finds the new value.
    pub fn begin_wait(&self, address: u64, is_expected: &dyn Fn() -> bool) -> Option<usize> {
        let kind = self.kind();
        let _book = self.waits.book.lock();
        if !is_expected() {
            return None;
        }
        let place = self.memory.state().wait(address, kind)?;
        self.waits.is_over[place].store(false, Ordering::Relaxed);
        Some(place)
    }

    /// Sleeps until notified, a time, or `is_ended`. Outside.
    pub fn sleep(
        &self,
        platform: &Platform,
        place: usize,
        deadline: Option<u64>,
        is_ended: &dyn Fn() -> bool,
    ) {
        let is_over = &self.waits.is_over[place];
        let done = || is_over.load(Ordering::Acquire) || is_ended();
        platform.scheduler.wait_until(&self.waits.queue, deadline, done);
    }

    /// Ends a wait, if the thread was notified or `is_late`. Returns whether it was notified.
    /// `None`: it continues to wait. Inside.
    pub fn end_wait(&self, place: usize, is_late: bool) -> Option<bool> {
        let _book = self.waits.book.lock();
        let state = self.memory.state();
        if !is_late && !state.is_notified(place) {
            self.waits.is_over[place].store(false, Ordering::Relaxed);
            return None;
        }
        Some(state.end_wait(place))
    }

    /// Returns the number of a new thread. Inside.
    pub fn next_thread(&self, last: u32) -> Option<u32> {
        let _book = self.waits.book.lock();
        self.memory.state().next_thread(last)
    }

    /// Notifies up to `count` threads that wait at an address. Returns how many. Inside.
    pub fn notify(&self, platform: &Platform, address: u64, count: u32) -> u32 {
        let own = self.kind();
        let mut notified = 0;
        while notified < count {
            let book = self.waits.book.lock();
            let found = self.memory.state().notify(address);
            drop(book);
            let Some((place, kind)) = found else { break };
            notified += 1;
            if kind == own {
                self.waits.notified(platform, place);
            } else {
                let (kind, value) = (notice::NOTIFY, place as u32);
                let notice = LightNotice { pid: self.pid, kind, value, ..Default::default() };
                self.notify_peer(platform, notice);
            }
        }
        notified
    }
}
