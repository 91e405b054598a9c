//! Ends of parents, of waiting callers, of kernels, and of the table itself.

use crate::common::*;
use abi::process::{End, Errno, Op, Request, State, flag, pack_life, signal};
use abi::quota::Quota;
use base::id::{DomainId, Epoch};
use processes::client::{Account, Client, News, Running};
use processes::service::{GRACE, PATIENCE};
use share::{Event, Token};

fn ended(world: &mut World, kernel: u8, pid: u32) {
    world.with(kernel, |c| c.ended(pid, End::Exit, 0, Account::default())).unwrap();
}

#[test]
fn children_of_an_ended_process_get_parent_0() {
    let mut world = World::new();
    let shell = world.shell();
    let [running, over] = [0; 2].map(|_| world.run(1, shell, 0));
    ended(&mut world, 1, over);
    assert_eq!(world.state(over), Some(State::Ended));
    ended(&mut world, 0, shell);
    assert_eq!(world.about(over), None, "no caller will wait for it");
    assert_eq!(world.about(running).unwrap().parent, 0);
    let grandchild = world.run(1, running, 0);
    ended(&mut world, 1, running);
    assert_eq!((world.about(running), world.about(grandchild).unwrap().parent), (None, 0));
    assert_eq!(world.with(0, |c| c.wait(0, shell as i32)).unwrap().pid, shell);
    let (request, mut bulk) = spawn(1, shell, 0);
    assert_eq!(world.errno(0, request, &mut bulk), Errno::Srch);
}

#[test]
fn a_cancelled_spawn_kills_the_process() {
    let mut world = World::new();
    let shell = world.shell();
    let (request, mut bulk) = spawn(1, shell, 0);
    let token = world.park(0, request, &mut bulk);
    world.tell(Event::Cancel(token));
    assert_eq!((world.next(1), world.table.census()), (None, (1, 0)), "before it was fetched");
    for is_begun in [false, true] {
        let token = world.park(0, request, &mut bulk);
        let pid = world.fetch(1);
        if is_begun {
            world.with(1, |c| c.begun(pid, Quota::default(), Ok(1))).unwrap();
        }
        let waits = world.park(0, wait(shell, -1), &mut []);
        world.take_woken();
        world.tell(Event::Cancel(token));
        assert_eq!(world.take_woken(), [waits]);
        let reply = world.again(waits, wait(shell, -1), &mut []).unwrap();
        assert_eq!(reply.errno(), Errno::Child);
        assert_eq!(world.next(1), Some(News::Stop { pid, signal: signal::KILL }));
        ended(&mut world, 1, pid);
        assert_eq!(world.table.census(), (1, 0));
    }
    world.tell(Event::Cancel(Token::default()));
}

#[test]
fn the_processes_of_a_dead_kernel_are_lost() {
    let mut world = World::new();
    let shell = world.shell();
    let lost = world.run(1, shell, 0);
    let child = world.run(2, lost, 0);
    let (request, mut bulk) = spawn(1, shell, 0);
    let starting = world.park(0, request, &mut bulk);
    world.fetch(1);
    world.park(1, Request::new(Op::Next), &mut []);
    let waiting = world.park(0, request, &mut bulk);
    world.park(1, wait(lost, -1), &mut []);
    let (by_lost, mut other) = spawn(2, lost, 0);
    world.park(1, by_lost, &mut other);
    let waits = world.park(0, wait(shell, lost as i32), &mut []);
    world.take_woken();
    world.gone(1);
    let mut woken = world.take_woken();
    woken.dedup();
    woken.sort();
    assert_eq!(woken, [starting, waiting, waits]);
    for token in [starting, waiting] {
        let reply = world.again(token, request, &mut bulk).unwrap();
        assert_eq!(reply.errno(), Errno::Hostunreach);
    }
    let reply = world.again(waits, wait(shell, lost as i32), &mut []).unwrap();
    assert_eq!((reply.pid, reply.kind), (lost, End::Lost as u32));
    assert_eq!(world.about(child).unwrap().parent, 0);
    let orphan = world.fetch(2);
    assert_eq!(world.about(orphan).unwrap().parent, 0, "the caller of Spawn is gone; it continues");
    world.with(2, |c| c.begun(orphan, Quota::default(), Ok(1))).unwrap();
    assert_eq!((world.table.census(), world.take_woken()), ((3, 0), vec![]));
    for pid in [child, orphan] {
        ended(&mut world, 2, pid);
    }
    assert_eq!(world.table.census(), (1, 0));
}

#[test]
fn processes_watched_from_a_dead_kernel_are_killed() {
    let mut world = World::new();
    let [over, running] = [0; 2].map(|_| world.run(1, 0, flag::WATCHED));
    ended(&mut world, 1, over);
    let (request, mut bulk) = spawn(1, 0, flag::WATCHED);
    world.park(0, request, &mut bulk);
    world.park(0, wait(0, running as i32), &mut []);
    assert_eq!(world.table.census(), (3, 2));
    world.gone(0);
    assert_eq!(world.table.census(), (1, 0));
    assert_eq!(world.next(1), Some(News::Stop { pid: running, signal: signal::KILL }));
    ended(&mut world, 1, running);
    assert_eq!(world.table.census(), (0, 0));
}

#[test]
fn a_restarted_kernel_starts_the_processes_that_waited() {
    let mut world = World::new();
    let old = world.run(1, 0, 0);
    let (request, mut bulk) = spawn(1, 0, 0);
    world.epochs[1] = 2;
    world.park(1, Request::new(Op::Next), &mut []);
    assert_eq!(world.about(old), None, "its kernel's life is over");
    world.park(0, request, &mut bulk);
    world.tell(Event::Gone(DomainId(1), Epoch(1)));
    assert_eq!(world.table.census(), (1, 2));
    let pid = world.fetch(1);
    world.with(1, |c| c.begun(pid, Quota::default(), Ok(1))).unwrap();
    world.tell(Event::Gone(DomainId(1), Epoch(1)));
    assert_eq!(world.state(pid), Some(State::Running), "repeated event");
    world.epochs[1] = 1;
    let late = world.done(1, Request::new(Op::Next), &mut []);
    assert_eq!(late.errno(), Errno::Hostunreach, "an earlier life is refused");
    world.tell(Event::Gone(DomainId(255), Epoch(1)));
    let far = Token::new(DomainId(8), Epoch(1), 0, 0);
    assert_eq!(world.ask(far, request, &mut bulk).unwrap().errno(), Errno::Inval);
}

#[test]
fn a_restarted_table_answers_restarted_to_parked_callers() {
    let mut world = World::of_life(2);
    let (request, mut bulk) = spawn(1, 0, 0);
    for request in [request, wait(5, -1), wait(0, 5), Request::new(Op::Next)] {
        let token = world.token(1);
        let reply = world.again(token, request, &mut bulk).unwrap();
        assert_eq!(reply.errno(), Errno::Restarted, "{request:?}");
    }
    assert_eq!(world.table.census(), (0, 0));
}

/// Such a kernel was loading a process when the state was lost.
#[test]
fn a_kernel_that_was_not_parked_learns_of_a_restart_by_its_next_request_for_tasks() {
    let mut world = World::of_life(2);
    let token = world.token(0);
    let reply = world.again(token, Request::new(Op::Next), &mut []).unwrap();
    assert_eq!(reply.errno(), Errno::Restarted, "it was parked");
    assert_eq!(world.next(0), None, "and knows");
    assert_eq!(world.errno(1, Request::new(Op::Next), &mut []), Errno::Restarted);
    assert_eq!(world.next(1), None, "once is enough");
    assert_eq!(World::new().next(1), None, "the first life is no restart");
}

#[test]
fn a_restarted_table_adopts_running_processes() {
    let mut world = World::of_life(2);
    let one = Running { pid: 10, group: 10, kernel: 1, name: b"one", ..Running::default() };
    let watched = Running { flags: flag::WATCHED, ..one };
    let child = Running { pid: 11, parent: 10, group: 10, memory: 7, ..one };
    world.with(1, |c| c.adopt(child)).unwrap();
    world.with(1, |c| c.adopt(watched)).unwrap();
    assert_eq!(world.with(1, |c| c.adopt(watched)), Ok(()), "it may be repeated");
    assert_eq!(world.with(2, |c| c.adopt(Running { kernel: 2, ..child })), Err(Errno::Inval));
    assert_eq!(world.with(2, |c| c.adopt(Running { pid: 12, ..child })), Err(Errno::Inval));
    for bad in [
        Running { pid: 1, ..one },
        Running { pid: 20, flags: flag::WATCHED, ..child },
        Running { pid: 20, parent: 20, ..one },
        Running { pid: 20, group: 1, ..one },
        Running { pid: 20, flags: flag::NEW_GROUP, ..one },
        Running { pid: 20, kernel: 300, ..one },
    ] {
        assert_eq!(world.with(1, |c| c.adopt(bad)), Err(Errno::Inval), "{bad:?}");
    }
    let listed = world.about(11).unwrap();
    assert_eq!((listed.parent, listed.memory, &listed.name[..4]), (10, 7, &b"one\0"[..]));
    let waits = world.park(1, wait(10, -1), &mut []);
    ended(&mut world, 1, 11);
    assert_eq!(world.again(waits, wait(10, -1), &mut []).unwrap().pid, 11);
    ended(&mut world, 1, 10);
    assert_eq!(world.state(10), Some(State::Ended), "it is watched");
    assert_eq!(world.with(1, |c| c.adopt(one)), Err(Errno::Inval), "it has ended");
    assert_eq!(world.with(2, |c| c.wait(0, 10)).unwrap().pid, 10);
}

/// The table was lost with the kernel that ran the child.
#[test]
fn a_restarted_table_learns_of_lost_children_from_the_kernels_of_their_parents() {
    let mut world = World::of_life(2);
    let parent = Running { pid: 10, group: 10, kernel: 1, ..Running::default() };
    let lost = |pid| move |c: &mut Client<'_>| c.adopt_lost(pid, 10, 10, 0);
    assert_eq!(world.with(1, lost(11)), Err(Errno::Srch), "the parent comes first");
    world.with(1, |c| c.adopt(parent)).unwrap();
    world.with(1, |c| c.adopt(Running { pid: 12, parent: 10, ..parent })).unwrap();
    assert_eq!(world.with(2, lost(11)), Err(Errno::Perm), "the parent runs elsewhere");
    for bad in [1, 10, 12] {
        assert_eq!(world.with(1, lost(bad)), Err(Errno::Inval));
    }
    let waits = world.park(1, wait(10, -1), &mut []);
    world.with(1, lost(11)).unwrap();
    assert_eq!(world.take_woken(), [waits]);
    assert_eq!(world.with(1, lost(11)), Err(Errno::Inval), "once");
    let reply = world.again(waits, wait(10, -1), &mut []).unwrap();
    assert_eq!((reply.pid, reply.kind), (11, End::Lost as u32));
    assert_eq!(world.errno(1, wait(10, 11), &mut []), Errno::Child);
}

/// The kernels tell a restarted table which life watches a process, so it ends with that life.
#[test]
fn adopted_processes_end_with_their_watcher() {
    let mut world = World::of_life(2);
    let one = Running { kernel: 1, flags: flag::WATCHED, ..Running::default() };
    let by = |pid, epoch| Running { pid, group: pid, watcher: pack_life(0, epoch), ..one };
    world.tell_all();
    world.with(1, |c| c.adopt(by(10, 1))).unwrap();
    world.gone(0);
    assert_eq!(world.next(1), Some(News::Stop { pid: 10, signal: signal::KILL }));
    world.with(1, |c| c.adopt(by(11, 1))).unwrap();
    assert_eq!(world.next(1), Some(News::Stop { pid: 11, signal: signal::KILL }), "over before");
    world.epochs[0] = 2;
    world.with(1, |c| c.adopt(by(12, 2))).unwrap();
    assert_eq!(world.next(1), None, "this life continues");
    (10..=12).for_each(|pid| ended(&mut world, 1, pid));
    assert_eq!((world.state(11), world.state(12)), (None, Some(State::Ended)));
    // A process that has just been requested comes with its watcher.
    let (request, mut bulk) = spawn(1, 0, flag::WATCHED);
    world.park(0, request, &mut bulk);
    let Some(News::Begin { watcher, .. }) = world.next(1) else { panic!("no process") };
    assert_eq!(watcher, pack_life(0, 2));
}

#[test]
fn a_process_adopted_as_killed_starts_no_other() {
    let mut world = World::of_life(2);
    let one = Running { pid: 10, kernel: 1, flags: flag::KILLED, ..Running::default() };
    world.with(1, |c| c.adopt(one)).unwrap();
    let (request, mut bulk) = spawn(1, 10, 0);
    assert_eq!(world.errno(1, request, &mut bulk), Errno::Intr);
}

#[test]
fn an_adopted_process_dies_with_its_watchers_kernel() {
    let mut world = World::of_life(2);
    world.tell_all();
    let one = Running { pid: 10, kernel: 1, flags: flag::WATCHED, ..Running::default() };
    world.with(1, |c| c.adopt(one)).unwrap();
    world.gone(2);
    assert_eq!(world.next(1), None);
    world.park(2, wait(0, 10), &mut []);
    world.gone(2);
    assert_eq!(world.next(1), Some(News::Stop { pid: 10, signal: signal::KILL }));
}

#[test]
fn an_adopted_child_of_an_unknown_parent_is_not_kept() {
    let mut world = World::of_life(2);
    let child = Running { pid: 11, parent: 10, kernel: 1, ..Running::default() };
    world.with(1, |c| c.adopt(child)).unwrap();
    ended(&mut world, 1, 11);
    assert_eq!(world.table.census(), (0, 0));
}

/// The kernel may restart soon, but a process does not wait for it forever.
#[test]
fn a_process_waits_a_limited_time_for_a_dead_kernel() {
    let mut world = World::new();
    let (request, mut bulk) = spawn(1, 0, 0);
    world.run(1, 0, 0);
    world.gone(1);
    let waits = world.park(0, request, &mut bulk);
    let begun = world.now;
    // A request that the kernel sent before it died.
    world.done(1, Request::new(Op::List), &mut [0; 100]);
    while world.take_woken().is_empty() {
        assert!(world.tick());
    }
    assert!(world.now - begun >= GRACE && world.now - begun < GRACE + PATIENCE);
    let reply = world.again(waits, request, &mut bulk).unwrap();
    assert_eq!((reply.errno(), world.table.census()), (Errno::Hostunreach, (0, 0)));
    assert!(!world.tick());
    world.park(0, request, &mut bulk);
    world.epochs[1] += 1;
    world.fetch(1);
    while world.tick() {}
    assert_eq!(world.table.census(), (1, 1), "it is back; there is no limit any more");
}

#[test]
fn the_load_of_a_kernel_counts_its_live_processes() {
    let mut world = World::new();
    let load = |world: &mut World| {
        let mut counts = [7; 3];
        world.with(0, |c| c.load(&mut counts)).unwrap();
        counts
    };
    assert_eq!(load(&mut world), [0; 3]);
    let shell = world.shell();
    let child = world.run(2, shell, 0);
    world.run(2, 0, 0);
    assert_eq!(load(&mut world), [1, 0, 2]);
    ended(&mut world, 2, child);
    assert_eq!(load(&mut world), [1, 0, 1], "an ended process does not count");
    assert_eq!(world.errno(0, Request::new(Op::Load), &mut [0; 3]), Errno::Inval);
}
