//! Blocking and waking in one step.
//!
//! Contract: a [`Handoff`] keeps a wake until its holder blocks. It is never lost: whatever the
//! holder does instead, the wake happens when the `Handoff` is dropped. In between interrupts are
//! masked, so the holder is not preempted: a woken thread of higher priority does not wait for it.

use super::{Scheduler, here};
use crate::table::ThreadId;
use arch::{cpu, hold};

/// A wake that waits for its waker to block, and then gets the core.
pub struct Handoff<'a> {
    scheduler: &'a Scheduler,
    thread: Option<ThreadId>,
    irqs_on: bool,
}

impl<'a> Handoff<'a> {
    /// Masks interrupts.
    #[inline]
    pub fn begin(scheduler: &'a Scheduler) -> Handoff<'a> {
        Handoff { scheduler, thread: None, irqs_on: cpu::irqs_off() }
    }

    /// Wakes a thread: when the caller blocks if it is the first one, else now.
    #[inline]
    pub fn wake(&mut self, thread: ThreadId) {
        if self.thread.is_some() {
            self.scheduler.wake(thread);
        } else {
            self.thread = Some(thread);
        }
    }

    /// Wakes the thread now, and unmasks interrupts.
    #[inline]
    pub fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.scheduler.wake(thread);
        }
        cpu::irqs_restore(core::mem::take(&mut self.irqs_on));
    }

    /// Returns whether a thread will be woken.
    #[inline]
    pub fn has_thread(&self) -> bool {
        self.thread.is_some()
    }

    /// Unmasks interrupts for a moment: they are handled, and another thread may run meanwhile. A
    /// thread that was to be woken is woken.
    pub fn breathe(&mut self) {
        self.end();
        cpu::take_interrupts();
        self.irqs_on = cpu::irqs_off();
    }

    /// Wakes the thread and blocks the caller, as [`Scheduler::park`] does. Returns when the caller
    /// was woken, with interrupts unmasked.
    #[inline]
    pub fn block(mut self) {
        self.scheduler.park_for(self.thread.take());
    }
}

impl Drop for Handoff<'_> {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

impl Scheduler {
    /// Blocks the caller until [`Scheduler::wake`], unless it was woken since it blocked last: so
    /// the caller looks again at what it waits for, and may find nothing.
    pub fn park(&self) {
        self.park_for(None);
    }

    /// Does the same, and wakes `next`, which gets the core if no other thread comes first.
    fn park_for(&self, next: Option<ThreadId>) {
        let mut table = self.table.lock();
        debug_assert_eq!(arch::lock::held(), 1, "a thread blocks without locks");
        debug_assert!(!hold::is_held(), "unpreempted work does not block");
        let core = here();
        if let Some(to) = next
            && let Some((from, at)) = table.hand_off(core, to, cpu::clock())
        {
            self.set_running(core, to);
            self.contexts.switch(from, at);
            return;
        }
        if let Some(next) = next {
            table.wake(next, core, cpu::clock());
        }
        if table.block_current(core) {
            drop(self.switch_away(table));
        } else {
            self.announce(&mut table);
        }
    }
}
