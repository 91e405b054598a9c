//! Rarer cases, in which the service does what POSIX says, or Linux does.

use crate::common::{Solo, connect, receive, token};
use abi::net::{Errno, Op, Poll, Reply, Request, State, flag, option, ready};
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
