//! Handoff: a thread that blocks gives its core to a thread that it wakes, without the run queue.
//!
//! Contract: the turn continues, so two threads that hand a core to each other get together what
//! one thread would get, and others of their priority wait no longer than for one thread. So the
//! virtual time stays with the turn: else the one that has run little would be owed what the other
//! one has had. A thread of higher priority that is ready comes first.

use super::{Phase, Table, ThreadId};

impl Table {
    /// Blocks the running thread and continues `to` in its place. Returns the two threads' indices,
    /// or `None` if nothing was done: the running thread has a permit, or `to` is not blocked, may
    /// not run here, or would not run next.
    #[inline]
    pub fn hand_off(&mut self, core: usize, to: ThreadId, now: u64) -> Option<(usize, usize)> {
        let here = &self.cores[core];
        let from = here.current;
        let (running, next) = (&self.entries[from as usize], self.get(to)?);
        let is_first = here.highest().is_none_or(|ready| ready.priority() <= next.priority);
        let is_blocked = next.phase == Phase::Blocked && !running.permit;
        let may_run = next.affinity.is_none_or(|only| usize::from(only) == core);
        // The idle thread never blocks. With equal priorities the timer stays as it is.
        let are_equal = running.priority == next.priority && from as usize != core;
        if !(is_first && is_blocked && may_run && are_equal) {
            return None;
        }
        self.cancel_sleep(to.index);
        self.change_core(to.index, core, now);
        self.entries[from as usize].phase = Phase::Blocked;
        self.entries[to.index()].upkeep.woken();
        let next = self.run(core, to.index, now);
        self.exchange_times(from.into(), next);
        Some((from.into(), next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{NewThread, nothing};

    const SLICE: u64 = 10;

    fn thread(table: &mut Table, priority: u8, affinity: Option<u8>) -> ThreadId {
        let new = NewThread { name: "t", priority, affinity, start: (nothing, 0), stack: 1 };
        table.create(new, 0, 0).expect("there is room")
    }

    /// A table whose core 0 runs the first thread at time 0; the second one is blocked.
    fn pair(cores: usize) -> (Table, [ThreadId; 2]) {
        let mut table = Table::new(cores, SLICE);
        table.online(0, 0);
        let [second, first] = [(); 2].map(|()| thread(&mut table, 4, None));
        table.requeue_current(0, 0);
        assert_eq!(table.pick(0, 0), second.index());
        assert!(table.block_current(0));
        assert_eq!(table.pick(0, 0), first.index());
        (table, [first, second])
    }

    #[test]
    fn the_woken_thread_runs_in_place_of_its_waker() {
        let (mut table, [first, second]) = pair(1);
        assert_eq!(table.hand_off(0, second, 3), Some((first.index(), second.index())));
        assert_eq!(table.current(0), second);
        let phase = |id| table.get(id).map(|entry| entry.phase);
        assert_eq!([first, second].map(phase), [Some(Phase::Blocked), Some(Phase::Running)]);
        assert!(!table.has_ready(0));
        assert_eq!([first, second].map(|id| table.ran(id, 5)), [3, 2]);
        assert_eq!(table.residency(0, 5), (5, 0));
    }

    #[test]
    fn two_threads_that_hand_off_get_one_slice_together() {
        let (mut table, [first, second]) = pair(1);
        let third = thread(&mut table, 4, None);
        let mut next = [second, first].into_iter().cycle();
        for now in 1..SLICE {
            let to = next.next().expect("it never ends");
            assert!(table.hand_off(0, to, now).is_some());
            assert!(!table.should_preempt(0, now));
        }
        assert!(table.should_preempt(0, SLICE), "the slice was extended");
        table.requeue_current(0, SLICE);
        assert_eq!(table.pick(0, SLICE), third.index());
    }

    #[test]
    fn a_thread_with_a_permit_does_not_block() {
        let (mut table, [first, second]) = pair(1);
        table.wake(first, 0, 0);
        assert_eq!(table.hand_off(0, second, 1), None);
        assert!(!table.block_current(0), "the permit is still there");
    }

    #[test]
    fn a_ready_thread_of_higher_priority_comes_first() {
        let (mut table, [_, second]) = pair(1);
        thread(&mut table, 5, None);
        assert_eq!(table.hand_off(0, second, 1), None);
    }

    #[test]
    fn only_a_blocked_thread_of_the_same_priority_takes_the_core() {
        let (mut table, [first, second]) = pair(2);
        let [higher, elsewhere] = [(5, Some(0)), (4, Some(1))].map(|(priority, core)| {
            let id = thread(&mut table, priority, core);
            let core = usize::from(core.unwrap_or(0));
            table.requeue_current(core, 0);
            assert_eq!(table.pick(core, 0), id.index());
            assert!(table.block_current(core));
            table.pick(core, 0);
            id
        });
        assert_eq!(table.current(0), first);
        let gone = ThreadId::from_token(second.token() + (1 << 16));
        for to in [higher, elsewhere, gone, first] {
            assert_eq!(table.hand_off(0, to, 1), None);
        }
        table.wake(second, 0, 0);
        assert_eq!(table.hand_off(0, second, 1), None, "it is ready");
    }

    #[test]
    fn a_thread_that_gets_the_core_has_no_deadline() {
        let (mut table, [first, second]) = pair(1);
        assert!(table.sleep_current(0, crate::Deadline::Firm(50)));
        table.pick(0, 1);
        table.wake(second, 0, 0);
        assert_eq!(table.pick(0, 1), second.index());
        assert_eq!(table.next_event(0).sleeper, Some(50));
        assert!(table.hand_off(0, first, 2).is_some());
        assert_eq!(table.next_event(0).sleeper, None);
    }
}
