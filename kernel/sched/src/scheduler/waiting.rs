//! Waiting in a queue.

use super::{Scheduler, here};
use crate::sleepers::Deadline;
use crate::table::Table;
use crate::wait::WaitQueue;
use arch::lock::Guard;
use arch::{cpu, hold, time};

impl Scheduler {
    /// Waits in `queue` until `done` returns true. Code that makes it true wakes the queue
    /// afterwards.
    pub fn wait(&self, queue: &WaitQueue, done: impl FnMut() -> bool) {
        self.wait_until(queue, None, done);
    }

    /// Does the same as [`Scheduler::wait`], but gives up at soc time `deadline`. Returns whether
    /// `done` returned true.
    pub fn wait_until(
        &self,
        queue: &WaitQueue,
        deadline: Option<u64>,
        done: impl FnMut() -> bool,
    ) -> bool {
        self.wait_for(queue, deadline.map(Deadline::Firm), done)
    }

    /// Does the same as [`Scheduler::wait_until`], with a deadline of either kind.
    pub fn wait_for(
        &self,
        queue: &WaitQueue,
        deadline: Option<Deadline>,
        mut done: impl FnMut() -> bool,
    ) -> bool {
        loop {
            if done() {
                return true;
            }
            if deadline.is_some_and(|deadline| time::soc_time() >= deadline.at()) {
                return false;
            }
            drop(self.enqueue(queue, deadline));
            let now_done = done();
            self.block_in(queue, self.table.lock(), !now_done);
            if now_done {
                return true;
            }
        }
    }

    /// Adds the caller to `queue`. From here on a wake of the queue wakes the caller.
    #[inline(always)]
    fn enqueue(&self, queue: &WaitQueue, deadline: Option<Deadline>) -> Guard<'_, Table> {
        let mut table = self.table.lock();
        queue.with_head(|head| table.prepare_wait(here(), head, deadline));
        table
    }

    /// Blocks in `queue` if `sleeps`, until woken or the deadline; then removes the caller from the
    /// queue.
    #[inline(always)]
    fn block_in(&self, queue: &WaitQueue, mut table: Guard<'_, Table>, sleeps: bool) {
        debug_assert_eq!(arch::lock::held(), 1, "a thread blocks without locks");
        if sleeps {
            table = self.block(table);
        }
        queue.with_head(|head| table.cancel_wait(here(), head));
    }

    /// Waits once in `queue` for a change of what is locked by `held`. That is released when the
    /// caller is in the queue, so no wake is missed. Then `sleeps` decides whether it waits, which
    /// is returned: under the scheduler's lock, so it takes no lock and wakes no thread.
    pub fn wait_released<T: ?Sized>(
        &self,
        queue: &WaitQueue,
        deadline: Option<Deadline>,
        held: Guard<'_, T>,
        sleeps: impl FnOnce() -> bool,
    ) -> bool {
        let mut table = self.enqueue(queue, deadline);
        held.release_before(&mut table);
        let sleeps = sleeps();
        self.block_in(queue, table, sleeps);
        sleeps
    }

    /// Blocks the caller, unless it has a permit. Returns when it runs again.
    #[inline]
    fn block<'a>(&self, mut table: Guard<'a, Table>) -> Guard<'a, Table> {
        debug_assert!(!hold::is_held(), "unpreempted work does not block");
        let core = here();
        if let Some((from, to)) = table.block_for_next(core, cpu::clock()) {
            self.set_running(core, to);
            self.contexts.switch(from, to.index());
        } else if table.block_current(core) {
            return self.switch_away(table);
        }
        table
    }
}
