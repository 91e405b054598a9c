//! The next thread: a ready one beside the run queue, which is empty.
//!
//! ```text
//!   Blocked ---wake_next---> Ready, next ---block_for_next---> Running
//!                                  |
//!                                  `---anything else on this core---> Ready, in the run queue
//! ```
//! Two programs that talk wake each other and then wait for the answer. Through the run queue that
//! takes longer than what they do. So a thread that is woken as the only one that waits for
//! something, and would be alone in the queue, is kept beside it; if the running one blocks, the
//! next one continues.
//!
//! Contract: what runs when is as it would be with the queue alone. Whatever looks at the queue
//! considers the next thread; whatever changes the queue, but the two steps above, puts it there
//! first.

use super::{Core, Index, Phase, Table, ThreadId};
use crate::runqueue::{Level, NONE};

impl Core {
    /// Returns whether a thread is ready here.
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        self.next.is_some() || !self.queue.is_empty()
    }

    /// Returns the highest level of a ready thread.
    #[inline]
    pub(super) fn highest(&self) -> Option<Level> {
        self.next.map_or_else(|| self.queue.highest(), |(_, level)| Some(level))
    }
}

impl Table {
    /// Wakes the only thread in the list that starts at `head`, as the next one. Returns false if
    /// nothing was done: it is not the only one, or would not be alone in this core's queue.
    #[inline]
    pub fn wake_next(&mut self, head: &mut Index, core: usize, now: u64) -> bool {
        let index = *head;
        if index == NONE || self.waits[index as usize] != NONE || !self.may_be_next(index, core) {
            return false;
        }
        *head = NONE;
        self.entries[index as usize].waiting = false;
        let level = self.set_ready(index, core, now);
        self.cores[core].next = Some((index, level));
        true
    }

    /// Returns whether a thread would be alone in a core's queue if it were woken.
    #[inline]
    fn may_be_next(&self, index: Index, core: usize) -> bool {
        let woken = &self.entries[index as usize];
        let is_alone = woken.phase == Phase::Blocked && !self.cores[core].has_ready();
        let is_at_home = || woken.core as usize == core && self.select_core(index) == core;
        is_alone && (self.cores.len() == 1 || is_at_home())
    }

    /// Blocks the running thread and continues the next one. Returns the index of the former and
    /// the latter, or `None` if nothing was done: there is no next thread, or the running one has
    /// a permit, or a deadline, for which the timer has to be set.
    #[inline]
    pub fn block_for_next(&mut self, core: usize, now: u64) -> Option<(usize, ThreadId)> {
        let here = &mut self.cores[core];
        let from = here.current as usize;
        let entry = &self.entries[from];
        if entry.permit || entry.sleeps {
            return None;
        }
        let (next, level) = here.next.take()?;
        self.entries[from].phase = Phase::Blocked;
        self.begin_turn(core, (next, level), now);
        Some((from, self.id(next)))
    }

    /// Puts the next thread of a core, if there is one, into its run queue.
    #[inline]
    pub(super) fn queue_next(&mut self, core: usize) {
        let here = &mut self.cores[core];
        if let Some((index, level)) = here.next.take() {
            here.queue.push(&mut self.links, index, level);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Event, NewThread, nothing};
    use crate::{Deadline, MAX_THREADS};
    use proptest::prelude::*;

    const SLICE: u64 = 20;

    fn thread(table: &mut Table, priority: u8, affinity: Option<u8>, now: u64) -> ThreadId {
        let new = NewThread { name: "t", priority, affinity, start: (nothing, 0), stack: 1 };
        table.create(new, 0, now).expect("there is room")
    }

    fn table(cores: usize) -> Table {
        let mut table = Table::new(cores, SLICE);
        (0..cores).for_each(|core| table.online(core, 0));
        table
    }

    /// The running thread of core 0 waits.
    fn waits(table: &mut Table, head: &mut Index, now: u64) {
        table.prepare_wait(0, head, None);
        assert!(table.block_current(0));
        table.pick(0, now);
    }

    /// A table whose core 0 runs the second thread; the first one waits in the list.
    fn pair(cores: usize) -> (Table, Index, [ThreadId; 2]) {
        let (mut table, mut head) = (table(cores), NONE);
        let ids = [(); 2].map(|()| thread(&mut table, 4, Some(0), 0));
        table.pick(0, 0);
        waits(&mut table, &mut head, 0);
        assert_eq!(table.current(0), ids[1]);
        (table, head, ids)
    }

    #[test]
    fn the_next_thread_runs_when_its_waker_blocks() {
        let (mut table, mut head, [first, second]) = pair(1);
        assert!(table.wake_next(&mut head, 0, 1));
        assert_eq!((head, table.current(0)), (NONE, second));
        assert!(table.has_ready(0) && table.is_any_ready() && table.quiet(0).is_none());
        assert_eq!(table.block_for_next(0, 3), Some((second.index(), first)));
        assert_eq!(table.current(0), first);
        assert!(!table.has_ready(0));
        assert_eq!(table.block_for_next(0, 4), None);
    }

    #[test]
    fn its_waker_is_preempted_as_for_a_queued_thread() {
        let (mut table, mut head, [first, second]) = pair(1);
        assert!(table.wake_next(&mut head, 0, 1));
        assert_eq!(table.next_event(0), Event { sleeper: None, slice: Some(SLICE) });
        assert!(!table.is_timed(0), "its timer is not set yet");
        assert_eq!(table.rearm(0, |at| at), Some(SLICE));
        assert!(table.is_timed(0));
        assert!(table.should_preempt(0, SLICE));
        table.requeue_current(0, SLICE);
        assert_eq!(table.pick(0, SLICE), first.index());
        table.yield_current(0);
        assert_eq!(table.pick(0, SLICE + 1), second.index());
    }

    #[test]
    fn a_waker_with_a_permit_does_not_block() {
        let (mut table, mut head, [_, second]) = pair(1);
        assert!(table.wake_next(&mut head, 0, 1));
        table.wake(second, 0, 1);
        assert_eq!(table.block_for_next(0, 2), None);
        assert!(!table.block_current(0) && table.has_ready(0));
    }

    #[test]
    fn a_thread_is_next_only_in_front_of_an_empty_queue_on_its_own_core() {
        let (mut ready, mut head, _) = pair(1);
        thread(&mut ready, 4, None, 1);
        assert!(!ready.wake_next(&mut head, 0, 1) && head != NONE, "another one is ready");

        let (mut two, mut head) = (table(2), NONE);
        (0..2).for_each(|_| _ = thread(&mut two, 4, None, 0));
        two.pick(0, 0);
        waits(&mut two, &mut head, 0);
        assert!(!two.wake_next(&mut head, 0, 1), "another core can run it at once");
        assert!(!two.wake_next(&mut { NONE }, 0, 1), "no thread waits");
    }

    #[test]
    fn a_thread_with_a_deadline_does_not_hand_over_without_the_timer() {
        let (mut table, mut head, _) = pair(1);
        assert!(table.wake_next(&mut head, 0, 1));
        table.prepare_wait(0, &mut head, Some(Deadline::Firm(9)));
        assert_eq!(table.block_for_next(0, 2), None);
        assert!(table.block_current(0));
        table.pick(0, 2);
        assert_eq!(table.rearm(0, |at| at), Some(9));
    }

    #[test]
    fn another_core_takes_the_next_thread() {
        let (mut table, mut head) = (table(2), NONE);
        let ids = [(); 3].map(|()| thread(&mut table, 4, None, 0));
        table.pick(0, 0);
        waits(&mut table, &mut head, 0);
        table.pick(1, 0);
        assert!(table.wake_next(&mut head, 0, 1));
        assert!(table.block_current(1));
        assert_eq!(table.pick(1, 2), ids[0].index());
        assert!(!table.has_ready(0));
    }

    fn cores(table: &Table) -> usize {
        table.cores.len()
    }

    /// What a program can notice of a table: by core what runs and when that ends, by thread its
    /// state, its core and how long it has run.
    type Seen = (Vec<(ThreadId, Event)>, Vec<(Phase, u8, u64)>);

    fn seen(table: &Table, now: u64) -> Seen {
        let running = |core| (table.current(core), table.next_event(core));
        let ran = |id| table.ran(id, now);
        let threads = (0..MAX_THREADS).filter_map(|index| table.at(index));
        let threads = threads.map(|(id, entry)| (entry.phase, entry.core, ran(id)));
        ((0..table.cores.len()).map(running).collect(), threads.collect())
    }

    /// One of two tables with the same threads: with or without next threads.
    struct One {
        table: Table,
        has_next: bool,
        heads: [Index; 3],
    }

    impl One {
        fn wake(&mut self, list: usize, core: usize, now: u64) {
            let head = &mut self.heads[list];
            if !(self.has_next && self.table.wake_next(head, core, now)) {
                while self.table.wake_first(head, core, now) {}
            }
        }

        fn block(&mut self, core: usize, now: u64) {
            if self.has_next && self.table.block_for_next(core, now).is_some() {
                return;
            }
            if self.table.block_current(core) {
                self.table.pick(core, now);
            }
        }

        /// The running thread of a core leaves a list, if it is there.
        fn leave(&mut self, core: usize, list: usize) {
            let (table, head) = (&mut self.table, &mut self.heads[list]);
            let current = table.cores[core].current;
            let mut at = *head;
            while at != NONE {
                if at == current {
                    return table.cancel_wait(core, head);
                }
                at = table.waits[at as usize];
            }
        }

        fn apply(&mut self, (op, core, list): (u8, usize, usize), now: u64) {
            let is_idle = self.table.is_idle(core);
            let table = &mut self.table;
            match op {
                0..=2 => self.wake(list, core, now),
                3..=5 if !is_idle => {
                    let deadline = (op == 5).then_some(Deadline::Firm(now + 5));
                    table.prepare_wait(core, &mut self.heads[list], deadline);
                    self.block(core, now);
                }
                9 if !is_idle => {
                    let id = table.at(core + cores(table) + list).map(|(id, _)| id);
                    if id.and_then(|id| table.hand_off(core, id, now)).is_none() {
                        self.block(core, now);
                    }
                }
                10 if !is_idle && list == 0 => {
                    table.exit_current(core);
                    table.pick(core, now);
                }
                11 => _ = thread(table, 4 + list as u8 % 2, (list == 2).then_some(0), now),
                6 if !is_idle && table.sleep_current(core, Deadline::Firm(now + 7)) => {
                    table.pick(core, now);
                }
                7 => table.expire(core, now, now),
                8 if table.has_ready(core) => {
                    table.yield_current(core);
                    table.pick(core, now);
                }
                _ if table.should_preempt(core, now) => {
                    table.requeue_current(core, now);
                    table.pick(core, now);
                }
                _ => {}
            }
        }
    }

    proptest! {
        #[test]
        fn what_runs_when_is_as_with_the_queue_alone(
            cores in 1usize..3,
            ops in prop::collection::vec((0u8..14, 0usize..2, 0usize..3, 0u64..9), 0..200),
        ) {
            let mut both = [true, false].map(|has_next| {
                let mut table = table(cores);
                (0..4).for_each(|at| _ = thread(&mut table, 4 + at / 3, None, 0));
                (0..cores).for_each(|core| _ = table.pick(core, 0));
                One { table, has_next, heads: [NONE; 3] }
            });
            let mut now = 0;
            for (op, core, list, ticks) in ops {
                now += ticks;
                for one in &mut both {
                    // A thread that runs again leaves the list that it waited in.
                    (0..cores * 3).for_each(|at| one.leave(at / 3, at % 3));
                    one.apply((op, core % cores, list), now);
                }
                let [with, without] = &both;
                prop_assert_eq!(seen(&with.table, now), seen(&without.table, now));
            }
        }
    }
}
