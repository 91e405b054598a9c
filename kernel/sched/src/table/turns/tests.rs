//! Threads that compute and threads that sleep share one core, a tick at a time.

use crate::Deadline;
use crate::runqueue::Level;
use crate::table::{NewThread, Phase, Table, ThreadId, nothing};
use proptest::prelude::*;

const SLICE: u64 = 100;
const PRIORITY: u8 = 4;

/// What a thread does, again and again.
#[derive(Clone, Copy, Debug)]
enum Habit {
    Computes,
    /// It runs so many ticks, then it sleeps so many.
    Sleeps(u64, u64),
}
use Habit::{Computes, Sleeps};

struct Thread {
    id: ThreadId,
    habit: Habit,
    ran: u64,
    /// Ticks until it sleeps.
    left: u64,
    /// When it must wake, or has woken and has not run yet.
    woken: u64,
    /// How long it waited after each wake.
    waited: Vec<u64>,
}

fn new(priority: u8, affinity: Option<u8>) -> NewThread {
    NewThread { name: "t", priority, affinity, start: (nothing, 0), stack: 1 }
}

struct Core {
    table: Table,
    threads: Vec<Thread>,
    now: u64,
}

impl Core {
    fn new(habits: &[Habit]) -> Core {
        let mut table = Table::new(1, SLICE);
        table.online(0, 0);
        let thread = |&habit: &Habit| {
            let id = table.create(new(PRIORITY, None), 0, 0).expect("there is room");
            let left = if let Sleeps(runs, _) = habit { runs } else { u64::MAX };
            Thread { id, habit, ran: 0, left, woken: 0, waited: Vec::new() }
        };
        let threads = habits.iter().map(thread).collect();
        Core { table, threads, now: 0 }
    }

    /// One tick: interrupts first, then the running thread, which is returned.
    fn tick(&mut self) -> ThreadId {
        let (table, now) = (&mut self.table, self.now);
        table.expire(0, now, now);
        if table.should_preempt(0, now) {
            table.requeue_current(0, now);
            table.pick(0, now);
        }
        self.now += 1;
        let current = table.current(0);
        let Some(thread) = self.threads.iter_mut().find(|thread| thread.id == current) else {
            return current; // idle
        };
        if let (Sleeps(runs, _), left) = (thread.habit, thread.left)
            && runs == left
        {
            thread.waited.push(now - thread.woken);
        }
        (thread.ran, thread.left) = (thread.ran + 1, thread.left - 1);
        if let (Sleeps(runs, sleeps), 0) = (thread.habit, thread.left) {
            thread.left = runs;
            thread.woken = now + 1 + sleeps;
            assert!(table.sleep_current(0, Deadline::Firm(thread.woken)));
            table.pick(0, now + 1);
        }
        current
    }

    fn run(mut self, ticks: u64) -> Core {
        for _ in 0..ticks {
            self.tick();
        }
        self
    }
}

fn habits() -> impl Strategy<Value = Habit> {
    (1..3 * SLICE, 1..3 * SLICE).prop_map(|(runs, sleeps)| Sleeps(runs, sleeps))
}

proptest! {
    /// Whatever others do, a thread that computes gets its share, and so do all that compute.
    #[test]
    fn no_thread_gets_more_than_one_that_computes(
        computing in 1usize..4, sleepers in prop::collection::vec(habits(), 0..6)
    ) {
        let mut all = vec![Computes; computing];
        all.extend(sleepers);
        let count = all.len() as u64;
        let ticks = 100 * SLICE * count;
        let core = Core::new(&all).run(ticks);
        let least = core.threads[..computing].iter().map(|thread| thread.ran).min();
        let least = least.expect("one computes");
        for thread in &core.threads {
            prop_assert!(thread.ran <= least + 3 * SLICE, "{:?}: {}", thread.habit, thread.ran);
        }
        prop_assert!(least + 3 * SLICE >= ticks / count);
    }

    /// A thread that needs less than half of its share runs as soon as it wakes, or when a turn has
    /// begun.
    #[test]
    fn a_thread_that_mostly_sleeps_preempts_those_that_compute(
        computing in 1usize..8, runs in 1..SLICE / 10, beyond in 0..SLICE
    ) {
        let mut all = vec![Computes; computing];
        all.push(Sleeps(runs, 2 * runs * (computing as u64 + 1) + beyond));
        let core = Core::new(&all).run(100 * SLICE * all.len() as u64);
        let waited = &core.threads[computing].waited;
        // It starts with no claim, and may need ten wakes until it has one.
        let late = waited.iter().rposition(|&waited| waited > SLICE / 10);
        prop_assert!(waited.len() > 30 && late.is_none_or(|last| last < 12), "{waited:?}");
    }
}

#[test]
fn sleep_earns_one_slice_at_most() {
    let mut core = Core::new(&[Computes, Sleeps(5 * SLICE, 40 * SLICE)]).run(60 * SLICE);
    let greedy = core.threads[1].id;
    let sleeps = |core: &Core| core.table.get(greedy).is_some_and(|it| it.phase == Phase::Blocked);
    while !sleeps(&core) {
        core.tick();
    }
    while sleeps(&core) {
        core.tick();
    }
    let before = core.threads[1].ran - 1;
    while core.tick() == greedy {}
    assert_eq!(core.threads[1].ran - before, SLICE, "then it takes turns");
}

#[test]
fn a_preempted_thread_continues_its_turn() {
    let core = Core::new(&[Computes, Computes, Sleeps(5, 21 * SLICE + 37)]);
    let mut core = core.run(30 * SLICE);
    let sleeper = core.threads[2].id;
    let mut turns = Vec::new();
    while turns.len() < 200 {
        let current = core.tick();
        match turns.last_mut() {
            Some((last, ticks)) if *last == current => *ticks += 1,
            _ => turns.push((current, 1)),
        }
    }
    let mut preempted = 0;
    // The first one had begun, the last ones may continue.
    for three in turns[1..turns.len() - 1].windows(3) {
        let [(before, ran), (between, _), (after, rest)] = three else { continue };
        if *between == sleeper && *ran < SLICE {
            assert_eq!((after, ran + rest), (before, SLICE));
            preempted += 1;
        }
    }
    assert!(preempted > 5, "{preempted}");
}

#[test]
fn a_thread_with_a_small_lag_waits_for_its_turn() {
    for (lag, is_owed) in [(SLICE / 10 - 1, false), (SLICE / 10, true)] {
        let (mut table, [sleeper, _]) = pair();
        assert!(table.block_current(0));
        table.pick(0, 0);
        table.wake(sleeper, 0, lag);
        assert_eq!(table.cores[0].queue.highest(), Some(Level::new(PRIORITY, is_owed)));
    }
}

#[test]
fn the_begin_of_a_turn_is_not_preempted() {
    let (mut table, [sleeper, _]) = pair();
    let third = table.create(new(PRIORITY, None), 0, 0).unwrap();
    assert!(table.block_current(0));
    table.pick(0, 0);
    preempt(&mut table, SLICE);
    assert_eq!(table.current(0), third);
    table.wake(sleeper, 0, SLICE + 2);
    assert_eq!(table.next_event(0).slice, Some(SLICE + SLICE / 10));
    preempt(&mut table, SLICE + SLICE / 10);
    assert_eq!(table.current(0), sleeper);
}

#[test]
fn a_long_sleep_is_forgotten() {
    let (mut table, [sleeper, computes]) = pair();
    assert!(table.sleep_current(0, Deadline::Firm(1000 * SLICE)));
    table.pick(0, 0);
    for now in 1000 * SLICE..1040 * SLICE {
        preempt(&mut table, now);
        // It blocks for a moment again and again, so that each debt ends early.
        if table.current(0) == sleeper && now % (SLICE / 2) == 0 {
            assert!(table.sleep_current(0, Deadline::Firm(now + 2)));
            table.pick(0, now + 1);
        }
    }
    let [sleeper, computes] = [sleeper, computes].map(|id| table.ran(id, 1040 * SLICE));
    assert!(sleeper + 1000 * SLICE <= computes + 3 * SLICE, "{sleeper} {computes}");
}

/// A table of one core at time 0: the first thread runs, the second one is ready.
fn pair() -> (Table, [ThreadId; 2]) {
    let mut table = Table::new(1, SLICE);
    table.online(0, 0);
    let threads = [(); 2].map(|()| table.create(new(PRIORITY, None), 0, 0).unwrap());
    assert_eq!(table.pick(0, 0), threads[0].index());
    (table, threads)
}

/// Wakes sleepers, and preempts the running thread if that is due.
fn preempt(table: &mut Table, now: u64) {
    table.expire(0, now, now);
    if table.should_preempt(0, now) {
        table.requeue_current(0, now);
        table.pick(0, now);
    }
}

/// Blocks the running thread and wakes another one, by handoff if that can be.
fn call(table: &mut Table, to: ThreadId, now: u64) {
    if table.hand_off(0, to, now).is_none() {
        table.wake(to, 0, now);
        assert!(table.block_current(0));
        table.pick(0, now);
    }
}

/// A client sleeps for a moment and calls a server, which computes; a third thread computes, too.
#[test]
fn a_client_is_not_owed_what_its_server_has_had() {
    let (mut table, [server, client]) = pair();
    let third = table.create(new(PRIORITY, None), 0, 0).unwrap();
    assert!(table.block_current(0));
    assert_eq!(table.pick(0, 0), client.index());
    let mut work = 0;
    for now in 1..100 * SLICE {
        preempt(&mut table, now);
        let current = table.current(0);
        if current == client && work == 0 {
            call(&mut table, server, now);
        } else if current == client {
            work = 0;
            assert!(table.sleep_current(0, Deadline::Firm(now + 2)));
            table.pick(0, now);
        } else if current == server {
            work += 1;
            if work == SLICE - 5 {
                call(&mut table, client, now);
            }
        }
    }
    let ran = [client, server, third].map(|id| table.ran(id, 100 * SLICE));
    assert!(3 * ran[2] + 3 * SLICE >= 100 * SLICE, "{ran:?}");
}

/// Time advances while a thread runs that has slept for long, and got the core from another one.
#[test]
fn a_handoff_does_not_hold_the_virtual_time() {
    let (mut table, [server, client]) = pair();
    assert!(table.block_current(0));
    assert_eq!(table.pick(0, 0), client.index());
    call(&mut table, server, 100 * SLICE);
    assert_eq!(table.current(0), server);
    assert_eq!(table.virtual_time(0, PRIORITY, 200 * SLICE), 200 * SLICE as i64);
}

#[test]
fn a_thread_on_another_core_has_the_same_lag() {
    let mut table = Table::new(2, SLICE);
    (0..2).for_each(|core| table.online(core, 0));
    let stays = table.create(new(PRIORITY, Some(0)), 0, 0).unwrap();
    table.pick(0, 0);
    // The first one has run for long when the second one begins on the idle core.
    let moves = table.create(new(PRIORITY, None), 0, 5000).unwrap();
    assert_eq!(table.pick(1, 5000), moves.index());
    let lag = |table: &Table, core, now| {
        table.virtual_time(core, PRIORITY, now) - table.entries[moves.index()].virtual_time()
    };
    assert_eq!(lag(&table, 1, 5000), 0);
    assert!(table.block_current(1));
    let other = table.create(new(PRIORITY, Some(1)), 1, 5000).unwrap();
    assert_eq!(table.pick(1, 5000), other.index());
    assert!(table.block_current(1));
    table.pick(1, 5005);
    assert_eq!(lag(&table, 1, 5005), 5, "another thread has run there");
    // Core 1 is busy when it wakes, and core 0 is idle.
    table.create(new(9, Some(1)), 1, 5010).unwrap();
    table.pick(1, 5010);
    assert_eq!(table.current(0), stays);
    assert!(table.block_current(0));
    table.pick(0, 5020);
    table.wake(moves, 1, 5030);
    assert_eq!(table.cores[0].queue.highest(), Some(Level::new(PRIORITY, false)));
    assert_eq!(lag(&table, 0, 5030), 5);
}
