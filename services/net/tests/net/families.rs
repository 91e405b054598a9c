//! Sockets of IPv4 and of IPv6, as Linux has them.

use crate::common::{Solo, token};
use abi::net::{ANY, ANY_V4, Address, Errno, LOCALHOST, LOCALHOST_V6, Op, Request, v4};
use abi::net::{flag, option};

fn ask(solo: &mut Solo, request: Request, bulk: &mut [u8]) -> Result<abi::net::Reply, Errno> {
    let reply = solo.ask(token(0, 0), request, bulk).unwrap();
    if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
}

fn socket(solo: &mut Solo, op: Op, flags: u16) -> u64 {
    ask(solo, Request { flags, ..Request::new(op, 0) }, &mut []).unwrap().handle
}

fn v6_only(solo: &mut Solo, handle: u64, value: u32) -> Result<(), Errno> {
    let option = option::V6ONLY;
    let set = Request { option, value, ..Request::new(Op::SetOption, handle) };
    ask(solo, set, &mut []).map(|_| ())
}

fn at(op: Op, handle: u64, address: Address, port: u16) -> Request {
    Request { address, port, ..Request::new(op, handle) }
}

/// Returns a listener at port 80 of an address.
fn listen(solo: &mut Solo, flags: u16, only: bool, address: Address) -> Result<u64, Errno> {
    let handle = socket(solo, Op::Tcp, flags);
    if only {
        v6_only(solo, handle, 1).unwrap();
    }
    let bound = ask(solo, at(Op::Bind, handle, address, 80), &mut []);
    let listen = Request { backlog: 8, ..Request::new(Op::Listen, handle) };
    match bound.and_then(|_| ask(solo, listen, &mut [])) {
        Ok(_) => Ok(handle),
        Err(why) => {
            ask(solo, Request::new(Op::Close, handle), &mut []).unwrap();
            Err(why)
        }
    }
}

/// Returns whether a connection to port 80 of an address comes to `listener`, and how its ends are
/// called there.
fn reaches(solo: &mut Solo, listener: u64, address: Address) -> Option<(Address, u16)> {
    let near = socket(solo, Op::Tcp, flag::V6);
    let connected = ask(solo, at(Op::Connect, near, address, 80), &mut []);
    let accept = Request { flags: flag::NONBLOCK, ..Request::new(Op::Accept, listener) };
    let found = ask(solo, accept, &mut []);
    assert!(connected.is_ok() || connected.err() == Some(Errno::Connrefused));
    ask(solo, Request::new(Op::Close, near), &mut []).unwrap();
    let reply = found.ok()?;
    let own = ask(solo, Request::new(Op::State, reply.handle), &mut []).unwrap();
    assert_eq!((own.address, own.flags, own.port), (reply.address, reply.flags, 80));
    ask(solo, Request::new(Op::Close, reply.handle), &mut []).unwrap();
    Some((reply.address, reply.flags))
}

#[test]
fn a_listener_hears_the_families_that_it_is_for() {
    let mut solo = Solo::new();
    let all = [
        // Flags, V6ONLY, address; whether it hears IPv4, and IPv6.
        (flag::V6, false, ANY, true, true),
        (flag::V6, true, ANY, false, true),
        (0, false, ANY_V4, true, false),
        (flag::V6, false, LOCALHOST_V6, false, true),
        (flag::V6, false, LOCALHOST, true, false),
    ];
    for (flags, only, address, hears_v4, hears_v6) in all {
        let listener = listen(&mut solo, flags, only, address).unwrap();
        let found = reaches(&mut solo, listener, LOCALHOST);
        assert_eq!(found, hears_v4.then_some((LOCALHOST, flags)));
        let found = reaches(&mut solo, listener, LOCALHOST_V6);
        assert_eq!(found, hears_v6.then_some((LOCALHOST_V6, flags)));
        // Unspecified addresses are this chip's.
        assert_eq!(reaches(&mut solo, listener, ANY).is_some(), hears_v6);
        assert_eq!(reaches(&mut solo, listener, ANY_V4).is_some(), hears_v4);
        ask(&mut solo, Request::new(Op::Close, listener), &mut []).unwrap();
    }
    assert_eq!(solo.net.census(), [0; 4]);
}

#[test]
fn the_families_have_a_port_each() {
    let mut solo = Solo::new();
    let of_v4 = listen(&mut solo, 0, false, ANY_V4).unwrap();
    assert_eq!(listen(&mut solo, flag::V6, false, ANY), Err(Errno::Addrinuse));
    let of_v6 = listen(&mut solo, flag::V6, true, ANY).unwrap();
    let near = socket(&mut solo, Op::Tcp, flag::V6);
    for (listener, address) in [(of_v6, LOCALHOST_V6), (of_v4, LOCALHOST)] {
        assert_eq!(reaches(&mut solo, listener, address).map(|it| it.0), Some(address));
    }
    ask(&mut solo, at(Op::Connect, near, LOCALHOST_V6, 80), &mut []).unwrap();
    // Datagrams as well.
    let udp = [socket(&mut solo, Op::Udp, 0), socket(&mut solo, Op::Udp, flag::V6)];
    v6_only(&mut solo, udp[1], 1).unwrap();
    for (handle, address) in udp.into_iter().zip([ANY_V4, ANY]) {
        ask(&mut solo, at(Op::Bind, handle, address, 7), &mut []).unwrap();
    }
    let from = socket(&mut solo, Op::Udp, flag::V6);
    for (own, address) in udp.into_iter().zip([LOCALHOST, LOCALHOST_V6]) {
        let send = Request { length: 1, ..at(Op::Send, from, address, 7) };
        ask(&mut solo, send, &mut [1]).unwrap();
        let receive = Request { length: 1, ..Request::new(Op::Receive, own) };
        let reply = ask(&mut solo, receive, &mut [0]).unwrap();
        let flags = if own == udp[1] { flag::V6 } else { 0 };
        assert_eq!((reply.address, reply.flags), (address, flags));
        // The answer gets back.
        let send = Request { length: 1, ..at(Op::Send, own, reply.address, reply.port) };
        ask(&mut solo, send, &mut [2]).unwrap();
        let receive = Request { length: 1, ..Request::new(Op::Receive, from) };
        assert_eq!(ask(&mut solo, receive, &mut [0]).map(|it| it.address), Ok(address));
    }
}

#[test]
fn a_socket_reaches_the_families_that_it_is_for() {
    let mut solo = Solo::new();
    for op in [Op::Tcp, Op::Udp] {
        let mut connect = |flags, only, address| {
            let handle = socket(&mut solo, op, flags);
            if only {
                v6_only(&mut solo, handle, 1).unwrap();
            }
            let connected = ask(&mut solo, at(Op::Connect, handle, address, 9), &mut []);
            if op == Op::Udp {
                let send = Request { length: 1, ..at(Op::Send, handle, address, 9) };
                let sent = ask(&mut solo, send, &mut [1]);
                assert_eq!(sent.map(|_| ()), connected.map(|_| ()));
            }
            connected.map_or_else(|why| why, |_| Errno::Success)
        };
        let reached = if op == Op::Tcp { Errno::Connrefused } else { Errno::Success };
        assert_eq!(connect(0, false, LOCALHOST_V6), Errno::Afnosupport);
        assert_eq!(connect(0, false, ANY), Errno::Afnosupport, "a rule may allow it");
        assert_eq!(connect(0, false, LOCALHOST), reached);
        assert_eq!(connect(flag::V6, false, LOCALHOST), reached);
        assert_eq!(connect(flag::V6, true, LOCALHOST), Errno::Netunreach);
        assert_eq!(connect(flag::V6, true, LOCALHOST_V6), reached);
        assert_eq!(connect(flag::V6, false, v4([10, 0, 0, 1])), Errno::Netunreach);
    }
}

#[test]
fn v6only_is_for_fresh_sockets_of_ipv6() {
    let mut solo = Solo::new();
    let of_v4 = socket(&mut solo, Op::Tcp, 0);
    assert_eq!(v6_only(&mut solo, of_v4, 1), Err(Errno::Noprotoopt));
    assert_eq!(
        ask(&mut solo, at(Op::Bind, of_v4, LOCALHOST_V6, 1), &mut []).err(),
        Some(Errno::Afnosupport)
    );
    let fresh = socket(&mut solo, Op::Tcp, flag::V6);
    for value in [1, 0, 1] {
        v6_only(&mut solo, fresh, value).unwrap();
        let get = Request { option: option::V6ONLY, ..Request::new(Op::GetOption, fresh) };
        assert_eq!(ask(&mut solo, get, &mut []).unwrap().value, value.into());
    }
    assert_eq!(
        ask(&mut solo, at(Op::Bind, fresh, LOCALHOST, 1), &mut []).err(),
        Some(Errno::Inval)
    );
    ask(&mut solo, at(Op::Bind, fresh, ANY, 0), &mut []).unwrap();
    assert_eq!(v6_only(&mut solo, fresh, 0), Err(Errno::Inval));
    let state =
        |solo: &mut Solo, handle| ask(solo, Request::new(Op::State, handle), &mut []).unwrap();
    assert_eq!((state(&mut solo, fresh).address, state(&mut solo, fresh).flags), (ANY, flag::V6));
    assert_eq!((state(&mut solo, of_v4).address, state(&mut solo, of_v4).flags), (ANY_V4, 0));
}
