//! Signals.

use crate::common::*;
use abi::process::{End, Errno, Op, Request, State, flag, signal};
use processes::client::{Account, News};
use share::Event;

fn stops(world: &mut World, kernel: u8) -> Vec<(u32, u16)> {
    let next = std::iter::from_fn(|| world.next(kernel));
    let each = |news| match news {
        News::Stop { pid, signal } => (pid, signal),
        other => panic!("{other:?}"),
    };
    next.map(each).collect()
}

#[test]
fn signal_0_and_ignored_signals_have_no_effect() {
    let mut world = World::new();
    let shell = world.shell();
    for signal in [signal::NONE, 16, 17, 22, 27] {
        assert_eq!(world.with(1, |c| c.kill(0, shell as i32, signal)), Ok(()));
        assert_eq!(world.with(1, |c| c.kill(0, 999, signal)), Err(Errno::Srch));
    }
    assert_eq!(world.with(1, |c| c.kill(0, shell as i32, 31)), Err(Errno::Inval));
    assert_eq!(world.with(1, |c| c.kill(0, shell as i32, u16::MAX)), Err(Errno::Inval));
    assert_eq!(world.with(1, |c| c.is_there(shell)), Ok(true));
    assert_eq!(world.with(1, |c| c.is_there(999)), Ok(false));
    assert_eq!(stops(&mut world, 0), []);
}

#[test]
fn the_first_signal_is_kept_unless_kill_follows() {
    let mut world = World::new();
    let pid = world.run(1, 0, 0);
    let next = world.park(1, Request::new(Op::Next), &mut []);
    let kill = |world: &mut World, signal| world.with(2, |c| c.kill(0, pid as i32, signal));
    kill(&mut world, signal::TERM).unwrap();
    assert_eq!(world.take_woken(), [next]);
    world.tell(Event::Cancel(next));
    kill(&mut world, signal::INT).unwrap();
    assert_eq!(stops(&mut world, 1), [(pid, signal::TERM)]);
    kill(&mut world, signal::INT).unwrap();
    kill(&mut world, signal::KILL).unwrap();
    kill(&mut world, signal::TERM).unwrap();
    assert_eq!(stops(&mut world, 1), [(pid, signal::KILL)], "repeated, because it still runs");
    assert_eq!(world.state(pid), Some(State::Running));
    kill(&mut world, signal::INT).unwrap();
    world.with(1, |c| c.ended(pid, End::Signal, 9, Account::default())).unwrap();
    assert_eq!(stops(&mut world, 1), [], "it has ended");
}

#[test]
fn a_process_that_was_not_fetched_ends_at_once() {
    let mut world = World::new();
    let shell = world.shell();
    let (request, mut bulk) = spawn(1, shell, 0);
    let caller = world.park(0, request, &mut bulk);
    let pid = world.with(0, |c| c.list()).unwrap()[1].pid;
    world.with(2, |c| c.kill(0, pid as i32, signal::TERM)).unwrap();
    assert_eq!(world.next(1), None);
    assert_eq!(world.take_woken(), [caller]);
    assert_eq!(world.again(caller, request, &mut bulk).unwrap().pid, pid);
    assert_eq!(world.with(2, |c| c.kill(0, pid as i32, signal::TERM)), Ok(()), "it has ended");
    let ended = world.with(0, |c| c.wait(shell, -1)).unwrap();
    assert_eq!((ended.pid, ended.end, ended.status), (pid, End::Signal, signal::TERM.into()));
}

#[test]
fn a_starting_process_can_be_signalled() {
    let mut world = World::new();
    let (request, mut bulk) = spawn(1, 0, 0);
    let caller = world.park(0, request, &mut bulk);
    let pid = world.fetch(1);
    world.with(2, |c| c.kill(0, pid as i32, signal::TERM)).unwrap();
    assert_eq!(stops(&mut world, 1), [(pid, signal::TERM)]);
    world.with(1, |c| c.ended(pid, End::Signal, 15, Account::default())).unwrap();
    assert_eq!(world.again(caller, request, &mut bulk).unwrap().pid, pid);
    assert_eq!(world.table.census(), (0, 0), "no caller waits for it");
}

#[test]
fn a_signal_to_a_group_reaches_all_members() {
    let mut world = World::new();
    let shell = world.shell();
    let leader = world.run(1, shell, flag::NEW_GROUP);
    let member = world.run(2, leader, 0);
    let group = -(leader as i32);
    world.with(0, |c| c.kill(shell, group, signal::INT)).unwrap();
    assert_eq!(stops(&mut world, 1), [(leader, signal::INT)]);
    assert_eq!(stops(&mut world, 2), [(member, signal::INT)]);
    world.with(0, |c| c.kill(member, 0, signal::INT)).unwrap();
    assert_eq!((stops(&mut world, 1).len(), stops(&mut world, 2).len()), (1, 1), "its own");
    assert_eq!(stops(&mut world, 0), []);
    for (asker, pid) in [(0, -999), (0, -1), (0, i32::MIN), (0, 0), (999, 0)] {
        assert_eq!(world.with(0, |c| c.kill(asker, pid, signal::INT)), Err(Errno::Srch), "{pid}");
    }
    world.with(1, |c| c.ended(leader, End::Signal, 2, Account::default())).unwrap();
    assert_eq!(world.with(0, |c| c.kill(0, group, signal::NONE)), Ok(()));
}

#[test]
fn a_process_may_signal_its_descendants_and_its_group() {
    let mut world = World::new();
    let [shell, stranger] = [0; 2].map(|_| world.shell());
    let child = world.run(1, shell, flag::NEW_GROUP);
    let grandchild = world.run(2, child, flag::NEW_GROUP);
    let friend = world.run(1, shell, 0);
    let kill = |world: &mut World, asker, pid: u32| {
        world.with(0, |c| c.kill(asker, pid as i32, signal::NONE))
    };
    for (asker, pid) in [(shell, child), (shell, grandchild), (friend, shell), (child, child)] {
        assert_eq!(kill(&mut world, asker, pid), Ok(()), "{asker} {pid}");
    }
    for (asker, pid) in [(shell, stranger), (child, shell), (grandchild, child), (friend, child)] {
        assert_eq!(kill(&mut world, asker, pid), Err(Errno::Perm), "{asker} {pid}");
    }
    assert_eq!(kill(&mut world, shell, 999), Err(Errno::Srch));
    assert_eq!(kill(&mut world, 999, shell), Err(Errno::Perm), "it has ended");
    // Of a group, only the members that it may signal.
    world.with(0, |c| c.group(0, stranger, child)).unwrap();
    let group = -(child as i32);
    assert_eq!(world.with(0, |c| c.kill(grandchild, group, signal::TERM)), Err(Errno::Perm));
    world.with(0, |c| c.kill(shell, group, signal::TERM)).unwrap();
    assert_eq!(stops(&mut world, 1), [(child, signal::TERM)]);
    let any = Request { flags: flag::ANY_PROCESS, ..Request::new(Op::Kill) };
    let any = Request { pid: stranger as i32, parent: friend, signal: signal::TERM, ..any };
    assert_eq!(world.errno(1, any, &mut []), Errno::Success);
    let groups = |news: &News| !matches!(news, News::Group { .. });
    let heard = std::iter::from_fn(|| world.next(0)).filter(groups).collect::<Vec<_>>();
    assert_eq!(heard, [News::Stop { pid: stranger, signal: signal::TERM }]);
}

/// A process that has been signalled starts no others, so a signal to a group misses none.
#[test]
fn a_signalled_process_starts_no_other() {
    let mut world = World::new();
    let shell = world.shell();
    let leader = world.run(1, shell, flag::NEW_GROUP);
    world.with(0, |c| c.kill(shell, -(leader as i32), signal::TERM)).unwrap();
    for heard in [false, true] {
        let (request, mut bulk) = spawn(2, leader, 0);
        assert_eq!(world.errno(1, request, &mut bulk), Errno::Intr, "heard: {heard}");
        stops(&mut world, 1);
    }
    assert_eq!(world.with(0, |c| c.list()).unwrap().len(), 2);
}

/// A kernel that was woken for a signal and did not fetch it is woken again. Once it has fetched
/// it, the table sets no timer.
#[test]
fn a_kernel_that_does_not_fetch_is_woken_again() {
    let mut world = World::new();
    let pid = world.run(1, 0, 0);
    while world.tick() {}
    let listens = world.park(1, Request::new(Op::Next), &mut []);
    assert!(!world.tick(), "there is no task");
    world.with(0, |c| c.kill(0, pid as i32, signal::TERM)).unwrap();
    assert_eq!(world.take_woken(), [listens]);
    for _ in 0..3 {
        assert!(world.tick());
        assert_eq!(world.take_woken(), [listens]);
    }
    let reply = world.again(listens, Request::new(Op::Next), &mut []).unwrap();
    assert_eq!((reply.pid, reply.status), (pid, signal::TERM.into()));
    assert!(world.tick());
    assert_eq!((world.take_woken(), world.tick()), (vec![], false));
}

/// The kernel that was to deliver the wake dies before it does.
#[test]
fn the_death_of_the_waking_kernel_repeats_the_wake() {
    let mut world = World::new();
    let pid = world.run(1, 0, 0);
    let listens = world.park(1, Request::new(Op::Next), &mut []);
    world.with(2, |c| c.kill(0, pid as i32, signal::TERM)).unwrap();
    world.take_woken();
    world.gone(2);
    assert_eq!(world.take_woken(), [listens]);
}
