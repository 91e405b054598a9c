//! Watch: waiting for a change of the table.

use crate::common::*;
use abi::names::{Errno, Op, Request, WATCHES, lives};
use names::client::Client;
use share::Event;

#[test]
fn a_change_wakes_a_watcher_once() {
    let mut world = World::new();
    let (token, request) = world.watch(0, 5);
    assert_eq!(world.find("a"), Err(Errno::Noent));
    assert_eq!(world.take_woken(), [], "nothing has changed");
    let edition = world.add(1, "a", 1).unwrap();
    world.add(1, "b", 1).unwrap();
    assert_eq!(world.take_woken(), [token]);
    let reply = world.again(token, request, &mut []).unwrap();
    assert_eq!(reply.errno(), Errno::Success);
    assert!(reply.edition > edition, "both changes are in it");
    assert_eq!(world.service.census().1, 0);
}

#[test]
fn a_watcher_of_another_edition_is_answered_at_once() {
    let mut world = World::new();
    let now = world.edition();
    for edition in [0, now - 1, now + 1, u64::MAX] {
        assert_eq!(world.with(0, |client| client.watch(edition, 5)), Ok(now), "{edition}");
    }
}

#[test]
fn each_kind_of_change_wakes_watchers() {
    let mut world = World::new();
    type Change = fn(&mut World);
    let changes: [Change; 5] = [
        |world| world.add(1, "a", 1).map(drop).unwrap(),
        |world| world.with(1, |client| client.remove(name("a"), 1)).unwrap(),
        |world| {
            world.add(1, "b", 1).unwrap();
            world.take_woken();
            world.watch(0, 5);
            assert_eq!(world.with(1, |client| client.close(1)), Ok(1));
        },
        |world| {
            world.add(1, "c", 1).unwrap();
            world.take_woken();
            world.watch(0, 5);
            world.gone(1);
        },
        |world| {
            world.add(2, "d", 1).unwrap();
            world.take_woken();
            world.watch(0, 5);
            // A request of a new life ends the old one, whatever comes of the request.
            world.epochs[2] = 2;
            assert_eq!(world.errno(2, Request::new(Op::Find)), Errno::Inval);
        },
    ];
    for change in changes {
        world.watch(0, 5);
        change(&mut world);
        assert_eq!(world.take_woken().len(), 1);
        assert_eq!(world.service.census().1, 0);
    }
    assert_eq!(world.list(), []);
}

#[test]
fn a_caller_that_gives_up_is_not_woken() {
    let mut world = World::new();
    let (token, _) = world.watch(0, 5);
    world.tell(Event::Cancel(token));
    assert_eq!(world.service.census().1, 0);
    world.add(1, "a", 1).unwrap();
    assert_eq!(world.take_woken(), []);
}

#[test]
fn a_caller_of_a_dead_kernel_is_not_woken() {
    let mut world = World::new();
    let (dead, (token, _)) = (world.watch(2, 5), world.watch(0, 5));
    world.gone(2);
    world.add(1, "a", 1).unwrap();
    assert_eq!((world.take_woken(), dead.0.kernel), (vec![token], 2));
}

#[test]
fn a_watcher_that_looks_for_itself_stays_parked() {
    let mut world = World::new();
    let (token, request) = world.watch(0, 5);
    for _ in 0..200 {
        assert_eq!(world.again(token, request, &mut []), None);
    }
    assert_eq!(world.service.census().1, 1);
}

#[test]
fn a_watcher_learns_that_the_table_has_restarted() {
    let mut old = World::of_life(3);
    old.add(1, "a", 1).unwrap();
    let (token, request) = old.watch(0, 5);
    let mut new = World::of_life(4);
    let reply = new.again(token, request, &mut []).unwrap();
    assert!(reply.edition > request.edition);
    assert_eq!((lives(request.edition), lives(reply.edition)), (3, 4));
}

#[test]
fn a_watcher_of_the_life_is_not_woken_by_changes() {
    let mut world = World::of_life(3);
    let edition = world.add(1, "a", 1).unwrap();
    let request = |edition| Request { edition, ..Request::new(Op::WatchLife) };
    let token = world.token(0);
    assert_eq!(world.ask(token, request(edition), &mut []), None);
    world.add(1, "b", 1).unwrap();
    world.gone(1);
    assert_eq!((world.take_woken(), world.service.census()), (vec![], (0, 0)));
    assert_eq!(world.again(token, request(edition), &mut []), None, "the same life");
    world.tell(Event::Cancel(token));
    for other in [0, edition - (1 << 32), edition + (1 << 32), u64::MAX] {
        let now = world.edition();
        assert_eq!(world.with(0, |client| client.watch_life(other)), Ok(now));
    }
    let reply = World::of_life(4).again(token, request(edition), &mut []).unwrap();
    assert_eq!((reply.errno(), lives(reply.edition)), (Errno::Success, 4));
}

#[test]
fn any_number_of_callers_watch_the_life() {
    let mut world = World::new();
    let request = Request { edition: world.edition(), ..Request::new(Op::WatchLife) };
    for kernel in (0..3).cycle().take(3 * WATCHES) {
        let token = world.token(kernel);
        assert_eq!(world.ask(token, request, &mut []), None);
    }
    world.watch(0, 5);
}

#[test]
fn a_caller_waits_for_a_name_over_other_changes() {
    let (mut world, mut waits) = (World::new(), 0);
    let mut carry = |request: Request, bulk: &mut [u8]| {
        let token = world.token(0);
        world.ask(token, request, bulk).unwrap_or_else(|| {
            waits += 1;
            world.add(1, if waits < 3 { ["b", "c"][waits - 1] } else { "storage" }, 7).unwrap();
            assert_eq!(world.take_woken(), [token]);
            world.again(token, request, bulk).unwrap()
        })
    };
    let found = Client(&mut carry).wait_for(name("storage"), 5).unwrap();
    assert_eq!((found.kernel, found.door, waits), (1, 7, 3));
}
