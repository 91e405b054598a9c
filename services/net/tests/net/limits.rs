//! Every table has a limit, and reaching it is an error.

use crate::common::{Solo, connect, hasty, token};
use abi::net::{BACKLOG, Errno, HANDLES, LOCALHOST, Op, Request, State, TREE_HANDLES, v4};
use net::budget::SOCKETS;
use net::client::Client;
use net::listener::RESERVED;
use net::sockets::SMALL;

#[test]
fn a_connect_without_a_listener_or_with_a_full_backlog_is_refused() {
    let mut solo = Solo::new();
    assert_eq!(solo.with(|c| c.connect(80)), Err(Errno::Connrefused));
    let listener = solo.with(|c| c.listen(80, 2)).unwrap();
    let (first, second) = solo.with(|c| (c.connect(80).unwrap(), c.connect(80).unwrap()));
    assert_eq!(solo.with(|c| c.connect(80)), Err(Errno::Connrefused));
    // A refused handle may try again.
    let fresh = solo.ask(token(0, 0), Request::new(Op::Tcp, 0), &mut []).unwrap().handle;
    let try_it = |solo: &mut Solo| solo.ask(token(0, 0), connect(fresh, 80), &mut []).unwrap();
    assert_eq!(try_it(&mut solo).errno(), Errno::Connrefused);
    // Accepted in order of arrival.
    for (near, byte) in [(first, 1), (second, 2)] {
        solo.with(|c| c.send(near, &mut [byte])).unwrap();
    }
    for byte in [1, 2] {
        let far = solo.with(|c| c.accept(listener)).unwrap();
        let mut into = [0; 4];
        assert_eq!(solo.with(|c| c.receive(far, &mut into)), Ok(1));
        assert_eq!(into[0], byte);
    }
    assert_eq!(try_it(&mut solo).errno(), Errno::Success);
    assert_eq!(try_it(&mut solo).errno(), Errno::Isconn);
    assert_eq!(solo.with(|c| c.listen(80, 1)), Err(Errno::Addrinuse));
    // It was not accepted, so closing the listener resets it.
    solo.with(|c| c.close(listener)).unwrap();
    assert_eq!(solo.state(fresh), State::Reset);
    assert_eq!(solo.with(|c| c.receive(fresh, &mut [0; 4])), Err(Errno::Connreset));
    assert_eq!(solo.with(|c| c.send(fresh, &mut [0; 4])), Err(Errno::Pipe));
}

#[test]
fn other_hosts_are_unreachable() {
    let mut solo = Solo::new();
    let fresh = solo.ask(token(0, 0), Request::new(Op::Tcp, 0), &mut []).unwrap().handle;
    let elsewhere = Request { address: v4([10, 0, 0, 1]), ..connect(fresh, 80) };
    let reply = solo.ask(token(0, 0), elsewhere, &mut []).unwrap();
    assert_eq!(reply.errno(), Errno::Netunreach);
    assert_eq!(solo.state(fresh), State::Fresh);
}

#[test]
fn data_sent_before_the_end_stay_readable() {
    let mut solo = Solo::new();
    let (listener, _, near, far) = solo.connection();
    solo.with(|c| c.send(near, &mut [8; 3000]).and(c.shut(near))).unwrap();
    solo.with(|c| c.shut(far)).unwrap();
    assert_eq!(solo.state(near), State::Ended);
    // An hour later no timer has dropped anything.
    solo.now += 3_600_000_000_000;
    let mut into = [0; 4000];
    assert_eq!(solo.with(|c| c.receive(far, &mut into)), Ok(3000));
    assert_eq!(solo.with(|c| c.receive(far, &mut into)), Ok(0));
    assert_eq!(solo.with(|c| c.receive(near, &mut into)), Ok(0));
    assert_eq!(solo.with(|c| c.send(near, &mut into)), Err(Errno::Pipe));
    for handle in [listener, near, far] {
        solo.with(|c| c.close(handle)).unwrap();
    }
    assert_eq!(solo.net.census(), [0; 4]);
}

/// Opens until that fails; then closes everything. Returns how many there were, and the error.
fn fill(solo: &mut Solo, open: impl Fn(&mut Client<'_>) -> Result<u64, Errno>) -> (usize, Errno) {
    let mut handles = Vec::new();
    let full = loop {
        match solo.with(&open) {
            Ok(handle) => handles.push(handle),
            Err(why) => break why,
        }
    };
    for handle in &handles {
        solo.with(|c| c.close(*handle)).unwrap();
    }
    assert_eq!(solo.net.census(), [0, 0, 0, 0]);
    (handles.len(), full)
}

#[test]
fn a_full_table_is_an_error_and_usable_afterwards() {
    let mut solo = Solo::new();
    let (datagrams, full) = fill(&mut solo, |c| c.udp(0));
    assert!(full == Errno::Nobufs && datagrams > 95, "{datagrams} {full:?}");
    assert_eq!(fill(&mut solo, |c| c.listen(0, 1)), (SOCKETS, Errno::Nfile));
    solo.connection();
}

#[test]
fn a_tree_leaves_handles_for_others() {
    let mut solo = Solo::new();
    let open = |solo: &mut Solo, tree| {
        let request = Request { tree, ..Request::new(Op::Tcp, 0) };
        solo.ask(token(0, 0), request, &mut []).unwrap()
    };
    let mut greedy = |tree| (0..).take_while(|_| open(&mut solo, tree).error == 0).count();
    assert_eq!(greedy(7), TREE_HANDLES as usize);
    assert_eq!(greedy(6), SOCKETS - (TREE_HANDLES + RESERVED) as usize);
    let modest = (0..).take_while(|_| open(&mut solo, 8).error == 0).count();
    assert_eq!(modest, SMALL as usize);
    assert_eq!(open(&mut solo, 0).error, 0, "the system");
    assert_eq!(open(&mut solo, 7).errno(), Errno::Nfile);
    let first = open(&mut solo, 0).handle;
    let dup = |tree| Request { tree, ..Request::new(Op::Dup, first) };
    let dups =
        (0..HANDLES).take_while(|_| solo.ask(token(0, 0), dup(9), &mut []).unwrap().error == 0);
    assert!(dups.count() <= TREE_HANDLES as usize);
}

#[test]
fn a_closed_end_takes_no_place() {
    let mut solo = Solo::new();
    let listener = solo.with(|c| c.listen(80, 1)).unwrap();
    let mut far = Vec::new();
    for _ in 0..600 {
        let near = solo.with(|c| c.connect(80)).unwrap();
        far.push(solo.with(|c| c.accept(listener)).unwrap());
        solo.with(|c| c.send(near, &mut [7; 300]).and(c.close(near))).unwrap();
    }
    assert_eq!(solo.net.census(), [601, 600, 0, 0]);
    for far in [far[0], far[599]] {
        assert_eq!(solo.state(far), State::Ending);
        assert_eq!(solo.with(|c| c.receive(far, &mut [0; 400])), Ok(300));
        assert_eq!(solo.with(|c| c.send(far, &mut [])), Ok(0));
        // The first send finds out that nothing reads it.
        assert_eq!(solo.with(|c| c.send(far, &mut [7])), Ok(1));
        assert_eq!(solo.with(|c| c.send(far, &mut [7])), Err(Errno::Pipe));
        assert_eq!(solo.with(|c| c.receive(far, &mut [0; 400])), Ok(0));
        assert_eq!(solo.state(far), State::Ended);
    }
    solo.event(share::Event::Gone(base::id::DomainId(0), base::id::Epoch(1)));
    assert_eq!(solo.net.census(), [0, 0, 0, 0]);
}

/// Makes a request for process tree `tree`.
fn of_tree(solo: &mut Solo, tree: u32, request: Request) -> Result<u64, Errno> {
    let reply = solo.ask(token(0, 0), Request { tree, ..request }, &mut []);
    let reply = reply.expect("it must not wait");
    if reply.error == 0 { Ok(reply.handle) } else { Err(reply.errno()) }
}

#[test]
fn connections_that_nothing_accepts_leave_places_for_others() {
    let mut solo = Solo::new();
    for port in 100..108 {
        let listener = of_tree(&mut solo, 7, Request::new(Op::Tcp, 0)).unwrap();
        let listen = Request { port, backlog: 128, ..Request::new(Op::Listen, listener) };
        of_tree(&mut solo, 7, listen).unwrap();
        for _ in 0..128 {
            let Ok(near) = of_tree(&mut solo, 7, Request::new(Op::Tcp, 0)) else { break };
            // Refused when the backlog is full.
            let _ = of_tree(&mut solo, 7, hasty(connect(near, port)));
            solo.with(|c| c.close(near)).unwrap();
        }
    }
    let [_, sockets, ending, _] = solo.net.census();
    assert!(sockets - ending <= SOCKETS - RESERVED as usize + 16, "{sockets} {ending}");
    let listener = of_tree(&mut solo, 9, Request::new(Op::Tcp, 0)).unwrap();
    let listen = Request { port: 5000, backlog: 1, ..Request::new(Op::Listen, listener) };
    of_tree(&mut solo, 9, listen).unwrap();
    let near = of_tree(&mut solo, 9, Request::new(Op::Tcp, 0)).unwrap();
    of_tree(&mut solo, 9, hasty(connect(near, 5000))).unwrap();
    of_tree(&mut solo, 9, hasty(Request::new(Op::Accept, listener))).unwrap();
}

#[test]
fn an_accept_without_room_loses_no_connection() {
    let mut solo = Solo::new();
    let listener = solo.with(|c| c.listen(80, 8)).unwrap();
    let near = solo.with(|c| c.connect(80)).unwrap();
    let all = std::iter::from_fn(|| of_tree(&mut solo, 0, Request::new(Op::Tcp, 0)).ok());
    let all: Vec<u64> = all.collect();
    assert_eq!(solo.with(|c| c.accept(listener)), Err(Errno::Nfile));
    all.into_iter().for_each(|handle| solo.with(|c| c.close(handle)).unwrap());
    let far = solo.with(|c| c.accept(listener)).unwrap();
    [near, far, listener].into_iter().for_each(|handle| solo.with(|c| c.close(handle)).unwrap());
    assert_eq!(solo.net.census(), [0; 4]);
}

#[test]
fn a_port_can_connect_again_while_its_former_peer_has_not_closed() {
    let mut solo = Solo::new();
    let listener = solo.with(|c| c.listen(80, 8)).unwrap();
    for round in 0..3 {
        let near = of_tree(&mut solo, 0, Request::new(Op::Tcp, 0)).unwrap();
        let bind = Request { address: LOCALHOST, port: 4000, ..Request::new(Op::Bind, near) };
        of_tree(&mut solo, 0, bind).unwrap();
        assert_eq!(of_tree(&mut solo, 0, hasty(connect(near, 80))).err(), None, "{round}");
        let far = solo.with(|c| c.accept(listener)).unwrap();
        solo.with(|c| c.send(near, &mut [round])).unwrap();
        let mut byte = [0];
        assert_eq!((solo.with(|c| c.receive(far, &mut byte)), byte), (Ok(1), [round]));
        // The other end stays open.
        solo.with(|c| c.close(near)).unwrap();
    }
}

#[test]
fn a_tree_leaves_memory_for_the_datagrams_of_others() {
    let mut solo = Solo::new();
    // Binds sockets until there is no memory for another one.
    let bind = |solo: &mut Solo, tree| {
        for count in 0.. {
            let handle = of_tree(solo, tree, Request::new(Op::Udp, 0)).unwrap();
            let bind = Request { address: LOCALHOST, ..Request::new(Op::Bind, handle) };
            if let Err(why) = of_tree(solo, tree, bind) {
                return (count, why);
            }
        }
        unreachable!("there is a limit");
    };
    let (greedy, full) = bind(&mut solo, 7);
    assert!(full == Errno::Nobufs && greedy > 60, "{greedy} {full:?}");
    let (modest, full) = bind(&mut solo, 8);
    assert!(full == Errno::Nobufs && (8..10).contains(&modest), "{modest} {full:?}");
    // Streams find memory in any case.
    let listener = of_tree(&mut solo, 7, Request::new(Op::Tcp, 0)).unwrap();
    let listen = Request { port: 80, backlog: 1, ..Request::new(Op::Listen, listener) };
    of_tree(&mut solo, 7, listen).unwrap();
    solo.with(|c| c.connect(80)).unwrap();
}

#[test]
fn a_backlog_has_a_limit_whatever_the_program_asks_for() {
    let mut solo = Solo::new();
    let listener = of_tree(&mut solo, 7, Request::new(Op::Tcp, 0)).unwrap();
    let listen = Request { port: 80, backlog: u16::MAX, ..Request::new(Op::Listen, listener) };
    of_tree(&mut solo, 7, listen).unwrap();
    let connected = (0..).take_while(|_| solo.with(|c| c.connect(80)).is_ok()).count();
    assert_eq!(connected, BACKLOG as usize);
    assert_eq!(solo.with(|c| c.connect(80)), Err(Errno::Connrefused));
    of_tree(&mut solo, 7, hasty(Request::new(Op::Accept, listener))).unwrap();
    solo.with(|c| c.connect(80)).unwrap();
}

#[test]
fn a_port_is_one_sockets_and_a_tree_has_as_many_as_sockets() {
    let mut solo = Solo::new();
    let bound = |solo: &mut Solo, port| {
        let handle = of_tree(solo, 7, Request::new(Op::Tcp, 0))?;
        of_tree(solo, 7, Request { port, address: LOCALHOST, ..Request::new(Op::Bind, handle) })
    };
    let mut ports = 1u16..;
    let full = ports.by_ref().find_map(|port| bound(&mut solo, port).err()).unwrap();
    assert_eq!((full, ports.start), (Errno::Nfile, TREE_HANDLES as u16 + 2));
    let other = of_tree(&mut solo, 8, Request::new(Op::Tcp, 0)).unwrap();
    let bind = |port| Request { address: LOCALHOST, port, ..Request::new(Op::Bind, other) };
    assert_eq!(of_tree(&mut solo, 8, bind(1)), Err(Errno::Addrinuse));
    of_tree(&mut solo, 8, bind(0)).unwrap();
}
