//! Processes that a kernel starts itself, without Next.

use crate::common::*;
use abi::process::{End, Errno, News, Op, Reply, Request, State, flag, signal};
use abi::quota::Quota;
use processes::client::{Account, Missed, Spawn, Started};
use processes::name;
use share::{Event, Token};

/// Returns a Spawn of the caller's kernel, and its bulk: the name.
fn here(kernel: u8, parent: u32, flags: u16) -> (Request, Vec<u8>) {
    let (request, bulk) = (spawn(kernel.into(), parent, flags | flag::HERE).0, b"hello".to_vec());
    (Request { length: bulk.len() as u32, ..request }, bulk)
}

fn begin(world: &mut World, kernel: u8, parent: u32, flags: u16) -> (Token, Reply) {
    let (token, (request, mut bulk)) = (world.token(kernel), here(kernel, parent, flags));
    let reply = world.ask(token, request, &mut bulk).unwrap();
    (token, reply)
}

fn begun(world: &mut World, kernel: u8, pid: u32) -> Missed {
    world.with(kernel, |c| c.begun(pid, Quota::default(), Ok(1))).unwrap()
}

/// A parent that waits has been woken, and learns that it has no child.
fn learns_of_no_child(world: &mut World, shell: u32, waits: Token) {
    assert_eq!(world.take_woken(), [waits]);
    assert_eq!(world.again(waits, wait(shell, -1), &mut []).unwrap().errno(), Errno::Child);
}

#[test]
fn a_kernel_starts_a_process_without_a_task() {
    let mut world = World::new();
    let shell = world.shell();
    let next = world.park(0, Request::new(Op::Next), &mut []);
    while world.tick() {}
    let (_, reply) = begin(&mut world, 0, shell, 0);
    let (pid, kind) = (reply.pid, News::Begin as u32);
    assert_eq!((reply.errno(), reply.kind, reply.filled), (Errno::Success, kind, 0));
    assert_eq!((reply.value, reply.group, reply.status), (shell.into(), shell, 1));
    let quota = Quota::default().of_child(shell).of_child(pid);
    assert_eq!(reply.quota(), quota);
    let listed = world.about(pid).unwrap();
    assert_eq!((listed.parent, listed.kernel, &listed.name[..6]), (shell, 0, &b"hello\0"[..]));
    assert_eq!(world.state(pid), Some(State::Starting));
    assert_eq!(begun(&mut world, 0, pid), Missed { group: shell, stop: None });
    assert_eq!((world.state(pid), world.take_woken()), (Some(State::Running), vec![]));
    assert!(!world.tick(), "no kernel is to be woken again");
    world.with(0, |c| c.ended(pid, End::Exit, 3, Account::default())).unwrap();
    assert_eq!(world.with(0, |c| c.wait(shell, -1)).unwrap().status, 3);
    assert_eq!(world.again(next, Request::new(Op::Next), &mut []), None);
    let watched = Spawn { flags: flag::NEW_GROUP | flag::WATCHED, ..Spawn::default() };
    let name = name::padded(b"init\x1b");
    let Started { pid, group, .. } = world.with(0, |c| c.spawn_here(watched, name)).unwrap();
    assert_eq!((group, &world.about(pid).unwrap().name[..6]), (pid, &b"init?\0"[..]));
}

#[test]
fn a_kernel_starts_processes_on_itself_only() {
    let mut world = World::new();
    let shell = world.shell();
    let before = world.table.census();
    let (request, mut bulk) = here(1, shell, 0);
    assert_eq!(world.errno(0, request, &mut bulk), Errno::Inval);
    let long = Request { length: 6, ..here(0, shell, 0).0 };
    assert_eq!(world.errno(0, long, &mut bulk), Errno::Toobig);
    world.with(0, |c| c.kill(0, shell as i32, signal::TERM)).unwrap();
    assert_eq!(begin(&mut world, 0, shell, 0).1.errno(), Errno::Intr, "its parent must end");
    assert_eq!(begin(&mut world, 0, 999, 0).1.errno(), Errno::Srch);
    assert_eq!(world.table.census(), before);
}

#[test]
fn a_process_that_does_not_start_leaves_no_record() {
    let mut world = World::new();
    let shell = world.shell();
    let (_, Reply { pid, .. }) = begin(&mut world, 0, shell, 0);
    let waits = world.park(0, wait(shell, -1), &mut []);
    world.with(0, |c| c.begun(pid, Quota::default(), Err(Errno::Noexec))).unwrap();
    learns_of_no_child(&mut world, shell, waits);
    assert_eq!((world.about(pid), world.table.census()), (None, (1, 0)));
    let (_, Reply { pid, .. }) = begin(&mut world, 1, 0, 0);
    world.gone(1);
    assert_eq!((world.about(pid), world.table.census()), (None, (1, 0)));
}

#[test]
fn begun_tells_what_was_fetched_too_early() {
    let mut world = World::new();
    let shell = world.shell();
    for killed in [false, true] {
        let (_, Reply { pid, .. }) = begin(&mut world, 0, shell, 0);
        world.with(0, |c| c.group(shell, pid, 0)).unwrap();
        world.with(0, |c| c.kill(0, pid as i32, signal::TERM)).unwrap();
        let group = processes::client::News::Group { pid, group: pid };
        let stop = processes::client::News::Stop { pid, signal: signal::TERM };
        assert_eq!([world.next(0), world.next(0)], [Some(stop), Some(group)]);
        if killed {
            world.with(0, |c| c.kill(0, pid as i32, signal::KILL)).unwrap();
        }
        let stop = if killed { signal::KILL } else { signal::TERM };
        assert_eq!(begun(&mut world, 0, pid), Missed { group: pid, stop: Some(stop) });
    }
}

#[test]
fn a_caller_that_has_lost_the_reply_cancels() {
    let mut world = World::new();
    let shell = world.shell();
    let (token, Reply { pid, .. }) = begin(&mut world, 0, shell, 0);
    let waits = world.park(0, wait(shell, -1), &mut []);
    world.tell(Event::Cancel(token));
    learns_of_no_child(&mut world, shell, waits);
    assert_eq!(world.about(pid), None);
    // One that has begun is not meant any more.
    let (token, Reply { pid, .. }) = begin(&mut world, 0, shell, 0);
    begun(&mut world, 0, pid);
    world.tell(Event::Cancel(token));
    assert_eq!(world.state(pid), Some(State::Running));
}

#[test]
fn a_cancel_that_comes_twice_does_not_remove_what_another_thread_starts() {
    let mut world = World::new();
    let (request, mut bulk) = spawn(0, 0, flag::WATCHED);
    let asker = world.park(0, request, &mut bulk);
    let pid = world.fetch(0);
    world.tell(Event::Cancel(asker));
    world.tell(Event::Cancel(asker));
    assert_eq!(world.state(pid), Some(State::Starting), "its kernel has been told to stop it");
    assert!(matches!(world.next(0), Some(processes::client::News::Stop { .. })));
}
