//! Waiting for children: which ones, in which order, each end once.

use crate::common::*;
use abi::process::{End, Errno, Op, Request, flag};
use processes::client::Account;
use share::Event;

fn ended(world: &mut World, pid: u32) {
    world.with(1, |c| c.ended(pid, End::Exit, pid, Account::default())).unwrap();
}

#[test]
fn the_oldest_end_is_reported_first_and_each_once() {
    let mut world = World::new();
    let shell = world.shell();
    let pids = [0; 3].map(|_| world.run(1, shell, 0));
    for at in [1, 2, 0] {
        ended(&mut world, pids[at]);
    }
    let reported = [0; 3].map(|_| world.with(0, |c| c.wait(shell, -1)).unwrap().pid);
    assert_eq!(reported, [pids[1], pids[2], pids[0]]);
    assert_eq!(world.with(0, |c| c.wait(shell, -1)), Err(Errno::Child));
}

#[test]
fn the_pid_selects_children_as_in_waitpid() {
    let mut world = World::new();
    let shell = world.shell();
    let one = world.run(1, shell, 0);
    let leader = world.run(1, shell, flag::NEW_GROUP);
    let other = world.run(2, 0, flag::WATCHED);
    let poll = |world: &mut World, pid: i32| {
        let found = world.with(0, |c| c.poll(shell, pid));
        found.map(|ended| ended.map_or(0, |ended| ended.pid))
    };
    let group = -(leader as i32);
    for pid in [one as i32, leader as i32, -1, 0, group] {
        assert_eq!(poll(&mut world, pid), Ok(0), "{pid}: none has ended");
    }
    for pid in [other as i32, 999, -999, i32::MIN, shell as i32] {
        assert_eq!(poll(&mut world, pid), Err(Errno::Child), "{pid}");
    }
    ended(&mut world, leader);
    assert_eq!(poll(&mut world, 0), Ok(0), "it is in another group");
    assert_eq!(poll(&mut world, one as i32), Ok(0));
    assert_eq!(poll(&mut world, group), Ok(leader));
    assert_eq!(poll(&mut world, group), Err(Errno::Child));
    ended(&mut world, one);
    assert_eq!(poll(&mut world, 0), Ok(one));
    assert_eq!(world.with(0, |c| c.poll(12345, -1)), Err(Errno::Srch), "no such caller");
}

#[test]
fn all_waiters_are_woken_and_one_gets_the_child() {
    let mut world = World::new();
    let shell = world.shell();
    let pid = world.run(1, shell, 0);
    let request = wait(shell, -1);
    let waits = [0; 2].map(|_| world.park(0, request, &mut []));
    ended(&mut world, pid);
    assert_eq!(world.take_woken(), waits);
    assert_eq!(world.again(waits[1], request, &mut []).unwrap().pid, pid);
    assert_eq!(world.again(waits[0], request, &mut []).unwrap().errno(), Errno::Child);
    assert_eq!(world.table.census(), (1, 0));
}

#[test]
fn a_waiter_with_no_child_left_is_woken() {
    let mut world = World::new();
    let shell = world.shell();
    let pid = world.run(1, shell, 0);
    let request = wait(shell, -(shell as i32));
    let token = world.park(0, request, &mut []);
    world.with(0, |c| c.group(shell, pid, 0)).unwrap();
    assert_eq!(world.take_woken(), [token]);
    assert_eq!(world.again(token, request, &mut []).unwrap().errno(), Errno::Child);
    // The caller itself moves to another group.
    let request = wait(shell, 0);
    world.with(0, |c| c.group(shell, pid, shell)).unwrap();
    let other = world.run(1, 0, 0);
    let token = world.park(0, request, &mut []);
    world.with(0, |c| c.group(0, shell, other)).unwrap();
    assert_eq!(world.take_woken(), [token]);
    assert_eq!(world.again(token, request, &mut []).unwrap().errno(), Errno::Child);
    // The caller ends.
    let request = wait(shell, -1);
    let token = world.park(0, request, &mut []);
    world.with(0, |c| c.ended(shell, End::Exit, 0, Account::default())).unwrap();
    assert_eq!(world.take_woken(), [token]);
    assert_eq!(world.again(token, request, &mut []).unwrap().errno(), Errno::Srch);
}

#[test]
fn a_cancelled_wait_does_not_take_the_child() {
    let mut world = World::new();
    let shell = world.shell();
    let pid = world.run(1, shell, 0);
    let token = world.park(0, wait(shell, -1), &mut []);
    world.tell(Event::Cancel(token));
    ended(&mut world, pid);
    assert_eq!((world.take_woken(), world.table.census()), (vec![], (2, 0)));
    assert_eq!(world.with(0, |c| c.wait(shell, -1)).unwrap().pid, pid);
}

#[test]
fn the_system_waits_for_watched_processes_only() {
    let mut world = World::new();
    let watched = world.run(1, 0, flag::WATCHED);
    let free = world.run(1, 0, 0);
    assert_eq!(world.with(0, |c| c.poll(0, free as i32)), Err(Errno::Child));
    assert_eq!(world.with(0, |c| c.poll(0, -1)), Err(Errno::Inval), "each has its own watcher");
    assert_eq!(world.with(0, |c| c.poll(0, watched as i32)), Ok(None));
    let request = wait(0, watched as i32);
    let token = world.park(2, request, &mut []);
    ended(&mut world, free);
    assert_eq!((world.take_woken(), world.about(free)), (vec![], None), "no waiter");
    ended(&mut world, watched);
    assert_eq!(world.take_woken(), [token]);
    assert_eq!(world.again(token, request, &mut []).unwrap().status, watched);
    assert_eq!(world.table.census(), (0, 0));
}

#[test]
fn a_process_that_was_left_is_not_kept() {
    let mut world = World::new();
    let pids = [0; 2].map(|_| world.run(1, 0, flag::WATCHED));
    ended(&mut world, pids[0]);
    let waits = world.park(0, wait(0, pids[1] as i32), &mut []);
    for pid in pids {
        world.with(0, |c| c.leave(pid)).unwrap();
    }
    assert_eq!(world.take_woken(), [waits]);
    let reply = world.again(waits, wait(0, pids[1] as i32), &mut []).unwrap();
    assert_eq!((reply.errno(), world.table.census()), (Errno::Child, (1, 0)));
    assert_eq!(world.with(0, |c| c.leave(pids[1])), Err(Errno::Inval));
    assert_eq!(world.with(0, |c| c.leave(pids[0])), Err(Errno::Srch));
    ended(&mut world, pids[1]);
    assert_eq!(world.table.census(), (0, 0));
}

#[test]
fn the_number_of_parked_callers_is_limited() {
    let mut world = World::new();
    let next = Request::new(Op::Next);
    for _ in 0..processes::service::WAITS {
        world.park(0, next, &mut []);
    }
    assert_eq!(world.errno(0, next, &mut []), Errno::Again);
    world.gone(0);
    assert_eq!(world.table.census(), (0, 0));
}
