//! Rarer cases, in which the service does what POSIX says, or Linux does.

use crate::common::{Solo, connect, receive, send, token};
use abi::net::{Errno, LOCALHOST, Op, Poll, Reply, Request, State, flag, option, ready, shut};
use zerocopy::{FromBytes, IntoBytes};

fn ask(solo: &mut Solo, request: Request) -> Reply {
    solo.ask(token(0, 0), request, &mut []).expect("it does not wait")
}

/// Polls a handle; `None`: the caller was parked.
fn poll(solo: &mut Solo, handle: u64, want: u16, flags: u16) -> Option<u16> {
    let mut poll = Poll { handle, want, ..Poll::default() };
    let length = size_of::<Poll>() as u32;
    let request = Request { flags, length, ..Request::new(Op::Poll, 0) };
    let thread = if flags == flag::WAIT { 9 } else { 8 };
    assert_eq!(solo.ask(token(0, thread), request, poll.as_mut_bytes())?.error, 0);
    Some(Poll::read_from_bytes(poll.as_bytes()).unwrap().got)
}

/// Returns a stream whose peer has reset it.
fn reset(solo: &mut Solo) -> u64 {
    let (_, _, near, far) = solo.connection();
    // Data that were not read.
    solo.with(|c| c.send(near, &mut [1]).and(c.close(far).map(|()| 0))).unwrap();
    assert_eq!(solo.state(near), State::Reset);
    near
}

#[test]
fn datagrams_of_others_neither_wake_nor_crowd_a_connected_socket() {
    let mut solo = Solo::new();
    let (near, friend, other) = solo.with(|c| {
        let udp = [c.udp(0), c.udp(7), c.udp(8)];
        (udp[0].unwrap(), udp[1].unwrap(), udp[2].unwrap())
    });
    // One that came before it was connected is not received either.
    let port = solo.with(|c| c.port(near)).unwrap();
    solo.with(|c| c.send_to(other, port, &mut [9])).unwrap();
    assert_eq!(ask(&mut solo, connect(near, 7)).error, 0);
    assert_eq!(poll(&mut solo, near, ready::READ, flag::WAIT), None);
    for _ in 0..40 {
        solo.with(|c| c.send_to(other, port, &mut [2; 1000])).unwrap();
    }
    assert_eq!(solo.woken, []);
    assert_eq!(poll(&mut solo, near, ready::READ, 0), Some(0));
    let mut into = [0; 4];
    assert_eq!(solo.ask(token(0, 3), receive(near, 4), &mut into), None);
    solo.with(|c| c.send_to(friend, port, &mut [3; 3])).unwrap();
    assert_eq!(solo.woken, [token(0, 9), token(0, 3)]);
    assert_eq!(solo.with(|c| c.receive_from(near, &mut into)), Ok((3, 7)));
    assert_eq!(solo.with(|c| c.receive_from(near, &mut into)), Err(Errno::Again));
}

#[test]
fn a_reset_is_reported_once() {
    let mut solo = Solo::new();
    let mut into = [0; 4];
    let near = reset(&mut solo);
    assert_eq!(solo.with(|c| c.receive(near, &mut into)), Err(Errno::Connreset));
    for _ in 0..2 {
        assert_eq!(solo.with(|c| c.receive(near, &mut into)), Ok(0));
        assert_eq!(solo.with(|c| c.send(near, &mut [1])), Err(Errno::Pipe));
    }
    let near = reset(&mut solo);
    assert_eq!(solo.with(|c| c.send(near, &mut [1])), Err(Errno::Connreset));
    assert_eq!(solo.with(|c| c.send(near, &mut [1])), Err(Errno::Pipe));
    assert_eq!(solo.with(|c| c.receive(near, &mut into)), Ok(0));
    let near = reset(&mut solo);
    let error = Request { option: option::ERROR, ..Request::new(Op::GetOption, near) };
    assert_eq!(ask(&mut solo, error).value, Errno::Connreset as u64);
    assert_eq!(solo.with(|c| c.receive(near, &mut into)), Ok(0));
}

#[test]
fn a_poll_for_nothing_reports_the_end_alone() {
    let mut solo = Solo::new();
    let (listener, _, near, far) = solo.connection();
    let datagrams = solo.with(|c| c.udp(7)).unwrap();
    solo.with(|c| c.send(far, &mut [1]).and(c.send_to(datagrams, 7, &mut [1]).map(|()| 0)))
        .unwrap();
    for handle in [listener, near, far, datagrams] {
        assert_eq!(poll(&mut solo, handle, 0, 0), Some(0));
    }
    assert_eq!(poll(&mut solo, near, 0, flag::WAIT), None);
    solo.with(|c| c.send(far, &mut [2]).and(c.shut(far).map(|()| 0))).unwrap();
    assert_eq!(solo.woken, [], "its own direction is open");
    solo.with(|c| c.shut(near)).unwrap();
    assert_eq!(solo.woken, [token(0, 9)]);
    assert_eq!(poll(&mut solo, near, 0, flag::WAIT), Some(ready::HANGUP));
    let near = reset(&mut solo);
    assert_eq!(poll(&mut solo, near, 0, flag::WAIT), Some(ready::HANGUP));
}

#[test]
fn listening_again_changes_the_backlog() {
    let mut solo = Solo::new();
    let listener = solo.with(|c| c.listen(80, 1)).unwrap();
    solo.with(|c| c.connect(80)).unwrap();
    assert_eq!(solo.with(|c| c.connect(80)), Err(Errno::Connrefused));
    let listen = |backlog| Request { backlog, ..Request::new(Op::Listen, listener) };
    let reply = ask(&mut solo, listen(3));
    assert_eq!((reply.errno(), reply.port), (Errno::Success, 80));
    let (_second, _third) = solo.with(|c| (c.connect(80).unwrap(), c.connect(80).unwrap()));
    assert_eq!(solo.with(|c| c.connect(80)), Err(Errno::Connrefused));
    // Those that wait stay.
    assert_eq!(ask(&mut solo, listen(1)).errno(), Errno::Success);
    for _ in 0..3 {
        solo.with(|c| c.accept(listener)).unwrap();
    }
    solo.with(|c| c.connect(80)).unwrap();
    assert_eq!(solo.with(|c| c.connect(80)), Err(Errno::Connrefused));
}

#[test]
fn a_listener_that_is_shut_listens_no_more() {
    let mut solo = Solo::new();
    let listener = solo.with(|c| c.listen(80, 2)).unwrap();
    let waiting = solo.with(|c| c.connect(80)).unwrap();
    let shut = |value| Request { value, ..Request::new(Op::Shut, listener) };
    assert_eq!(ask(&mut solo, shut(shut::WRITE)).errno(), Errno::Success);
    let accepted = solo.with(|c| c.accept(listener)).unwrap();
    // Connections that were not accepted are reset, those that were continue.
    let second = solo.with(|c| c.connect(80)).unwrap();
    assert_eq!(ask(&mut solo, shut(shut::READ)).errno(), Errno::Success);
    assert_eq!(solo.state(second), State::Reset);
    assert_eq!(solo.with(|c| c.connect(80)), Err(Errno::Connrefused));
    assert_eq!(solo.ask(token(0, 1), send(accepted, 1), &mut [1]).unwrap().value, 1);
    assert_eq!(solo.with(|c| c.receive(waiting, &mut [0; 4])), Ok(1));
    assert_eq!(ask(&mut solo, shut(shut::READ)).errno(), Errno::Notconn);
    // It can listen again. A caller that waits there fails when it is shut.
    let listen = Request { port: 80, backlog: 1, ..Request::new(Op::Listen, listener) };
    assert_eq!(ask(&mut solo, listen).errno(), Errno::Success);
    assert_eq!(solo.ask(token(0, 4), Request::new(Op::Accept, listener), &mut []), None);
    ask(&mut solo, shut(shut::READ));
    assert_eq!(solo.woken, [token(0, 4)]);
    let reply = solo.again(token(0, 4), Request::new(Op::Accept, listener), &mut []).unwrap();
    assert_eq!(reply.errno(), Errno::Inval);
    // One that was bound keeps its port.
    let bound = ask(&mut solo, Request::new(Op::Tcp, 0)).handle;
    let bind = Request { address: LOCALHOST, port: 81, ..Request::new(Op::Bind, bound) };
    ask(&mut solo, bind);
    ask(&mut solo, Request::new(Op::Listen, bound));
    ask(&mut solo, Request { value: shut::READ, ..Request::new(Op::Shut, bound) });
    assert_eq!(ask(&mut solo, Request::new(Op::State, bound)).port, 81);
}
