//! The keys that callers wait for: what one process tree leaves to others.

use crate::common::{Solo, receive, token};
use abi::net::HANDLES;
use abi::net::{
    Errno, Op, POLLS, Poll, RESERVED_WAITS, Reply, Request, SMALL_WAITS, SYSTEM_WAITS, TREE_WAITS,
    WAITS, flag, ready,
};
use base::id::{DomainId, Epoch};
use share::Event;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Parks a poll of `count` listeners to read and to write. `None`: it is parked.
fn poll(solo: &mut Solo, thread: u64, tree: u32, handles: &[u64]) -> Option<Reply> {
    let want = ready::READ | ready::WRITE;
    let mut polls: Vec<Poll> =
        handles.iter().map(|&handle| Poll { handle, want, ..Poll::default() }).collect();
    let length = size_of_val(&polls[..]) as u32;
    let request = Request { flags: flag::WAIT, length, tree, ..Request::new(Op::Poll, 0) };
    solo.ask(token(0, thread), request, polls.as_mut_bytes())
}

fn listeners(solo: &mut Solo, count: usize) -> Vec<u64> {
    (0..count).map(|_| solo.with(|c| c.listen(0, 1)).unwrap()).collect()
}

/// Lets threads from `first` on of process tree `tree` wait for a datagram, each on its own, until
/// one may not. Returns how many wait, and the error.
fn wait_until_refused(solo: &mut Solo, first: u64, tree: u32, handle: u64) -> (usize, Errno) {
    let ask = Request { tree, ..receive(handle, 1) };
    for more in 0.. {
        if let Some(reply) = solo.ask(token(1, first + more), ask, &mut [0]) {
            return (more as usize, reply.errno());
        }
    }
    unreachable!("there is a limit");
}

#[test]
fn a_tree_that_waits_for_all_it_can_leaves_keys_for_others() {
    let mut solo = Solo::new();
    let sockets = listeners(&mut solo, POLLS);
    let handle = solo.with(|c| c.udp(9)).unwrap();
    // Polls of as many sockets as a tree can have, to read and to write.
    let greedy = (0..64).take_while(|&thread| poll(&mut solo, thread, 7, &sockets).is_none());
    assert_eq!(greedy.count(), TREE_WAITS / (2 * POLLS));
    assert_eq!(poll(&mut solo, 99, 7, &sockets).unwrap().errno(), Errno::Nomem);
    assert_eq!(wait_until_refused(&mut solo, 100, 7, handle), (0, Errno::Nomem));
    // A stranger receives, and a second tree does not get the rest.
    let rest = WAITS - TREE_WAITS - RESERVED_WAITS - SYSTEM_WAITS;
    assert_eq!(wait_until_refused(&mut solo, 1_000, 8, handle), (rest, Errno::Nomem));
    // However many trees there are, the first waits of further ones, and those of the system.
    assert_eq!(wait_until_refused(&mut solo, 10_000, 9, handle), (SMALL_WAITS, Errno::Nomem));
    let others = (10..20)
        .map(|tree| wait_until_refused(&mut solo, 10_000 * u64::from(tree), tree, handle).0);
    assert_eq!(others.sum::<usize>(), RESERVED_WAITS - SMALL_WAITS);
    assert_eq!(wait_until_refused(&mut solo, 500_000, 0, handle), (SYSTEM_WAITS, Errno::Nomem));
    // All that wait are woken, and their keys are free again.
    solo.event(Event::Cancel(token(0, 0)));
    let again = 2 * POLLS - RESERVED_WAITS - SYSTEM_WAITS;
    assert_eq!(wait_until_refused(&mut solo, 2_000_000, 7, handle), (again, Errno::Nomem));
    solo.woken.clear();
    let near = solo.with(|c| c.udp(0)).unwrap();
    solo.with(|c| c.send_to(near, 9, &mut [1])).unwrap();
    assert_eq!(solo.woken.len(), again + WAITS - TREE_WAITS);
    solo.event(Event::Gone(DomainId(0), Epoch(1)));
    assert_eq!(solo.net.census()[3], 0);
}

#[test]
fn an_answer_or_a_cancel_gives_keys_back() {
    let mut solo = Solo::new();
    let sockets = listeners(&mut solo, POLLS);
    let all = TREE_WAITS / (2 * POLLS);
    for _ in 0..3 {
        (0..all as u64).for_each(|it| assert_eq!(poll(&mut solo, it, 7, &sockets), None));
        assert!(poll(&mut solo, 100, 7, &sockets).is_some());
        // A thread that asks again is charged once.
        assert_eq!(poll(&mut solo, 0, 7, &sockets), None);
        (0..all as u64).for_each(|it| {
            solo.event(Event::Cancel(token(0, it)));
        });
    }
    assert_eq!(solo.net.census()[3], 0);
}

/// Returns the shortest of several times in which the end of a kernel closes so many handles.
fn time_to_close(count: u32) -> Duration {
    let time = |_| {
        let mut solo = Solo::new();
        let first = solo.ask(token(1, 1), Request::new(Op::Udp, 0), &mut []).unwrap().handle;
        for _ in 1..count {
            let dup = solo.ask(token(1, 1), Request::new(Op::Dup, first), &mut []).unwrap();
            assert_eq!(dup.error, 0);
        }
        let begun = Instant::now();
        solo.event(Event::Gone(DomainId(1), Epoch(1)));
        let took = begun.elapsed();
        assert_eq!(solo.net.census()[0], 0);
        took
    };
    (0..7).map(time).min().unwrap()
}

#[test]
fn the_end_of_a_kernel_costs_as_much_as_its_handles_are() {
    let (few, many) = (time_to_close(HANDLES / 16), time_to_close(HANDLES));
    // 256 times as long, if each search begins at the first handle.
    assert!(many < few * 64, "{few:?} for {}, {many:?} for {HANDLES}", HANDLES / 16);
    println!("{few:?} for {}, {many:?} for {HANDLES}", HANDLES / 16);
}
