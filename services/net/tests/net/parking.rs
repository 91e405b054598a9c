//! Waiting callers in two kernels: wake, cancel, death, restart.

use crate::common::{Solo, connect, hasty, receive, send, token};
use abi::net::{Errno, Op, Poll, Request, State, ready};
use base::id::{DomainId, Epoch};
use net::Net;
use net::budget::LARGEST;
use share::{Event, Service};
use zerocopy::IntoBytes;

#[test]
fn waiters_are_woken_in_order_and_the_first_to_ask_gets_the_data() {
    let mut solo = Solo::new();
    let (_, _, near, far) = solo.connection();
    let (strong, weak) = (token(0, 1), token(1, 1));
    let mut bulk = [0; 10];
    // The weak kernel waits first; the strong one created the socket.
    assert_eq!(solo.ask(weak, receive(far, 10), &mut bulk), None);
    assert_eq!(solo.ask(strong, receive(far, 10), &mut bulk), None);
    assert_eq!(solo.woken, []);
    solo.with(|c| c.send(near, &mut [7; 4])).unwrap();
    assert_eq!(solo.woken, [weak, strong]);
    let reply = solo.again(strong, receive(far, 10), &mut bulk).unwrap();
    assert_eq!((reply.filled, &bulk[..5]), (4, &[7, 7, 7, 7, 0][..]));
    assert_eq!(solo.again(weak, receive(far, 10), &mut bulk), None, "it waits again");
    solo.woken.clear();
    solo.with(|c| c.shut(near)).unwrap();
    assert_eq!(solo.woken, [weak]);
    assert_eq!(solo.again(weak, receive(far, 10), &mut bulk).unwrap().filled, 0);
}

#[test]
fn a_datagram_wakes_its_receiver_and_one_too_large_is_refused() {
    let mut solo = Solo::new();
    let (near, far) = solo.with(|c| (c.udp(0).unwrap(), c.udp(7).unwrap()));
    let mut bulk = [0; 2000];
    assert_eq!(solo.ask(token(1, 1), receive(far, 10), &mut bulk), None);
    assert_eq!(solo.with(|c| c.send_to(near, 7, &mut [1; 2000])), Err(Errno::Msgsize));
    assert_eq!(solo.with(|c| c.udp(7)), Err(Errno::Addrinuse));
    solo.with(|c| c.send_to(near, 7, &mut [1; 20])).unwrap();
    assert_eq!(solo.woken, [token(1, 1)]);
    let reply = solo.again(token(1, 1), receive(far, 10), &mut bulk).unwrap();
    assert_eq!((reply.filled, reply.value), (10, 20));
    // A socket without a port gets one when it sends, and a reply arrives there.
    let fresh = solo.ask(token(1, 1), Request::new(Op::Udp, 0), &mut []).unwrap().handle;
    solo.with(|c| c.send_to(fresh, 7, &mut [5; 3])).unwrap();
    let (_, port) = solo.with(|c| c.receive_from(far, &mut bulk)).unwrap();
    assert_eq!(solo.with(|c| c.port(fresh)), Ok(port));
    solo.with(|c| c.send_to(far, port, &mut [6; 3])).unwrap();
    assert_eq!(solo.with(|c| c.receive_from(fresh, &mut bulk)), Ok((3, 7)));
}

#[test]
fn an_accept_waits_for_a_connect_from_another_kernel() {
    let mut solo = Solo::new();
    let listener = solo.with(|c| c.listen(80, 2)).unwrap();
    let accept = Request::new(Op::Accept, listener);
    assert_eq!(solo.ask(token(0, 1), accept, &mut []), None);
    let fresh = solo.ask(token(1, 2), Request::new(Op::Tcp, 0), &mut []).unwrap().handle;
    let own = solo.ask(token(1, 2), connect(fresh, 80), &mut []).unwrap();
    assert_eq!((own.errno(), solo.woken.clone()), (Errno::Success, vec![token(0, 1)]));
    let reply = solo.again(token(0, 1), accept, &mut []).unwrap();
    assert_eq!(reply.port, own.port);
    assert_eq!(solo.state(reply.handle), State::Connected);
    assert_eq!(solo.ask(token(0, 1), hasty(accept), &mut []).unwrap().errno(), Errno::Again);
}

#[test]
fn a_full_stream_waits_until_the_peer_reads() {
    let mut solo = Solo::new();
    let (_, _, near, far) = solo.connection();
    let mut sent = 0;
    while let Ok(some) = solo.with(|c| c.send(near, &mut [3; 5000])) {
        sent += some;
    }
    assert_eq!(sent, 2 * LARGEST);
    let (weak, mut bulk) = (token(1, 1), vec![4; 100]);
    assert_eq!(solo.ask(weak, send(near, 100), &mut bulk), None);
    let mut received = 0;
    while solo.woken.is_empty() {
        let mut into = vec![0; 1000];
        received += solo.with(|c| c.receive(far, &mut into)).expect("there is more");
    }
    assert!(received <= sent);
    assert_eq!(solo.again(weak, send(near, 100), &mut bulk).unwrap().value, 100);
}

#[test]
fn a_peer_that_reads_little_does_not_wake_the_sender_each_time() {
    let mut solo = Solo::new();
    let (_, _, near, far) = solo.connection();
    while solo.with(|c| c.send(near, &mut [3; 5000])).is_ok() {}
    let room = |solo: &mut Solo| {
        let mut poll = Poll { handle: near, want: ready::WRITE, ..Poll::default() };
        let request = Request { length: size_of::<Poll>() as u32, ..Request::new(Op::Poll, 0) };
        solo.ask(token(1, 1), request, poll.as_mut_bytes()).unwrap();
        if poll.got == ready::WRITE { poll.bytes } else { 0 }
    };
    let mut reads = 0;
    while room(&mut solo) == 0 {
        assert_eq!(solo.with(|c| c.receive(far, &mut [0; 7])), Ok(7));
        reads += 1;
    }
    assert!(room(&mut solo) >= LARGEST as u64 / 3 && reads > 300, "{reads}");
}

#[test]
fn a_cancelled_or_dead_caller_is_not_woken() {
    let mut solo = Solo::new();
    let (_, _, near, far) = solo.connection();
    for thread in 1..4 {
        assert_eq!(solo.ask(token(1, thread), receive(far, 1), &mut [0]), None);
    }
    assert_eq!(solo.ask(token(2, 9), receive(far, 1), &mut [0]), None);
    solo.event(Event::Cancel(token(1, 2)));
    solo.event(Event::Gone(DomainId(2), Epoch(1)));
    solo.event(Event::Gone(DomainId(1), Epoch(7)));
    solo.with(|c| c.send(near, &mut [1])).unwrap();
    assert_eq!(solo.woken, [token(1, 1), token(1, 3)]);
}

#[test]
fn the_sockets_of_a_dead_kernel_are_closed_and_their_peers_reset() {
    let mut solo = Solo::new();
    let listener = solo.with(|c| c.listen(80, 4)).unwrap();
    let mut theirs = Vec::new();
    for thread in 0..3 {
        let fresh = solo.ask(token(1, thread), Request::new(Op::Tcp, 0), &mut []).unwrap().handle;
        assert_eq!(solo.ask(token(1, thread), connect(fresh, 80), &mut []).unwrap().error, 0);
        theirs.push(fresh);
    }
    let ours = solo.with(|c| c.accept(listener)).unwrap();
    solo.with(|c| c.send(theirs[0], &mut [5; 9])).unwrap();
    assert_eq!(solo.ask(token(0, 1), receive(ours, 20), &mut [0; 20]).unwrap().filled, 9);
    assert_eq!(solo.ask(token(0, 1), receive(ours, 20), &mut [0; 20]), None);
    solo.event(Event::Gone(DomainId(1), Epoch(1)));
    assert_eq!(solo.woken, [token(0, 1)]);
    let reply = solo.again(token(0, 1), receive(ours, 20), &mut [0; 20]).unwrap();
    assert_eq!(reply.errno(), Errno::Connreset);
    assert_eq!(solo.with(|c| c.send(theirs[0], &mut [1])), Err(Errno::Badf));
    for _ in 0..2 {
        let handle = solo.with(|c| c.accept(listener)).unwrap();
        solo.with(|c| c.close(handle)).unwrap();
    }
    solo.with(|c| c.close(ours).and(c.close(listener))).unwrap();
    assert_eq!(solo.net.census(), [0, 0, 0, 0]);
}

#[test]
fn a_caller_that_waits_with_a_handle_of_a_dead_kernel_is_woken() {
    let mut solo = Solo::new();
    let (_, _, near, _) = solo.connection();
    let theirs = solo.ask(token(1, 1), Request::new(Op::Dup, near), &mut []).unwrap().handle;
    assert_eq!(solo.ask(token(0, 5), receive(theirs, 4), &mut [0; 4]), None);
    solo.event(Event::Gone(DomainId(1), Epoch(1)));
    assert_eq!(solo.woken, [token(0, 5)]);
    let reply = solo.again(token(0, 5), receive(theirs, 4), &mut [0; 4]).unwrap();
    assert_eq!(reply.errno(), Errno::Badf);
}

#[test]
fn handles_of_an_earlier_life_are_restarted() {
    let mut solo = Solo::new();
    let (listener, _, near, _) = solo.connection();
    solo.net = Net::start(2);
    assert_eq!(solo.with(|c| c.send(near, &mut [1])), Err(Errno::Restarted));
    assert_eq!(solo.with(|c| c.accept(listener)), Err(Errno::Restarted));
    let again = solo.with(|c| c.listen(0, 1)).unwrap();
    solo.with(|c| c.close(again)).unwrap();
    assert_eq!(solo.with(|c| c.close(again)), Err(Errno::Badf));
}
