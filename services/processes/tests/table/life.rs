//! From Spawn to the end of a process; numbers, limits, groups.

use crate::common::*;
use abi::process::{End, Errno, Op, PROCESSES, Request, State, flag};
use abi::program::BEGIN_BYTES;
use abi::quota::Quota;
use processes::client::{Account, News, Spawn};
use processes::record::{FIRST, STRIDE, first};
use processes::service::BEGINNINGS;
use share::Event;

#[test]
fn a_process_is_requested_fetched_started_and_reaped() {
    let mut world = World::new();
    let shell = world.shell();
    let (request, mut bulk) = spawn(1, shell, 0);
    let next = world.park(1, Request::new(Op::Next), &mut []);
    let asker = world.park(0, request, &mut bulk);
    assert_eq!(world.take_woken(), [next]);
    let mut room = [0; 100];
    let news = world.again(next, Request::new(Op::Next), &mut room).unwrap();
    let pid = news.pid;
    assert_eq!(room[..bulk.len()], bulk);
    assert_eq!((news.filled as usize, news.value, news.group), (bulk.len(), shell.into(), shell));
    assert_eq!(world.state(pid), Some(State::Starting));
    assert_eq!(
        world.again(asker, request, &mut bulk),
        None,
        "repeated too early, it is parked again"
    );
    assert_eq!(world.take_woken(), []);
    world.with(1, |c| c.begun(pid, Quota::default(), Ok(5000))).unwrap();
    assert_eq!(world.take_woken(), [asker]);
    assert_eq!(world.again(asker, request, &mut bulk).unwrap().pid, pid);
    let used = Account { cpu: 10, memory: 3000, messages: 2 };
    world.with(1, |c| c.account(pid, used)).unwrap();
    let listed = world.about(pid).unwrap();
    assert_eq!((listed.parent, listed.kernel, &listed.name[..6]), (shell, 1, &b"hello\0"[..]));
    assert_eq!((listed.cpu, listed.memory, listed.messages), (10, 5000, 2));
    let used = Account { cpu: 20, memory: 6000, messages: 4 };
    world.with(1, |c| c.ended(pid, End::Exit, 3, used)).unwrap();
    let ended = world.with(0, |c| c.wait(shell, -1)).unwrap();
    assert_eq!((ended.pid, ended.end, ended.status), (pid, End::Exit, 3));
    assert_eq!((ended.cpu, ended.memory), (20, 6000));
    assert_eq!((world.about(pid), world.table.census()), (None, (1, 0)));
}

#[test]
fn a_process_that_failed_to_start_leaves_no_record() {
    let mut world = World::new();
    let shell = world.shell();
    let (request, mut bulk) = spawn(1, shell, 0);
    let asker = world.park(0, request, &mut bulk);
    let pid = world.fetch(1);
    let waits = world.park(0, wait(shell, -1), &mut []);
    world.with(1, |c| c.begun(pid, Quota::default(), Err(Errno::Noexec))).unwrap();
    assert_eq!(world.take_woken(), [asker, waits]);
    assert_eq!(world.again(asker, request, &mut bulk).unwrap().errno(), Errno::Noexec);
    assert_eq!(world.again(waits, wait(shell, -1), &mut []).unwrap().errno(), Errno::Child);
    assert_eq!((world.about(pid), world.table.census()), (None, (1, 0)));
    let asker = world.park(0, request, &mut bulk);
    let begun = Request { pid: world.fetch(1) as i32, status: 9999, ..Request::new(Op::Begun) };
    assert_eq!(world.errno(1, begun, &mut []), Errno::Success);
    assert_eq!(world.again(asker, request, &mut bulk).unwrap().errno(), Errno::Io);
}

#[test]
fn a_process_that_ends_while_starting_can_be_waited_for() {
    let mut world = World::new();
    let shell = world.shell();
    let (request, mut bulk) = spawn(1, shell, 0);
    let asker = world.park(0, request, &mut bulk);
    let pid = world.fetch(1);
    world.with(1, |c| c.ended(pid, End::Signal, 9, Account::default())).unwrap();
    assert_eq!(world.again(asker, request, &mut bulk).unwrap().pid, pid);
    assert_eq!(world.with(0, |c| c.wait(shell, pid as i32)).unwrap().end, End::Signal);
}

#[test]
fn start_data_are_limited() {
    let mut world = World::new();
    let (request, _) = spawn(1, 0, 0);
    let mut long = vec![0; BEGIN_BYTES + 1];
    let request = |length: usize| Request { length: length as u32, ..request };
    assert_eq!(world.errno(0, request(BEGIN_BYTES + 1), &mut long), Errno::Toobig);
    assert_eq!(
        world.errno(0, request(100), &mut long[..99]),
        Errno::Toobig,
        "longer than the bulk"
    );
    assert_eq!(world.errno(0, request(usize::MAX), &mut long), Errno::Toobig);
    let all = BEGINNINGS / BEGIN_BYTES;
    for _ in 0..all {
        world.park(0, request(BEGIN_BYTES), &mut long);
    }
    assert_eq!(world.errno(0, request(BEGIN_BYTES), &mut long), Errno::Nomem);
    assert_eq!(world.table.census(), (all, all));
}

#[test]
fn start_data_larger_than_the_room_fail_and_the_next_task_follows() {
    let mut world = World::new();
    let (large, mut bulk) = spawn(1, 0, 0);
    let (small, mut empty) = (Request { length: 0, ..large }, []);
    let refused = world.park(0, large, &mut bulk);
    world.park(0, small, &mut empty);
    let reply = world.done(1, Request::new(Op::Next), &mut [0; 8]);
    assert_eq!((reply.errno(), reply.filled), (Errno::Success, 0));
    assert_eq!(world.take_woken(), [refused]);
    assert_eq!(world.again(refused, large, &mut bulk).unwrap().errno(), Errno::Toobig);
    assert_eq!(&world.about(reply.pid).unwrap().name[..2], b"?\0");
    assert_eq!(world.table.census(), (1, 1));
}

#[test]
fn each_task_goes_to_one_thread_the_oldest_first() {
    let mut world = World::new();
    let running = world.run(1, 0, 0);
    let next = Request::new(Op::Next);
    let (one, other) = (world.park(1, next, &mut []), world.park(1, next, &mut []));
    let elsewhere = world.park(2, next, &mut []);
    let (request, mut bulk) = spawn(1, 0, 0);
    world.park(0, request, &mut bulk);
    assert_eq!(world.take_woken(), [one, other]);
    world.with(2, |c| c.kill(0, running as i32, 15)).unwrap();
    let mut room = [0; 100];
    assert_eq!(world.again(other, next, &mut room).unwrap().kind, 1);
    let stop = world.again(one, next, &mut room).unwrap();
    assert_eq!((stop.kind, stop.pid, stop.status), (2, running, 15));
    assert_eq!(world.next(1), None);
    assert_eq!(world.again(elsewhere, next, &mut room), None);
}

#[test]
fn only_its_kernel_may_report_on_a_process() {
    let mut world = World::new();
    let (request, mut bulk) = spawn(1, 0, 0);
    world.park(0, request, &mut bulk);
    let pid = world.with(0, |c| c.list()).unwrap()[0].pid;
    let all = |world: &mut World, kernel, pid| {
        let ended = world.with(kernel, |c| c.ended(pid, End::Exit, 0, Account::default()));
        let begun = world.with(kernel, |c| c.begun(pid, Quota::default(), Ok(1)));
        let account = world.with(kernel, |c| c.account(pid, Account::default()));
        [ended, begun.map(|_| ()), account].map(|result| result.unwrap_err())
    };
    assert_eq!(all(&mut world, 1, pid), [Errno::Perm; 3], "it has not fetched it");
    assert_eq!(world.fetch(1), pid);
    assert_eq!(all(&mut world, 2, pid), [Errno::Perm; 3]);
    assert_eq!(all(&mut world, 1, pid + 1), [Errno::Srch; 3]);
    world.with(1, |c| c.begun(pid, Quota::default(), Ok(1))).unwrap();
    assert_eq!(world.with(1, |c| c.begun(pid, Quota::default(), Ok(1))), Err(Errno::Inval));
    let bad = Request { pid: pid as i32, kind: 9, ..Request::new(Op::Ended) };
    assert_eq!(world.errno(1, bad, &mut []), Errno::Inval);
    let shell = world.shell();
    let child = world.run(1, shell, 0);
    world.with(1, |c| c.ended(child, End::Exit, 0, Account::default())).unwrap();
    assert_eq!(all(&mut world, 1, child), [Errno::Inval; 3]);
}

#[test]
fn the_table_is_limited_and_ended_processes_count() {
    let mut world = World::new();
    // Those of the system: process trees have lower limits (`quotas.rs`).
    let shell = world.shell();
    let last = world.run(1, shell, 0);
    for _ in 2..PROCESSES {
        world.run(1, 0, 0);
    }
    let (request, mut bulk) = spawn(1, 0, 0);
    assert_eq!(world.errno(0, request, &mut bulk), Errno::Again);
    world.with(1, |c| c.ended(last, End::Exit, 0, Account::default())).unwrap();
    assert_eq!(world.errno(0, request, &mut bulk), Errno::Again);
    assert_eq!(world.with(0, |c| c.list()).unwrap().len(), PROCESSES);
    world.with(0, |c| c.wait(shell, -1)).unwrap();
    world.park(0, request, &mut bulk);
    assert_eq!(world.table.census().0, PROCESSES);
}

#[test]
fn numbers_rise_and_each_life_starts_higher() {
    assert_eq!((first(0), first(1), first(2)), (FIRST, FIRST, FIRST + STRIDE));
    for lives in [3, 1023, 1024, 1025, u32::MAX] {
        assert!((FIRST..abi::process::LAST_PID).contains(&first(lives)), "{lives}");
    }
    let mut world = World::of_life(2);
    world.tell_all();
    let numbers: Vec<_> = (0..10).map(|_| world.run(1, 0, 0)).collect();
    assert!(numbers.is_sorted() && numbers[0] == FIRST + STRIDE, "{numbers:?}");
}

#[test]
fn numbers_in_use_are_passed_over() {
    let mut world = World::new();
    let adopt = |world: &mut World, pid: u32, parent: u32, group: u32| {
        let running =
            processes::client::Running { pid, parent, group, kernel: 1, ..Default::default() };
        world.with(1, |c| c.adopt(running)).unwrap();
    };
    adopt(&mut world, FIRST, 0, FIRST + 1);
    adopt(&mut world, 500, FIRST + 2, 0);
    assert_eq!(world.run(1, 0, 0), FIRST + 3);
}

#[test]
fn malformed_requests_are_refused() {
    let mut world = World::new();
    let shell = world.shell();
    let (good, mut bulk) = spawn(1, shell, 0);
    let mut refused = |request, errno| {
        assert_eq!(world.errno(0, request, &mut bulk), errno, "{request:?}");
    };
    refused(Request { op: 0, ..good }, Errno::Nosys);
    refused(Request { op: 99, ..good }, Errno::Nosys);
    refused(Request { reserved: 1, ..good }, Errno::Inval);
    refused(Request { flags: flag::NO_HANG, ..good }, Errno::Inval);
    refused(Request { flags: flag::WATCHED, ..good }, Errno::Inval);
    refused(Request { flags: flag::NEW_GROUP, group: shell, ..good }, Errno::Inval);
    refused(Request { kernel: 8, ..good }, Errno::Inval);
    refused(Request { kernel: 256, ..good }, Errno::Inval);
    refused(Request { parent: 77, ..good }, Errno::Srch);
    refused(Request { group: 77, ..good }, Errno::Perm);
    refused(Request { group: 1, ..good }, Errno::Inval);
    refused(Request { group: u32::MAX, ..good }, Errno::Inval);
    for op in Op::ALL.iter().filter(|op| **op != Op::Spawn) {
        refused(Request { flags: 1 << 15, pid: shell as i32, ..Request::new(*op) }, Errno::Inval);
    }
    assert_eq!(world.table.census(), (1, 0));
}

#[test]
fn groups_are_inherited_made_and_joined() {
    let mut world = World::new();
    let shell = world.shell();
    let child = world.run(1, shell, 0);
    let leader = world.run(1, shell, flag::NEW_GROUP);
    let group = |world: &mut World, pid| world.about(pid).unwrap().group;
    assert_eq!([shell, child, leader].map(|pid| group(&mut world, pid)), [shell, shell, leader]);
    assert_eq!(world.with(0, |c| c.group(shell, child, leader)), Ok(leader));
    assert_eq!(group(&mut world, child), leader);
    assert_eq!(world.with(0, |c| c.group(child, 0, 0)), Ok(child));
    assert_eq!(world.with(0, |c| c.group(0, child, shell)), Ok(shell), "the system may move any");
    assert_eq!(world.with(0, |c| c.group(child, leader, child)), Err(Errno::Perm), "no child");
    assert_eq!(world.with(0, |c| c.group(shell, child, 12345)), Err(Errno::Perm), "no such group");
    assert_eq!(world.with(0, |c| c.group(shell, 12345, 0)), Err(Errno::Srch));
    assert_eq!(world.with(0, |c| c.group(0, 0, 0)), Err(Errno::Inval));
    let (request, mut bulk) = spawn(1, shell, 0);
    world.park(0, Request { group: leader, ..request }, &mut bulk);
    let joined = world.fetch(1);
    assert_eq!(group(&mut world, joined), leader);
}

/// A process that could join any group could signal any process.
#[test]
fn groups_outside_the_family_cannot_be_joined() {
    let mut world = World::new();
    let [shell, stranger] = [0; 2].map(|_| world.shell());
    let child = world.run(1, shell, flag::NEW_GROUP);
    assert_eq!(world.with(0, |c| c.group(shell, 0, stranger)), Err(Errno::Perm));
    assert_eq!(world.with(0, |c| c.group(shell, child, stranger)), Err(Errno::Perm));
    let (request, mut bulk) = spawn(1, shell, 0);
    assert_eq!(world.errno(0, Request { group: stranger, ..request }, &mut bulk), Errno::Perm);
    let sibling = world.run(1, shell, flag::NEW_GROUP);
    assert_eq!(world.with(0, |c| c.group(child, 0, sibling)), Err(Errno::Perm));
    assert_eq!(world.with(0, |c| c.group(child, 0, shell)), Err(Errno::Perm), "its parent's");
    assert_eq!(world.with(0, |c| c.group(shell, child, sibling)), Ok(sibling));
}

/// The kernel reports the group to a restarted table, so it must know it.
#[test]
fn a_kernel_learns_of_a_new_group() {
    let mut world = World::new();
    let shell = world.shell();
    let pid = world.run(1, shell, 0);
    let listens = world.park(1, Request::new(Op::Next), &mut []);
    world.with(0, |c| c.group(shell, pid, 0)).unwrap();
    assert_eq!(world.take_woken(), [listens]);
    world.with(0, |c| c.kill(0, pid as i32, 15)).unwrap();
    assert_eq!(world.next(1), Some(News::Stop { pid, signal: 15 }));
    assert_eq!(world.next(1), Some(News::Group { pid, group: pid }));
    assert_eq!(world.next(1), None);
    let (request, mut bulk) = spawn(1, shell, 0);
    world.park(0, request, &mut bulk);
    let waiting = world.with(0, |c| c.list()).unwrap().last().unwrap().pid;
    world.with(0, |c| c.group(shell, waiting, 0)).unwrap();
    let begin = world.next(1);
    assert!(matches!(begin, Some(News::Begin { group, .. }) if group == waiting), "{begin:?}");
    assert_eq!(world.next(1), None);
}

#[test]
fn lists_come_in_pieces() {
    let mut world = World::new();
    let numbers: Vec<_> = (0..40).map(|_| world.run(1, 0, 0)).collect();
    let pids = |all: Vec<abi::process::Listed>| Vec::from_iter(all.iter().map(|l| l.pid));
    assert_eq!(pids(world.with(0, |c| c.list()).unwrap()), numbers);
    assert_eq!(pids(world.with(0, |c| c.list_some(numbers[3], 5)).unwrap()), numbers[4..9]);
    assert_eq!(world.with(0, |c| c.list_some(numbers[39], 5)).unwrap(), []);
    assert_eq!(world.with(0, |c| c.list_some(0, 0)), Err(Errno::Inval), "no room for one");
    let bad = Request { pid: -1, ..Request::new(Op::List) };
    assert_eq!(world.errno(0, bad, &mut [0; 100]), Errno::Inval);
    let about = Request { pid: numbers[0] as i32, ..Request::new(Op::About) };
    assert_eq!(world.errno(0, about, &mut [0; 87]), Errno::Inval);
}

#[test]
fn a_new_request_under_a_parked_token_cancels_the_old_one() {
    let mut world = World::new();
    let (request, mut bulk) = spawn(1, 0, 0);
    let token = world.park(0, request, &mut bulk);
    assert_eq!(world.ask(token, request, &mut bulk), None);
    assert_eq!(world.table.census(), (1, 1));
    let next = world.park(1, Request::new(Op::Next), &mut [0; 0]);
    assert_eq!(world.table.census(), (0, 2), "there was no room for it");
    world.tell(Event::Cancel(next));
    world.tell(Event::Cancel(token));
    assert_eq!(world.table.census(), (0, 0));
}

#[test]
fn a_client_sends_all_fields() {
    let mut asked = Vec::new();
    let spawn = Spawn { kernel: 1, parent: 2, group: 3, flags: 4, beginning: b"abc" };
    let mut ask = |request: Request, bulk: &mut [u8]| {
        asked.push((request, bulk.to_vec()));
        abi::process::Reply { pid: 9, kind: 2, status: 15, ..Default::default() }
    };
    let mut client = processes::client::Client(&mut ask);
    assert_eq!(client.spawn(spawn), Ok(9));
    assert_eq!(client.next(&mut []), Ok(News::Stop { pid: 9, signal: 15 }));
    assert_eq!(client.is_there(u32::MAX), Err(Errno::Inval));
    let (request, bulk) = &asked[0];
    assert_eq!((request.op, request.kernel, request.length), (1, 1, 3));
    assert_eq!((request.parent, request.group, request.flags, &bulk[..]), (2, 3, 4, &b"abc"[..]));
}
