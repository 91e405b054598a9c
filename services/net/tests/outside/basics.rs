//! One thing at a time, over a cable without faults.

use crate::hosts::{Hosts, V4, V6};
use crate::world::{World, config, configure, device};
use abi::ethernet::Config;
use abi::net::{ANY, Address, Entry, Errno, Interface, LAST, Link, Op, Poll, Request, State, v4};
use abi::net::{option, ready, shut};
use net::addresses::to_ip;
use net::listener::HALF_OPEN;
use share::Event;
use smoltcp::socket::{tcp, udp};
use zerocopy::IntoBytes;

const SECOND: u64 = 1_000_000_000;

/// Returns a connection from the chip to the peer: the handle, and the peer's socket.
fn outgoing(world: &mut World<'_>, hosts: Hosts) -> (u64, smoltcp::iface::SocketHandle) {
    let far = world.peer.listen(80);
    let near = world.socket(Op::Tcp);
    assert_eq!(world.connect(near, hosts.peer, 80), Err(Errno::Inprogress));
    world.until(100, |it| it.peer.stream(far).state() == tcp::State::Established);
    assert_eq!(world.connect(near, hosts.peer, 80), Err(Errno::Isconn));
    (near, far)
}

/// Runs until `done`, which must be within 50 ms.
fn soon(world: &mut World<'_>, mut done: impl FnMut(&mut World<'_>) -> bool) {
    let end = world.now + SECOND / 20;
    while !done(world) {
        world.round(world.now + SECOND / 1000);
        assert!(world.now < end);
    }
}

pub fn state(world: &mut World<'_>, handle: u64) -> State {
    let reply = world.ask(Request::new(Op::State, handle), &mut []).unwrap();
    State::from_code(reply.state).unwrap()
}

fn endpoint(address: Address, port: u16) -> smoltcp::wire::IpEndpoint {
    (to_ip(address), port).into()
}

fn a_connection_to_the_outside_carries_bytes_both_ways_and_ends(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 1);
    let (near, far) = outgoing(&mut world, hosts);
    assert_eq!(world.send(near, &mut b"from the chip".to_vec()), Ok(13));
    world.until(100, |it| it.peer.stream(far).recv_queue() == 13);
    world.peer.stream(far).send_slice(b"to the chip").unwrap();
    let mut bytes = [0; 20];
    world.until(100, |it| it.receive(near, &mut bytes) == Ok(11));
    assert_eq!(&bytes[..11], b"to the chip");
    world.close(near).unwrap();
    world.until(100, |it| it.peer.stream(far).state() == tcp::State::CloseWait);
    world.peer.stream(far).close();
    world.until(100, |it| it.peer.stream(far).state() == tcp::State::Closed);
    assert_eq!(world.net.census(), [0, 1, 1, 0], "it is in TIME-WAIT");
    let before = world.now;
    world.run(100);
    assert_eq!(world.net.census(), [0; 4]);
    assert!(world.now - before >= 8 * SECOND);
    assert_eq!(world.timer, u64::MAX, "an idle network sets no timer");
    assert_eq!(world.net.frames().dropped, 0);
}

fn a_listener_hears_both_sides_and_many_connections_at_once(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 2);
    let listener = world.listen(7, 64);
    let far: Vec<_> = (0..40).map(|i| world.peer.connect(hosts, 7, 2000 + i)).collect();
    world.until(300, |it| {
        far.iter().all(|&far| it.peer.stream(far).state() == tcp::State::Established)
    });
    let near = world.socket(Op::Tcp);
    assert_eq!(world.connect(near, hosts.localhost, 7), Ok(()));
    let mut peers = Vec::new();
    world.until(300, |it| {
        while let Ok(reply) = it.ask(Request::new(Op::Accept, listener), &mut []) {
            peers.push((reply.address, reply.port));
            assert_eq!(it.send(reply.handle, &mut [reply.port as u8; 3]), Ok(3));
        }
        peers.len() == 41
    });
    assert_eq!(peers.iter().filter(|peer| peer.0 == hosts.peer).count(), 40);
    world.until(300, |it| far.iter().all(|&far| it.peer.stream(far).recv_queue() == 3));
    assert_eq!(world.receive(near, &mut [0; 9]), Ok(3));
}

fn a_listener_on_loopback_is_not_heard_outside(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 3);
    let listener = world.socket(Op::Tcp);
    let bind = Request { address: hosts.localhost, port: 7, ..Request::new(Op::Bind, listener) };
    world.ask(bind, &mut []).unwrap();
    world.ask(Request::new(Op::Listen, listener), &mut []).unwrap();
    let far = world.peer.connect(hosts, 7, 2000);
    world.until(100, |it| it.peer.stream(far).state() == tcp::State::Closed);
    let near = world.socket(Op::Tcp);
    assert_eq!(world.connect(near, hosts.ours, 7), Err(Errno::Connrefused));
    assert_eq!(world.connect(near, hosts.localhost, 7), Ok(()));
}

fn the_own_address_is_reached_without_a_frame(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 4);
    world.seen = Some(Vec::new());
    let listener = world.listen(7, 8);
    let near = world.socket(Op::Tcp);
    assert_eq!(world.connect(near, hosts.ours, 7), Ok(()));
    let far = world.ask(Request::new(Op::Accept, listener), &mut []).unwrap();
    assert_eq!(far.address, hosts.ours);
    assert_eq!(world.send(near, &mut [5; 3000]), Ok(3000));
    assert_eq!(world.receive(far.handle, &mut [0; 4000]), Ok(3000));
    let (a, b) = (world.socket(Op::Udp), world.socket(Op::Udp));
    let bind = Request { port: 9, ..Request::new(Op::Bind, b) };
    world.ask(bind, &mut []).unwrap();
    let send = Request { address: hosts.ours, port: 9, length: 4, ..Request::new(Op::Send, a) };
    world.ask(send, &mut [7; 4]).unwrap();
    assert_eq!(world.receive(b, &mut [0; 9]), Ok(4));
    world.run(50);
    assert_eq!(world.seen, Some(Vec::new()));
}

fn datagrams_go_out_and_come_in(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 5);
    let far = world.peer.udp(53);
    let near = world.socket(Op::Udp);
    let send = Request { address: hosts.peer, port: 53, length: 4, ..Request::new(Op::Send, near) };
    world.ask(send, &mut b"name".to_vec()).unwrap();
    world.until(100, |it| it.peer.sockets.get_mut::<udp::Socket<'_>>(far).can_recv());
    let socket = world.peer.sockets.get_mut::<udp::Socket<'_>>(far);
    let (bytes, from) = socket.recv().unwrap();
    assert_eq!((bytes, from.endpoint.addr), (&b"name"[..], endpoint(hosts.ours, 1).addr));
    socket.send_slice(b"address", from.endpoint).unwrap();
    let (mut bytes, receive) = ([0; 9], Request { length: 9, ..Request::new(Op::Receive, near) });
    let mut from = (ANY, 0);
    world.until(100, |it| match it.ask(receive, &mut bytes) {
        Ok(reply) => {
            from = (reply.address, reply.port);
            reply.value == 7
        }
        Err(_) => false,
    });
    assert_eq!((from, &bytes[..7]), ((hosts.peer, 53), &b"address"[..]));
}

fn a_connected_socket_is_not_ready_for_datagrams_of_others(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 21);
    let (far, other) = (world.peer.udp(53), world.peer.udp(54));
    let near = world.socket(Op::Udp);
    world.connect(near, hosts.peer, 53).unwrap();
    let port = world.ask(Request::new(Op::State, near), &mut []).unwrap().port;
    let poll = |world: &mut World<'_>| {
        let mut poll = Poll { handle: near, want: ready::READ, ..Poll::default() };
        let length = size_of::<Poll>() as u32;
        let request = Request { length, ..Request::new(Op::Poll, 0) };
        world.ask(request, poll.as_mut_bytes()).unwrap().value
    };
    for from in [other, far] {
        let socket = world.peer.sockets.get_mut::<udp::Socket<'_>>(from);
        socket.send_slice(b"for the chip", endpoint(hosts.ours, port)).unwrap();
        let before = world.net.frames().received;
        world.until(100, |it| it.net.frames().received > before + u64::from(from == other));
        world.run(20);
        assert_eq!(poll(&mut world), u64::from(from == far));
    }
    assert_eq!(world.receive(near, &mut [0; 20]), Ok(12));
    assert_eq!(poll(&mut world), 0);
}

fn hosts_beyond_the_gateway_are_reached_through_it(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 6);
    let far = world.peer.listen(443);
    let near = world.socket(Op::Tcp);
    assert_eq!(world.connect(near, hosts.far, 443), Err(Errno::Inprogress));
    world.until(100, |it| it.peer.stream(far).state() == tcp::State::Established);
    assert_eq!(world.peer.stream(far).local_endpoint(), Some(endpoint(hosts.far, 443)));
}

fn a_connect_is_refused_or_not_answered(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 7);
    let near = world.socket(Op::Tcp);
    let error = |near| Request { option: option::ERROR, ..Request::new(Op::GetOption, near) };
    assert_eq!(world.connect(near, hosts.peer, 81), Err(Errno::Inprogress));
    world.run(100);
    let reply = world.ask(error(near), &mut []).unwrap();
    assert_eq!(reply.value, Errno::Connrefused as u64);
    // No host has this address: ARP is not answered.
    assert_eq!(world.connect(near, hosts.silent, 81), Err(Errno::Inprogress));
    let before = world.now;
    world.run(2000);
    let reply = world.ask(error(near), &mut []).unwrap();
    assert_eq!(reply.value, Errno::Timedout as u64);
    assert!((60..90).contains(&((world.now - before) / SECOND)));
    assert_eq!(world.timer, u64::MAX);
    assert_eq!(world.net.census(), [1, 0, 0, 0]);
}

fn a_silent_neighbour_delays_no_other(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 8);
    // Nothing is known yet. The silent one is asked first, and has the first socket.
    let streams = [hosts.silent, hosts.peer].map(|address| {
        let (near, far) = (world.socket(Op::Tcp), world.peer.listen(80));
        assert_eq!(world.connect(near, address, 80), Err(Errno::Inprogress));
        far
    });
    soon(&mut world, |it| {
        streams.iter().any(|&far| it.peer.stream(far).state() == tcp::State::Established)
    });
    // One socket sends to both.
    let (near, far) = (world.socket(Op::Udp), world.peer.udp(9));
    let to = |address| Request { address, port: 9, length: 1000, ..Request::new(Op::Send, near) };
    for _ in 0..100 {
        world.ask(to(hosts.silent), &mut [0; 1000]).unwrap();
        world.ask(to(hosts.peer), &mut [0; 1000]).unwrap();
        soon(&mut world, |it| it.peer.sockets.get_mut::<udp::Socket<'_>>(far).can_recv());
        world.peer.sockets.get_mut::<udp::Socket<'_>>(far).recv().unwrap();
    }
    // It is asked once a second, not for each packet.
    world.seen = Some(Vec::new());
    let before = world.now;
    while world.now - before < 10 * SECOND {
        world.ask(to(hosts.silent), &mut [0; 1000]).unwrap();
        world.round(world.now + SECOND / 100);
    }
    let seen = world.seen.take().unwrap();
    let is_question = |frame: &&Vec<u8>| match frame[12..14] {
        [8, 6] => true,
        _ => frame[20] == 58 && frame[54] == 135,
    };
    let asks = seen.iter().filter(is_question).count();
    assert!((5..=11).contains(&asks), "{asks}");
}

fn a_datagram_whose_socket_is_closed_at_once_arrives(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 18);
    let (near, far) = (world.socket(Op::Udp), world.peer.udp(9));
    let send = Request { address: hosts.peer, port: 9, length: 3, ..Request::new(Op::Send, near) };
    world.ask(send, &mut [1, 2, 3]).unwrap();
    world.close(near).unwrap();
    world.until(100, |it| it.peer.sockets.get_mut::<udp::Socket<'_>>(far).can_recv());
}

fn time_limits_pass_although_the_device_sends_nothing(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 19);
    let (near, _) = outgoing(&mut world, hosts);
    fake.model.borrow_mut().stalls = true;
    // More than there are buffers.
    let others: Vec<_> = (0..40).map(|_| world.socket(Op::Tcp)).collect();
    for &other in &others {
        assert_eq!(world.connect(other, hosts.peer, 81), Err(Errno::Inprogress));
    }
    world.send(near, &mut [1; 4000]).unwrap();
    let before = world.now;
    world.until(4000, |it| state(it, near) == State::Reset);
    assert!((899..1000).contains(&((world.now - before) / SECOND)));
    for other in others {
        let error = Request { option: option::ERROR, ..Request::new(Op::GetOption, other) };
        let reply = world.ask(error, &mut []).unwrap();
        assert_eq!(reply.value, Errno::Timedout as u64);
    }
}

fn an_end_that_is_not_acknowledged_is_given_up(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 20);
    let (near, far) = outgoing(&mut world, hosts);
    world.peer.sockets.remove(far);
    world.faults.loses = 1000;
    let shut = Request { value: shut::WRITE, ..Request::new(Op::Shut, near) };
    world.ask(shut, &mut []).unwrap();
    let before = world.now;
    world.until(4000, |it| state(it, near) == State::Reset);
    assert!((899..1000).contains(&((world.now - before) / SECOND)));
    world.run(10);
    assert_eq!(world.timer, u64::MAX);
}

#[test]
fn a_listener_of_one_family_is_not_heard_by_the_other() {
    let fake = device();
    let mut world = World::open(&fake, 23);
    let of_v4 = world.ask(Request::new(Op::Tcp, 0), &mut []).unwrap().handle;
    let of_v6 = world.socket(Op::Tcp);
    let only = Request { option: option::V6ONLY, value: 1, ..Request::new(Op::SetOption, of_v6) };
    world.ask(only, &mut []).unwrap();
    for listener in [of_v4, of_v6] {
        let listen = Request { port: 7, backlog: 4, ..Request::new(Op::Listen, listener) };
        world.ask(listen, &mut []).unwrap();
    }
    for (hosts, listener, other) in [(V4, of_v4, of_v6), (V6, of_v6, of_v4)] {
        let far = world.peer.connect(hosts, 7, 2000);
        world.until(100, |it| it.peer.stream(far).state() == tcp::State::Established);
        world.run(10);
        assert_eq!(world.ask(Request::new(Op::Accept, other), &mut []).err(), Some(Errno::Again));
        let reply = world.ask(Request::new(Op::Accept, listener), &mut []).unwrap();
        assert_eq!((reply.address, reply.port), (hosts.peer, 2000));
    }
}

#[test]
fn a_board_without_the_device_or_without_addresses_has_loopback_only() {
    let fake = device();
    let mut world = World::new(&fake, 9);
    let nowhere = |world: &mut World<'_>| {
        let near = world.socket(Op::Tcp);
        assert_eq!(world.connect(near, V4.peer, 80), Err(Errno::Netunreach));
        let listener = world.listen(0, 1);
        let port = world.ask(Request::new(Op::State, listener), &mut []).unwrap().port;
        assert_eq!(world.connect(near, V4.localhost, port), Ok(()));
        for handle in [near, listener] {
            world.close(handle).unwrap();
        }
        world.run(100);
        assert_eq!(world.timer, u64::MAX);
    };
    world.has_device = false;
    nowhere(&mut world);
    world.has_device = true;
    configure(&fake, &Default::default());
    world.event(0, Event::Device);
    world.run(50);
    nowhere(&mut world);
    configure(&fake, &config());
    world.event(0, Event::Device);
    assert!(world.net.addresses().is_some());
}

fn a_silent_device_costs_nothing_but_the_outside(hosts: Hosts) {
    let fake = device();
    fake.eager.set(false);
    let mut world = World::new(&fake, 10);
    let listener = world.listen(7, 4);
    let near = world.socket(Op::Tcp);
    assert_eq!(world.connect(near, hosts.localhost, 7), Ok(()));
    assert!(world.timer != u64::MAX, "it looks again");
    world.now += 6 * SECOND;
    world.event(0, Event::Timer);
    world.timer = u64::MAX;
    assert!(world.ask(Request::new(Op::Accept, listener), &mut []).is_ok());
    assert_eq!(world.timer, u64::MAX, "it is given up");
}

fn connections_are_reset_when_the_device_fails_for_good(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 11);
    let (near, _) = outgoing(&mut world, hosts);
    fake.set(std::mem::offset_of!(abi::soc::DeviceRegisters, device_id), 99);
    fake.fail();
    world.event(0, Event::Device);
    world.run(20);
    assert_eq!(world.send(near, &mut [1]), Err(Errno::Connreset));
    assert_eq!(state(&mut world, near), State::Reset);
}

fn connections_outlive_a_reset_of_the_device(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 12);
    let (near, far) = outgoing(&mut world, hosts);
    for round in 0..5 {
        fake.fail();
        assert_eq!(world.send(near, &mut [round; 100]), Ok(100));
        world.event(1, Event::Device);
        world.until(200, |it| it.peer.stream(far).recv_queue() == 100 * (1 + usize::from(round)));
    }
}

fn half_open_connections_do_not_keep_others_out(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 13);
    let _listener = world.listen(7, 4);
    // 100 SYNs whose senders never answer: the peer forgets them at once.
    for port in 3000..3100 {
        let far = world.peer.connect(hosts, 7, port);
        world.round(u64::MAX);
        world.peer.sockets.remove(far);
    }
    let far = world.peer.connect(hosts, 7, 2000);
    world.until(300, |it| it.peer.stream(far).state() == tcp::State::Established);
    let before = world.now;
    world.run(500);
    assert!(world.now - before < 100 * SECOND);
    assert!(world.net.census()[1] <= 2, "the others are given up");
}

fn a_full_backlog_lets_connections_wait(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 14);
    let listener = world.listen(7, 2);
    let far: Vec<_> = (0..40).map(|i| world.peer.connect(hosts, 7, 2000 + i)).collect();
    let before = world.now;
    while world.now - before < 10 * SECOND {
        world.round(world.now + SECOND);
        let is_made = |far: &&_| world.peer.stream(**far).state() == tcp::State::Established;
        let made = far.iter().filter(is_made).count();
        // Those that had begun when it became full are completed.
        assert!(made <= 2 + HALF_OPEN, "{made} at {} {:?}", world.now, world.net.census());
    }
    for _ in 0..40 {
        world.until(500, |it| it.ask(Request::new(Op::Accept, listener), &mut []).is_ok());
    }
}

fn the_interface_and_all_sockets_are_shown(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 17);
    let (near, _) = outgoing(&mut world, hosts);
    let listener = world.listen(7, 4);
    world.send(near, &mut [1; 100]).unwrap();
    let mut shown = Interface::default();
    world.ask(Request::new(Op::Interface, 0), shown.as_mut_bytes()).unwrap();
    assert_eq!((v4(shown.addresses.v4), shown.addresses.v6), (V4.ours, V6.ours));
    assert_eq!(shown.link, Link::Up as u16);
    assert!(shown.received > 0 && shown.sent > 0);
    // The listener needs none.
    assert_eq!((shown.sockets, shown.outside), (1, 1));
    let mut entries = [Entry::default(); 1];
    let mut ask = |place| {
        let request = Request { value: place, ..Request::new(Op::List, 0) };
        let reply = world.ask(request, entries.as_mut_bytes()).unwrap();
        (entries[0], reply.value)
    };
    let (first, next) = ask(0);
    assert_eq!((first.local, first.peer, first.peer_port), (hosts.ours, hosts.peer, 80));
    assert_eq!((first.state, first.send), (State::Connected as u16, 100));
    let (second, next) = ask(next as u32);
    assert_eq!((second.state, second.local_port), (State::Listening as u16, 7));
    assert_eq!(next, LAST);
    configure(&fake, &Config { status: 0.into(), ..config() });
    world.event(0, Event::Device);
    world.ask(Request::new(Op::Interface, 0), shown.as_mut_bytes()).unwrap();
    assert_eq!(shown.link, Link::Down as u16);
    let other = world.socket(Op::Tcp);
    assert_eq!(world.connect(other, hosts.peer, 80), Err(Errno::Netunreach));
    assert_eq!(world.send(near, &mut [1; 9]), Ok(9), "connections wait for it");
    assert!(world.close(listener).is_ok());
}

for_both_families! {
    a_connection_to_the_outside_carries_bytes_both_ways_and_ends
    a_listener_hears_both_sides_and_many_connections_at_once
    a_listener_on_loopback_is_not_heard_outside
    the_own_address_is_reached_without_a_frame
    datagrams_go_out_and_come_in
    a_connected_socket_is_not_ready_for_datagrams_of_others
    hosts_beyond_the_gateway_are_reached_through_it
    a_connect_is_refused_or_not_answered
    a_silent_neighbour_delays_no_other
    a_datagram_whose_socket_is_closed_at_once_arrives
    time_limits_pass_although_the_device_sends_nothing
    an_end_that_is_not_acknowledged_is_given_up
    a_silent_device_costs_nothing_but_the_outside
    connections_are_reset_when_the_device_fails_for_good
    connections_outlive_a_reset_of_the_device
    half_open_connections_do_not_keep_others_out
    a_full_backlog_lets_connections_wait
    the_interface_and_all_sockets_are_shown
}
