//! Duplicates, polls, names, options, flags, peeks.

use crate::common::{Solo, connect, hasty, receive, token};
use abi::net::{Errno, LOCALHOST, Op, Poll, Reply, Request, State, flag, option, ready, shut, v4};
use zerocopy::{FromBytes, IntoBytes};

fn ask(solo: &mut Solo, request: Request) -> Reply {
    solo.ask(token(0, 0), request, &mut []).expect("it does not wait")
}

/// Polls handles for conditions; `None`: the caller was parked.
fn poll(solo: &mut Solo, thread: u64, list: &[(u64, u16)], flags: u16) -> Option<Vec<Poll>> {
    let polls: Vec<Poll> =
        list.iter().map(|&(handle, want)| Poll { handle, want, ..Poll::default() }).collect();
    let mut bulk = polls.as_bytes().to_vec();
    let request = Request { flags, length: bulk.len() as u32, ..Request::new(Op::Poll, 0) };
    let reply = solo.ask(token(0, thread), request, &mut bulk)?;
    assert_eq!((reply.error, reply.filled as usize), (0, bulk.len()));
    let polls: Vec<Poll> =
        bulk.chunks(size_of::<Poll>()).map(|one| Poll::read_from_bytes(one).unwrap()).collect();
    let count = polls.iter().filter(|poll| poll.got != 0 || poll.error != 0).count();
    assert_eq!(reply.value as usize, count);
    Some(polls)
}

#[test]
fn a_socket_ends_with_its_last_handle() {
    let mut solo = Solo::new();
    let (_, _, near, far) = solo.connection();
    let second = ask(&mut solo, Request::new(Op::Dup, near)).handle;
    solo.with(|c| c.close(near)).unwrap();
    assert_eq!(solo.with(|c| c.send(near, &mut [1])), Err(Errno::Badf));
    solo.with(|c| c.send(second, &mut [1, 2])).unwrap();
    let mut bulk = [0; 4];
    assert_eq!(solo.with(|c| c.receive(far, &mut bulk)), Ok(2));
    // A caller that waits with a handle learns that it is closed.
    assert_eq!(solo.ask(token(0, 5), receive(second, 4), &mut bulk), None);
    let third = ask(&mut solo, Request::new(Op::Dup, second)).handle;
    solo.with(|c| c.close(second)).unwrap();
    assert_eq!(solo.woken, [token(0, 5)]);
    let reply = solo.again(token(0, 5), receive(second, 4), &mut bulk).unwrap();
    assert_eq!(reply.errno(), Errno::Badf);
    solo.with(|c| c.close(third)).unwrap();
    assert_eq!(solo.with(|c| c.receive(far, &mut bulk)), Ok(0));
}

#[test]
fn a_poll_reports_what_is_ready_and_waits_for_any() {
    let mut solo = Solo::new();
    let listener = solo.with(|c| c.listen(80, 8)).unwrap();
    let udp = solo.with(|c| c.udp(7)).unwrap();
    let all = [(listener, ready::READ), (udp, ready::READ), (udp, ready::WRITE)];
    let found = poll(&mut solo, 1, &all, 0).unwrap();
    assert_eq!(found.iter().map(|poll| poll.got).collect::<Vec<_>>(), [0, 0, ready::WRITE]);
    assert_eq!(poll(&mut solo, 1, &all[..2], flag::WAIT), None);
    let near = solo.with(|c| c.connect(80)).unwrap();
    assert_eq!(solo.woken, [token(0, 1)]);
    let found = poll(&mut solo, 1, &all[..2], flag::WAIT).unwrap();
    assert_eq!((found[0].got, found[0].bytes, found[1].got), (ready::READ, 1, 0));
    let far = solo.with(|c| c.accept(listener)).unwrap();
    assert_eq!(poll(&mut solo, 2, &[(listener, 3), (far, ready::READ)], flag::WAIT), None);
    solo.woken.clear();
    solo.with(|c| c.send(near, &mut [5; 7])).unwrap();
    assert_eq!(solo.woken, [token(0, 2)]);
    let found = poll(&mut solo, 2, &[(far, ready::READ)], 0).unwrap();
    assert_eq!((found[0].got, found[0].bytes), (ready::READ, 7));
    solo.with(|c| c.receive(far, &mut [0; 9])).unwrap();
    assert_eq!(poll(&mut solo, 2, &[(far, ready::READ)], flag::WAIT), None);
    solo.woken.clear();
    solo.with(|c| c.close(near)).unwrap();
    assert_eq!(solo.woken, [token(0, 2)], "the end");
    let found = poll(&mut solo, 2, &[(far, ready::READ), (near, ready::READ)], 0).unwrap();
    assert_eq!((found[0].got, found[0].bytes), (ready::READ, 0));
    assert_eq!(found[1].error, Errno::Badf as u16);
    for length in [0, 23, 24 * 129] {
        let request = Request { length, ..Request::new(Op::Poll, 0) };
        let reply = solo.ask(token(0, 1), request, &mut [0; 4000]).unwrap();
        assert_eq!(reply.errno(), Errno::Inval);
    }
}

#[test]
fn the_flag_of_a_socket_holds_for_all_its_handles() {
    let mut solo = Solo::new();
    let (listener, _, near, _) = solo.connection();
    let second = ask(&mut solo, Request::new(Op::Dup, near)).handle;
    let set = Request { flags: flag::NONBLOCK, ..Request::new(Op::SetFlags, near) };
    assert_eq!(ask(&mut solo, set).error, 0);
    assert_eq!(ask(&mut solo, Request::new(Op::State, second)).flags, flag::NONBLOCK);
    let reply = solo.ask(token(0, 1), receive(second, 4), &mut [0; 4]).unwrap();
    assert_eq!(reply.errno(), Errno::Again);
    assert_eq!(ask(&mut solo, Request::new(Op::SetFlags, near)).error, 0);
    assert_eq!(solo.ask(token(0, 1), receive(second, 4), &mut [0; 4]), None);
    assert_eq!(ask(&mut solo, hasty(Request::new(Op::Accept, listener))).errno(), Errno::Again);
}

#[test]
fn both_ends_have_names() {
    let mut solo = Solo::new();
    let (listener, port, near, far) = solo.connection();
    let own = ask(&mut solo, Request::new(Op::State, near));
    let peer = ask(&mut solo, Request::new(Op::Peer, far));
    assert_eq!((peer.address, peer.port), (LOCALHOST, own.port));
    let peer = ask(&mut solo, Request::new(Op::Peer, near));
    assert_eq!((peer.address, peer.port), (LOCALHOST, port));
    assert_eq!(ask(&mut solo, Request::new(Op::Peer, listener)).errno(), Errno::Notconn);
    let elsewhere = Request { address: v4([10, 0, 0, 1]), ..Request::new(Op::Bind, near) };
    assert_eq!(ask(&mut solo, elsewhere).errno(), Errno::Addrnotavail);
}

#[test]
fn a_connected_datagram_socket_knows_its_peer_alone() {
    let mut solo = Solo::new();
    let fresh = ask(&mut solo, Request::new(Op::Udp, 0)).handle;
    let (friend, other) = solo.with(|c| (c.udp(7).unwrap(), c.udp(8).unwrap()));
    let mut bulk = [0; 9];
    let send = Request { length: 1, ..Request::new(Op::Send, fresh) };
    let reply = solo.ask(token(0, 0), send, &mut [1]).unwrap();
    assert_eq!(reply.errno(), Errno::Destaddrreq);
    let port = ask(&mut solo, connect(fresh, 7)).port;
    assert_eq!(solo.ask(token(0, 0), send, &mut [1]).unwrap().value, 1);
    assert_eq!(solo.with(|c| c.receive_from(friend, &mut bulk)), Ok((1, port)));
    solo.with(|c| c.send_to(other, port, &mut [2; 2]).and(c.send_to(friend, port, &mut [3; 3])))
        .unwrap();
    assert_eq!(solo.with(|c| c.receive_from(fresh, &mut bulk)), Ok((3, 7)));
    assert_eq!(solo.with(|c| c.receive_from(fresh, &mut bulk)), Err(Errno::Again));
}

#[test]
fn a_peek_leaves_the_data() {
    let mut solo = Solo::new();
    let (_, _, near, far) = solo.connection();
    let (from, to) = solo.with(|c| (c.udp(0).unwrap(), c.udp(9).unwrap()));
    solo.with(|c| c.send(near, &mut [4; 5]).and(c.send_to(from, 9, &mut [6; 3]).map(|()| 0)))
        .unwrap();
    for (handle, count) in [(far, 5), (to, 3)] {
        let peek = Request { flags: flag::PEEK, ..receive(handle, 9) };
        for request in [peek, peek, receive(handle, 9)] {
            assert_eq!(solo.ask(token(0, 0), request, &mut [0; 9]).unwrap().filled, count);
        }
        assert_eq!(solo.ask(token(0, 1), peek, &mut [0; 9]), None);
    }
}

#[test]
fn each_direction_of_a_stream_can_be_shut() {
    let mut solo = Solo::new();
    let (_, _, near, far) = solo.connection();
    assert_eq!(solo.ask(token(0, 3), receive(far, 4), &mut [0; 4]), None);
    let how = |value| Request { value, ..Request::new(Op::Shut, far) };
    assert_eq!(ask(&mut solo, how(shut::READ)).error, 0);
    assert_eq!(solo.woken, [token(0, 3)]);
    assert_eq!(solo.again(token(0, 3), receive(far, 4), &mut [0; 4]).unwrap().value, 0);
    solo.with(|c| c.send(far, &mut [1; 3])).unwrap();
    assert_eq!(solo.with(|c| c.receive(near, &mut [0; 9])), Ok(3));
    assert_eq!(ask(&mut solo, how(shut::WRITE)).error, 0);
    assert_eq!(solo.with(|c| c.send(far, &mut [1; 3])), Err(Errno::Pipe));
    assert_eq!(solo.with(|c| c.receive(near, &mut [0; 9])), Ok(0));
    for value in [0, 4, 7] {
        assert_eq!(ask(&mut solo, how(value)).errno(), Errno::Inval);
    }
}

#[test]
fn options_are_kept_and_unknown_ones_refused() {
    let mut solo = Solo::new();
    let (listener, _, near, far) = solo.connection();
    let get = |option, handle| Request { option, ..Request::new(Op::GetOption, handle) };
    let set = |option, value| Request { option, value, ..Request::new(Op::SetOption, near) };
    for option in [option::REUSEADDR, option::NODELAY, option::KEEPALIVE, option::BROADCAST] {
        for value in [1, 0, 7] {
            assert_eq!(ask(&mut solo, set(option, value)).error, 0);
            let kept = ask(&mut solo, get(option, near)).value;
            assert_eq!(kept, u64::from(value != 0));
        }
    }
    assert_eq!(ask(&mut solo, get(option::RCVBUF, near)).value, net::budget::LARGEST as u64);
    assert_eq!(ask(&mut solo, get(option::ACCEPTCONN, listener)).value, 1);
    assert_eq!(ask(&mut solo, get(option::ERROR, near)).value, 0);
    for option in [0, option::V6ONLY, 10, 15, 16, u16::MAX] {
        assert_eq!(ask(&mut solo, get(option, near)).errno(), Errno::Noprotoopt);
        assert_eq!(ask(&mut solo, set(option, 1)).errno(), Errno::Noprotoopt);
    }
    assert_eq!(ask(&mut solo, set(option::ERROR, 1)).errno(), Errno::Noprotoopt);
    // Data that were not read: closing resets the peer, which learns of it once.
    solo.with(|c| c.send(near, &mut [1]).and(c.close(far).map(|()| 0))).unwrap();
    assert_eq!(solo.state(near), State::Reset);
    let error = ask(&mut solo, get(option::ERROR, near)).value;
    assert_eq!(error, Errno::Connreset as u64);
    assert_eq!(ask(&mut solo, get(option::ERROR, near)).value, 0);
}

#[test]
fn a_peek_finds_the_end_of_a_stream() {
    let mut solo = Solo::new();
    let (_, _, near, far) = solo.connection();
    solo.with(|c| c.shut(far)).unwrap();
    let peek = Request { flags: flag::PEEK, length: 9, ..Request::new(Op::Receive, near) };
    let reply = solo.ask(token(0, 1), peek, &mut [0; 9]).expect("it does not wait");
    assert_eq!((reply.error, reply.filled), (0, 0));
}
