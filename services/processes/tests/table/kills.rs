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
fn a_probe_and_what_is_ignored_do_nothing() {
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
fn the_first_signal_counts_unless_a_kill_comes() {
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
    assert_eq!(stops(&mut world, 1), [(pid, signal::KILL)], "said once more, for it runs still");
    assert_eq!(world.state(pid), Some(State::Running));
    kill(&mut world, signal::INT).unwrap();
    world.with(1, |c| c.ended(pid, End::Signal, 9, Account::default())).unwrap();
    assert_eq!(stops(&mut world, 1), [], "it is over");
}

#[test]
fn one_that_no_kernel_has_heard_of_ends_at_once() {
    let mut world = World::new();
    let shell = world.shell();
    let (request, mut bulk) = spawn(1, shell, 0);
    let asker = world.park(0, request, &mut bulk);
    let pid = world.with(0, |c| c.list()).unwrap()[1].pid;
    world.with(2, |c| c.kill(0, pid as i32, signal::TERM)).unwrap();
    assert_eq!(world.next(1), None);
    assert_eq!(world.take_woken(), [asker]);
    assert_eq!(world.again(asker, request, &mut bulk).unwrap().pid, pid);
    assert_eq!(world.with(2, |c| c.kill(0, pid as i32, signal::TERM)), Ok(()), "it has ended");
    let ended = world.with(0, |c| c.wait(shell, -1)).unwrap();
    assert_eq!((ended.pid, ended.end, ended.status), (pid, End::Signal, signal::TERM.into()));
}

#[test]
fn one_that_starts_is_told_too() {
    let mut world = World::new();
    let (request, mut bulk) = spawn(1, 0, 0);
    let asker = world.park(0, request, &mut bulk);
    let pid = world.fetch(1);
    world.with(2, |c| c.kill(0, pid as i32, signal::TERM)).unwrap();
    assert_eq!(stops(&mut world, 1), [(pid, signal::TERM)]);
    world.with(1, |c| c.ended(pid, End::Signal, 15, Account::default())).unwrap();
    assert_eq!(world.again(asker, request, &mut bulk).unwrap().pid, pid);
    assert_eq!(world.table.census(), (0, 0), "nobody waits for it");
}

#[test]
fn a_group_is_killed_whole() {
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
fn a_process_reaches_those_it_began_and_its_group() {
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
    assert_eq!(kill(&mut world, 999, shell), Err(Errno::Perm), "who has ended reaches nobody");
    // Of a group, those that it reaches.
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

/// Nobody comes behind a signal for a group.
#[test]
fn who_is_to_end_begins_nobody() {
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

/// A kernel that was called for a signal and did not come is called again, and the table wants no
/// timer once it has come.
#[test]
fn a_kernel_that_does_not_come_is_called_again() {
    let mut world = World::new();
    let pid = world.run(1, 0, 0);
    while world.tick() {}
    let listens = world.park(1, Request::new(Op::Next), &mut []);
    assert!(!world.tick(), "there is nothing to hear");
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

/// The kernel that was to wake another one dies before it does.
#[test]
fn the_death_of_who_was_to_wake_a_kernel_wakes_it() {
    let mut world = World::new();
    let pid = world.run(1, 0, 0);
    let listens = world.park(1, Request::new(Op::Next), &mut []);
    world.with(2, |c| c.kill(0, pid as i32, signal::TERM)).unwrap();
    world.take_woken();
    world.gone(2);
    assert_eq!(world.take_woken(), [listens]);
}
