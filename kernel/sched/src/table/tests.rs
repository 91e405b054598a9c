//! The table alone: random operations, with invariants checked after each.

use super::*;
use proptest::prelude::*;

fn nothing(_: usize) {}

fn new(priority: u8, affinity: Option<u8>) -> NewThread {
    NewThread { name: "t", priority, affinity, start: (nothing, 0), stack: 1 }
}

/// Every thread is exactly where its phase says.
fn check(table: &Table) {
    let cores = table.cores.len();
    let of = |core: &Core| core.queue.len() + u32::from(core.next.is_some());
    let queued: u32 = table.cores.iter().map(of).sum();
    assert!(table.cores.iter().all(|core| core.next.is_none() || core.queue.is_empty()));
    let ready =
        (cores..MAX_THREADS).filter(|&index| table.entries[index].phase == Phase::Ready).count();
    assert_eq!(queued as usize, ready, "ready threads are queued once");
    let running = table.entries.iter().filter(|e| e.phase == Phase::Running).count();
    assert_eq!(running, cores, "each core runs one thread");
    for (core, here) in table.cores.iter().enumerate() {
        let entry = &table.entries[here.current as usize];
        assert_eq!((entry.phase, entry.core as usize), (Phase::Running, core));
        assert!(entry.affinity.is_none_or(|wanted| wanted as usize == core));
    }
    let free = table.entries.iter().filter(|e| e.phase == Phase::Free).count();
    assert_eq!(free, table.free.len());
}

/// No thread waits for a core that does not know: if a ready thread must run before the running one
/// ends, the core was interrupted since that became so, or has set its own timer.
fn check_told(table: &Table, told: &[Option<u64>]) {
    for (core, told) in told.iter().enumerate() {
        let running = table.running_level(core).priority();
        let ready = table.cores[core].highest();
        let waits = ready.is_some_and(|ready| ready.priority() > running);
        let due = table.next_event(core).slice;
        assert!(!waits || due == Some(0));
        let knows = |due| told.is_some_and(|told| told <= due);
        assert!(due.is_none_or(knows), "core {core} was not interrupted for {due:?}: {told:?}");
    }
}

proptest! {
    #[test]
    fn no_thread_is_lost_or_runs_twice(
        ops in prop::collection::vec((0u8..12, 0usize..3, 1u8..32, any::<u16>()), 0..400)
    ) {
        let mut table = Table::new(3, 10);
        let mut ids = Vec::new();
        let mut told = [None; 3];
        (0..3).for_each(|core| table.online(core, 0));
        for (now, (op, core, priority, pick)) in ops.into_iter().enumerate() {
            let now = now as u64;
            let idle = table.cores[core].current as usize == core;
            match op {
                0 | 1 => {
                    let affinity = (pick % 2 == 0).then_some((pick % 3) as u8);
                    ids.extend(table.create(new(priority, affinity), core, now));
                }
                2 if !ids.is_empty() => {
                    let id = ids[pick as usize % ids.len()];
                    table.wake(id, core, now);
                }
                3 => {
                    table.requeue_current(core, now);
                    table.pick(core, now);
                }
                4 if !idle => {
                    if table.sleep_current(core, Deadline::Firm(now + u64::from(pick % 20))) {
                        table.pick(core, now);
                    }
                }
                5 if !idle => {
                    table.exit_current(core);
                    table.pick(core, now);
                }
                6 => table.expire(core, now, now),
                7 if !idle && !ids.is_empty() => {
                    let id = ids[pick as usize % ids.len()];
                    if table.hand_off(core, id, now).is_none() {
                        table.wake(id, core, now);
                        if table.block_current(core) {
                            table.pick(core, now);
                        }
                    }
                }
                8 if !ids.is_empty() => {
                    // It waits alone in a list.
                    let id = ids[pick as usize % ids.len()];
                    let is_there = table.get(id).is_some();
                    if is_there {
                        table.wake_next(&mut { id.index }, core, now);
                    }
                }
                9 if !idle && table.block_for_next(core, now).is_none() => {
                    if table.block_current(core) {
                        table.pick(core, now);
                    }
                }
                _ => {
                    if table.should_preempt(core, now) {
                        table.requeue_current(core, now);
                        table.pick(core, now);
                    }
                    let highest = table.cores[core].highest();
                    let running = table.running_level(core).priority();
                    prop_assert!(highest.is_none_or(|ready| ready.priority() <= running));
                }
            }
            check(&table);
            // The core that made the change sets its own timer; a kicked core picks later.
            told[core] = table.next_event(core).slice;
            for other in table.take_kicks() {
                told[other] = table.next_event(other).slice;
            }
            check_told(&table, &told);
        }
    }
}

#[test]
fn a_sleeper_that_wakes_for_another_core_kicks_it() {
    let mut table = Table::new(2, 10);
    (0..2).for_each(|core| table.online(core, 0));
    let id = table.create(new(5, None), 0, 0).unwrap();
    table.requeue_current(0, 0);
    assert_eq!(table.pick(0, 0), id.index());
    assert!(table.sleep_current(0, Deadline::Firm(50)));
    // Meanwhile a thread that it may not preempt runs where it slept, and the other core is idle.
    table.create(new(9, Some(0)), 0, 0).unwrap();
    table.pick(0, 1);
    table.take_kicks();
    table.expire(0, 49, 49);
    assert!(!table.has_ready(1) && table.take_kicks() == Kicks::default());
    table.expire(0, 50, 50);
    assert!(table.has_ready(1));
    assert_eq!(table.take_kicks().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_thread_that_moves_before_it_blocks_leaves_no_deadline() {
    let mut table = Table::new(2, 10);
    (0..2).for_each(|core| table.online(core, 0));
    let id = table.create(new(5, None), 0, 0).unwrap();
    table.requeue_current(0, 0);
    assert_eq!(table.pick(0, 0), id.index());
    let mut head = NONE;
    table.prepare_wait(0, &mut head, Some(Deadline::Firm(50)));
    // It is preempted, and the other core takes it.
    table.create(new(9, Some(0)), 0, 0).unwrap();
    table.requeue_current(0, 0);
    table.pick(0, 0);
    assert_eq!(table.pick(1, 0), id.index());
    assert!(table.block_current(1));
    table.pick(1, 1);
    assert!(table.wake_first(&mut head, 1, 0));
    assert_eq!(table.next_event(0).sleeper, None);
    assert_eq!(table.pick(1, 2), id.index());
    table.prepare_wait(1, &mut head, Some(Deadline::Firm(50)));
    table.cancel_wait(1, &mut head);
    assert_eq!(table.next_event(1).sleeper, None);
}

#[test]
fn every_core_that_gets_a_thread_is_kicked() {
    let mut table = Table::new(3, 10);
    (0..3).for_each(|core| table.online(core, 0));
    let mut head = NONE;
    for core in 0..3u8 {
        let id = table.create(new(5, Some(core)), core.into(), 0).unwrap();
        table.requeue_current(core.into(), 0);
        assert_eq!(table.pick(core.into(), 0), id.index());
        table.prepare_wait(core.into(), &mut head, None);
        assert!(table.block_current(core.into()));
        table.pick(core.into(), 0);
    }
    table.take_kicks();
    while table.wake_first(&mut head, 0, 0) {}
    assert_eq!(table.take_kicks().collect::<Vec<_>>(), [2, 1], "core 0 made the change");
}

#[test]
fn a_higher_priority_preempts_before_the_slice_ends() {
    let mut table = Table::new(1, 10);
    table.online(0, 0);
    table.create(new(5, None), 0, 0).unwrap();
    table.requeue_current(0, 0);
    table.pick(0, 0);
    assert_eq!(table.next_event(0), Event { sleeper: None, slice: None });
    table.create(new(5, None), 0, 0).unwrap();
    assert_eq!(table.next_event(0), Event { sleeper: None, slice: Some(10) });
    table.create(new(6, None), 0, 0).unwrap();
    assert_eq!(table.next_event(0), Event { sleeper: None, slice: Some(0) });
    assert!(table.should_preempt(0, 0));
}

#[test]
fn every_other_core_is_kicked_when_the_clock_is_adjusted() {
    let mut table = Table::new(3, 10);
    table.clock_changed(1);
    assert_eq!(table.take_kicks().collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn a_pinned_thread_is_not_stolen() {
    let mut table = Table::new(2, 10);
    (0..2).for_each(|core| table.online(core, 0));
    let id = table.create(new(5, None), 0, 0).unwrap();
    table.requeue_current(0, 0);
    assert_eq!(table.pick(0, 0), id.index());
    assert_eq!(table.set_affinity(0, Some(0)), None);
    table.create(new(9, Some(0)), 0, 0).unwrap();
    table.requeue_current(0, 0);
    table.pick(0, 0);
    assert_eq!(table.pick(1, 0), 1, "core 1 stays idle");
    table.exit_current(0);
    assert_eq!(table.pick(0, 0), id.index());
    assert_eq!(table.set_affinity(0, None), Some(0));
}

#[test]
fn a_wake_before_the_block_is_not_lost() {
    let mut table = Table::new(1, 10);
    table.online(0, 0);
    let id = table.create(new(5, None), 0, 0).unwrap();
    table.requeue_current(0, 0);
    assert_eq!(table.pick(0, 0), id.index());
    table.wake(id, 0, 0);
    assert!(!table.block_current(0), "the permit is consumed instead");
    assert!(table.block_current(0));
    table.pick(0, 0);
    table.wake(id, 0, 0);
    assert!(table.has_ready(0));
}

#[test]
fn a_stale_id_matches_no_thread() {
    let mut table = Table::new(1, 10);
    table.online(0, 0);
    let id = table.create(new(5, None), 0, 0).unwrap();
    table.requeue_current(0, 0);
    table.pick(0, 0);
    table.exit_current(0);
    table.pick(0, 0);
    assert!(table.get(id).is_none());
    let next = table.create(new(5, None), 0, 0).unwrap();
    assert_eq!(next.index(), id.index(), "the entry is reused");
    assert!(table.get(id).is_none() && table.get(next).is_some());
    assert_eq!(ThreadId::from_token(next.token()), next);
}

#[test]
fn creating_a_thread_in_a_full_table_fails() {
    let mut table = Table::new(2, 10);
    let made = (0..MAX_THREADS).filter(|_| table.create(new(1, None), 0, 0).is_some()).count();
    assert_eq!(made, MAX_THREADS - 2);
}

#[test]
fn waiters_leave_their_queue_in_fifo_order_and_from_the_middle() {
    let mut table = Table::new(1, 10);
    table.online(0, 0);
    let mut head = NONE;
    let ids: Vec<_> = (0..3).map(|_| table.create(new(5, None), 0, 0).unwrap()).collect();
    table.requeue_current(0, 0);
    for id in &ids {
        assert_eq!(table.pick(0, 0), id.index());
        table.prepare_wait(0, &mut head, Some(Deadline::Firm(50)));
        assert!(table.block_current(0));
    }
    assert_eq!(table.pick(0, 0), 0);
    assert_eq!(table.next_event(0).sleeper, Some(50));
    // The second waiter is woken by id, runs, and leaves the queue itself.
    table.wake(ids[1], 0, 0);
    assert_eq!(table.pick(0, 1), ids[1].index());
    table.cancel_wait(0, &mut head);
    assert!(table.wake_first(&mut head, 0, 0));
    assert!(table.wake_first(&mut head, 0, 0));
    assert!(!table.wake_first(&mut head, 0, 0));
    table.block_current(0);
    assert_eq!(table.pick(0, 2), ids[0].index());
    table.block_current(0);
    assert_eq!(table.pick(0, 3), ids[2].index());
    let nothing = Event { sleeper: None, slice: None };
    assert_eq!(table.next_event(0), nothing, "all were woken before their deadline");
}

/// Ticks of a clock with half the rate of soc time that started 7 later.
fn ticks(chip: u64) -> u64 {
    chip.div_ceil(2) + 7
}

#[test]
fn the_deadline_0_is_converted_like_any_other() {
    let mut table = Table::new(1, 10);
    table.online(0, 0);
    table.create(new(5, None), 0, 0).unwrap();
    table.pick(0, 0);
    table.sleep_current(0, Deadline::Firm(0));
    table.pick(0, 0);
    assert_eq!(table.rearm(0, ticks), Some(ticks(0)));
}

#[test]
fn the_timer_is_set_only_if_it_would_be_late() {
    let mut table = Table::new(1, 10);
    table.online(0, 0);
    assert_eq!(table.rearm(0, ticks), Some(u64::MAX), "its setting is unknown at first");
    assert_eq!(table.rearm(0, ticks), None);
    let [one, two] = [0; 2].map(|_| table.create(new(5, None), 0, 0).unwrap());
    assert_eq!(table.rearm(0, ticks), Some(0), "a ready thread preempts the idle thread");
    table.timer_fired(0);
    table.requeue_current(0, 0);
    table.pick(0, 0);
    assert_eq!(table.rearm(0, ticks), Some(10), "the end of the slice");
    assert!(table.sleep_current(0, Deadline::Firm(400)));
    assert_eq!(table.pick(0, 2), two.index());
    assert_eq!(table.rearm(0, ticks), None, "10 is before 207: the core checks again then");
    table.timer_fired(0);
    assert_eq!(table.rearm(0, ticks), Some(207));
    table.wake(one, 0, 0);
    assert_eq!(table.rearm(0, ticks), Some(12));
    table.block_current(0);
    assert_eq!(table.pick(0, 4), one.index());
    assert!(table.sleep_current(0, Deadline::Firm(600)));
    assert_eq!(table.pick(0, 5), 0);
    assert_eq!(table.rearm(0, ticks), Some(307), "an idle core does not wake at 12");
    table.clock_changed(0);
    assert_eq!(table.rearm(0, |chip| ticks(chip) + 1), Some(308));
}

fn check_timer(table: &Table, set: u64) -> Result<(), TestCaseError> {
    let Event { sleeper, slice } = table.next_event(0);
    let wanted = [sleeper.map(ticks), slice].into_iter().flatten().min();
    let wanted = wanted.unwrap_or(u64::MAX);
    prop_assert!(set == wanted || set < wanted && !table.is_idle(0));
    Ok(())
}

proptest! {
    /// The timer of a busy core is never late; that of an idle core is exact.
    #[test]
    fn timers_are_never_late(ops in prop::collection::vec((0u8..9, 0u16..6, 0u64..500), 0..300)) {
        let mut table = Table::new(1, 10);
        table.online(0, 0);
        let ids: Vec<_> = (0..6).map(|_| table.create(new(5, None), 0, 0).unwrap()).collect();
        let mut set = u64::MAX;
        for (now, (op, whom, time)) in ops.into_iter().enumerate() {
            let (now, idles) = (now as u64, table.is_idle(0));
            match op {
                0 => table.wake(ids[whom as usize], 0, now),
                1 if !idles => drop(table.sleep_current(0, Deadline::Firm(time))),
                2 if !idles => drop(table.block_current(0)),
                3 => table.requeue_current(0, now),
                4 => table.timer_fired(0),
                5 => table.expire(0, time, now),
                6 => _ = table.wake_next(&mut { ids[whom as usize].index }, 0, now),
                7 if !idles => {
                    let deadline = time.is_multiple_of(2).then_some(Deadline::Firm(time));
                    table.prepare_wait(0, &mut { NONE }, deadline);
                    if table.block_for_next(0, now).is_some() {
                        // The timer is as it was.
                        check_timer(&table, set)?;
                        continue;
                    }
                    table.block_current(0);
                }
                _ => {}
            }
            if table.entries[table.cores[0].current as usize].phase != Phase::Running {
                table.pick(0, now);
            }
            if let Some(at) = table.rearm(0, ticks) {
                set = at;
            }
            check_timer(&table, set)?;
            check(&table);
        }
    }
}

#[test]
fn a_deadline_that_can_be_deferred_does_not_wake_an_idle_core() {
    let mut table = Table::new(1, 10);
    table.online(0, 0);
    table.defers = true;
    let [one, two] = [0; 2].map(|_| table.create(new(5, None), 0, 0).unwrap());
    table.pick(0, 0);
    assert!(table.sleep_current(0, Deadline::Deferrable(400)));
    assert_eq!(table.pick(0, 1), two.index());
    assert_eq!(table.next_event(0).sleeper, Some(400), "a busy core wakes it");
    assert!(table.sleep_current(0, Deadline::Firm(900)));
    table.pick(0, 2);
    assert_eq!(table.next_event(0).sleeper, Some(900));
    assert_eq!(table.quiet(0), Some(2));
    assert_eq!(table.next_deadline(None), Some(900));
    assert_eq!(table.next_deadline(Some(one)), Some(900));
    assert_eq!(table.next_deadline(Some(two)), None);
    table.expire(0, 500, 500);
    assert!(!table.is_any_ready(), "the core is idle");
    table.expire(0, 900, 900);
    assert!(table.is_any_ready());
    assert_eq!(table.pick(0, 900), two.index());
    assert_eq!(table.next_event(0).sleeper, Some(400), "the core has work now");
    table.expire(0, 901, 901);
    assert_eq!(table.get(one).map(|entry| entry.phase), Some(Phase::Ready));
    assert_eq!(table.quiet(0), None);
    table.block_current(0);
    assert_eq!(table.pick(0, 902), one.index());
    assert!(table.sleep_current(0, Deadline::Deferrable(1300)));
    table.pick(0, 950);
    assert_eq!(table.quiet(0), Some(902), "it only looked");
    table.wake(one, 0, 0);
    table.pick(0, 960);
    table.block_current(0);
    table.pick(0, 990);
    assert_eq!(table.quiet(0), Some(990), "this was work");
}

#[test]
fn the_thread_that_asks_for_a_rest_wakes_none_that_can_be_deferred() {
    let mut table = Table::new(1, 10);
    table.online(0, 0);
    table.defers = true;
    let work = table.create(new(5, None), 0, 0).unwrap();
    table.pick(0, 0);
    assert!(table.sleep_current(0, Deadline::Deferrable(400)));
    let asks = table.create(new(crate::PRIORITY_REST, Some(0)), 0, 0).unwrap();
    assert_eq!(table.pick(0, 500), asks.index());
    assert_eq!(table.next_event(0).sleeper, None);
    table.expire(0, 501, 501);
    assert_eq!(table.get(work).map(|entry| entry.phase), Some(Phase::Blocked));
    assert_eq!(table.quiet(0), Some(500));
}

#[test]
fn the_thread_that_asks_for_a_rest_is_no_work() {
    let mut table = Table::new(2, 10);
    (0..2).for_each(|core| table.online(core, 0));
    table.create(new(crate::PRIORITY_REST, Some(0)), 0, 0).unwrap();
    table.pick(0, 5);
    assert_eq!(table.quiet(0), Some(0));
    table.create(new(5, Some(1)), 0, 0).unwrap();
    assert_eq!(table.quiet(0), None, "a thread is ready");
    table.pick(1, 6);
    assert_eq!(table.quiet(0), None, "a thread runs");
    table.block_current(1);
    table.pick(1, 7);
    assert_eq!(table.quiet(0), Some(7));
}

#[test]
fn upkeep_does_not_begin_the_time_without_work_again() {
    let mut table = Table::new(1, 10);
    table.online(0, 0);
    let [work, upkeep] = [0; 2].map(|_| table.create(new(5, None), 0, 0).unwrap());
    assert_eq!(table.pick(0, 1), work.index());
    table.block_current(0);
    assert_eq!(table.pick(0, 6), upkeep.index());
    table.mark_upkeep(0);
    assert_eq!(table.quiet(0), Some(6), "no other thread has work");
    table.block_current(0);
    table.pick(0, 9);
    assert_eq!(table.quiet(0), Some(6));
    table.wake(upkeep, 0, 0);
    assert_eq!(table.quiet(0), None, "it is ready");
}

#[test]
fn a_core_is_active_or_idle_from_the_moment_it_takes_part() {
    let mut table = Table::new(2, 10);
    assert_eq!(table.residency_of_all(90), (0, 0), "no core takes part");
    table.online(0, 100);
    assert_eq!(table.residency(0, 110), (0, 10));
    table.create(new(5, Some(0)), 0, 0).unwrap();
    table.requeue_current(0, 0);
    table.pick(0, 120);
    assert_eq!(table.residency(0, 150), (30, 20), "the running thread counts");
    table.exit_current(0);
    table.pick(0, 160);
    assert_eq!(table.residency(0, 200), (40, 60), "a thread that has ended still counts");
    table.online(1, 190);
    assert_eq!(table.residency_of_all(200), (40, 70));
    table.were_stopped(1000);
    assert_eq!(table.residency_of_all(1201), (40, 72), "nothing runs in a stopped domain");
}
