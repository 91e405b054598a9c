//! The table alone: random operations, and what must hold after each.

use super::*;
use proptest::prelude::*;

fn nothing(_: usize) {}

fn new(priority: u8, affinity: Option<u8>) -> New {
    New { name: "t", priority, affinity, start: (nothing, 0), stack: 1 }
}

/// Each thread is where its phase says, and nowhere else.
fn check(table: &Table) {
    let cores = table.cores.len();
    let queued: u32 = table.cores.iter().map(|core| core.queue.len()).sum();
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

proptest! {
    #[test]
    fn nobody_is_lost_or_runs_twice(
        ops in prop::collection::vec((0u8..8, 0usize..3, 1u8..32, any::<u16>()), 0..400)
    ) {
        let mut table = Table::new(3);
        let mut ids = Vec::new();
        (0..3).for_each(|core| table.online(core, 0));
        for (now, (op, core, priority, pick)) in ops.into_iter().enumerate() {
            let now = now as u64;
            let idle = table.cores[core].current as usize == core;
            match op {
                0 | 1 => {
                    let affinity = (pick % 2 == 0).then_some((pick % 3) as u8);
                    ids.extend(table.create(new(priority, affinity), core).map(|(id, _)| id));
                }
                2 if !ids.is_empty() => {
                    let id = ids[pick as usize % ids.len()];
                    table.wake(id, core);
                }
                3 => {
                    table.requeue_current(core);
                    table.pick(core, now, 10);
                }
                4 if !idle => {
                    table.sleep_current(core, now + u64::from(pick % 20));
                    if table.block_current(core) {
                        table.pick(core, now, 10);
                    }
                }
                5 if !idle => {
                    table.exit_current(core);
                    table.pick(core, now, 10);
                }
                6 => table.expire(core, now),
                _ => {
                    if table.should_preempt(core, now) {
                        table.requeue_current(core);
                        table.pick(core, now, 10);
                    }
                    let highest = table.cores[core].queue.highest();
                    let running = table.entries[table.cores[core].current as usize].priority;
                    prop_assert!(highest.is_none_or(|ready| ready <= running));
                }
            }
            check(&table);
        }
    }
}

#[test]
fn a_wake_before_the_block_is_not_lost() {
    let mut table = Table::new(1);
    table.online(0, 0);
    let (id, _) = table.create(new(5, None), 0).unwrap();
    table.requeue_current(0);
    assert_eq!(table.pick(0, 0, 10), id.index());
    assert_eq!(table.wake(id, 0), None);
    assert!(!table.block_current(0), "the permit is taken instead");
    assert!(table.block_current(0));
    table.pick(0, 0, 10);
    table.wake(id, 0);
    assert!(table.has_ready(0));
}

#[test]
fn a_stale_id_names_nobody() {
    let mut table = Table::new(1);
    table.online(0, 0);
    let (id, _) = table.create(new(5, None), 0).unwrap();
    table.requeue_current(0);
    table.pick(0, 0, 10);
    table.exit_current(0);
    table.pick(0, 0, 10);
    assert!(table.get(id).is_none());
    let (next, _) = table.create(new(5, None), 0).unwrap();
    assert_eq!(next.index(), id.index(), "the slot is used again");
    assert!(table.get(id).is_none() && table.get(next).is_some());
    assert_eq!(ThreadId::from_token(next.token()), next);
}

#[test]
fn the_table_says_when_it_is_full() {
    let mut table = Table::new(2);
    let made = (0..MAX_THREADS).filter(|_| table.create(new(1, None), 0).is_some()).count();
    assert_eq!(made, MAX_THREADS - 2);
}

#[test]
fn waiters_leave_their_queue_in_order_and_from_the_middle() {
    let mut table = Table::new(1);
    table.online(0, 0);
    let mut head = NONE;
    let ids: Vec<_> = (0..3).map(|_| table.create(new(5, None), 0).unwrap().0).collect();
    table.requeue_current(0);
    for id in &ids {
        assert_eq!(table.pick(0, 0, 10), id.index());
        table.prepare_wait(0, &mut head, Some(50));
        assert!(table.block_current(0));
    }
    assert_eq!(table.pick(0, 0, 10), 0);
    assert_eq!(table.next_event(0), Some(50));
    // The second one is woken by name, runs, and leaves the queue itself.
    table.wake(ids[1], 0);
    assert_eq!(table.pick(0, 1, 10), ids[1].index());
    table.cancel_wait(0, &mut head);
    assert!(table.wake_first(&mut head, 0).is_some());
    assert!(table.wake_first(&mut head, 0).is_some());
    assert!(table.wake_first(&mut head, 0).is_none());
    table.block_current(0);
    assert_eq!(table.pick(0, 2, 10), ids[0].index());
    table.block_current(0);
    assert_eq!(table.pick(0, 3, 10), ids[2].index());
    assert_eq!(table.next_event(0), None, "all were woken before their deadline");
}
