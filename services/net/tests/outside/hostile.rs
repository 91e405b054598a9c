//! Frames and a device that do what they should not: nothing panics, and tables stay in their
//! bounds.

use crate::frames::{checksum, noise};
use crate::hosts::{Hosts, OURS, PEER, V4, V6};
use crate::world::{Faults, World, config, configure, device};
use abi::net::{ANY, ANY_V4, Address, Errno, Op, Request, flag, option, to_v4, v4};
use abi::soc::DeviceRegisters;
use base::prng::Prng;
use net::budget::{LARGEST, OUTSIDE};
use share::Event;
use smoltcp::socket::tcp;
use std::mem::offset_of;
use zerocopy::FromBytes;

/// Returns whether loopback works.
fn loopback_works(world: &mut World<'_>) -> bool {
    let listener = world.listen(0, 1);
    let port = world.ask(Request::new(Op::State, listener), &mut []).unwrap().port;
    let near = world.socket(Op::Tcp);
    assert_eq!(world.connect(near, V4.localhost, port), Ok(()));
    let far = world.ask(Request::new(Op::Accept, listener), &mut []).unwrap().handle;
    assert_eq!(world.send(near, &mut [1, 2, 3]), Ok(3));
    let works = world.receive(far, &mut [0; 9]) == Ok(3);
    for handle in [near, far, listener] {
        world.close(handle).unwrap();
    }
    works
}

#[test]
fn no_frame_makes_a_step_panic_or_fills_a_table() {
    let (fake, mut random) = (device(), Prng::new(77));
    let mut world = World::open(&fake, 77);
    world.listen(7, 128);
    let bind = Request { port: 7, ..Request::new(Op::Bind, world.socket(Op::Udp)) };
    world.ask(bind, &mut []).unwrap();
    for _ in 0..60_000 {
        world.inject(noise(&mut random));
        if random.chance(1, 4) {
            world.round(world.now + random.below(1 << 32));
        }
        assert!(world.net.census()[1] <= OUTSIDE + 8);
    }
    world.fake.model.borrow_mut().to_chip.clear();
    world.run(3000);
    assert!(loopback_works(&mut world));
    let [handles, sockets, ending, _] = world.net.census();
    assert!(handles == 2 && sockets <= 3 + 16 + 144 && ending == 0, "{:?}", world.net.census());
    assert!(world.net.frames().received > 50_000);
}

fn changed_frames_of_connections_with_right_checksums_harm_no_other(hosts: Hosts) {
    for seed in 0..40 {
        let fake = device();
        let mut world = World::open(&fake, seed);
        let listener = world.listen(7, 8);
        world.faults = Faults { forges: 200, ..Faults::default() };
        let mut streams = Vec::new();
        for port in 0..30 {
            let far = world.peer.connect(hosts, 7, 2000 + port);
            let near = world.socket(Op::Tcp);
            world.peer.listen(3000 + port);
            let _ = world.connect(near, hosts.peer, 3000 + port);
            streams.push(near);
            for _ in 0..20 {
                while let Ok(reply) = world.ask(Request::new(Op::Accept, listener), &mut []) {
                    streams.push(reply.handle);
                }
                for &near in &streams {
                    let _ = world.send(near, &mut [port as u8; 700]);
                    let _ = world.receive(near, &mut [0; 1000]);
                }
                let socket = world.peer.stream(far);
                let _ = socket.send_slice(&[9; 500]);
                let _ = socket.recv_slice(&mut [0; 5000]);
                world.round(world.now + 100_000_000);
            }
            world.peer.sockets.remove(far);
        }
        world.faults = Faults::default();
        streams.iter().for_each(|&near| world.close(near).unwrap());
        assert!(loopback_works(&mut world));
        let far = world.peer.connect(hosts, 7, 999);
        let accept = Request::new(Op::Accept, listener);
        let mut is_last = |it: &mut World<'_>| {
            let accepted = it.ask(accept, &mut []);
            accepted.is_ok_and(|reply| reply.port == 999 && reply.address == hosts.peer)
        };
        world.until(2000, &mut is_last);
        world.until(100, |it| it.peer.stream(far).state() == tcp::State::Established);
    }
}

fn strangers_fill_neither_loopback_nor_what_is_reserved(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 79);
    for port in 0..8 {
        world.listen(7000 + port, 128);
    }
    for number in 0..1300 {
        world.peer.connect(hosts, 7000 + number % 8, 10_000 + number);
        for _ in 0..5 {
            world.round(world.now + 1_000_000);
        }
    }
    let [_, sockets, ..] = world.net.census();
    assert!((OUTSIDE - 100..=OUTSIDE).contains(&sockets), "{sockets}");
    let tree = |op, handle| Request { tree: 5, flags: flag::V6, ..Request::new(op, handle) };
    let near = world.ask(tree(Op::Tcp, 0), &mut []).unwrap().handle;
    let connect = Request { address: hosts.peer, port: 80, flags: 0, ..tree(Op::Connect, near) };
    assert_eq!(world.ask(connect, &mut []).err(), Some(Errno::Inprogress));
    let near = world.ask(tree(Op::Udp, 0), &mut []).unwrap().handle;
    let send =
        Request { address: hosts.peer, port: 53, length: 4, flags: 0, ..tree(Op::Send, near) };
    assert!(world.ask(send, &mut [0; 4]).is_ok());
    let listener = world.listen(1, 1);
    let near = world.socket(Op::Tcp);
    assert_eq!(world.connect(near, hosts.localhost, 1), Ok(()));
    let size = Request { option: option::SNDBUF, ..Request::new(Op::GetOption, near) };
    assert!(world.ask(size, &mut []).unwrap().value >= LARGEST as u64 / 2);
    assert!(world.ask(Request::new(Op::Accept, listener), &mut []).is_ok());
}

/// A server has them all, and answers each of them later.
fn a_thousand_clients_are_idle(hosts: Hosts) {
    const CLIENTS: u16 = 1000;
    let fake = device();
    let mut world = World::open(&fake, 81);
    let of_server = |op, handle| Request { tree: 5, ..Request::new(op, handle) };
    let socket = Request { flags: flag::V6, ..of_server(Op::Tcp, 0) };
    let listener = world.ask(socket, &mut []).unwrap().handle;
    let listen = Request { port: 7, backlog: 128, ..of_server(Op::Listen, listener) };
    world.ask(listen, &mut []).unwrap();
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let far = world.peer.connect(hosts, 7, 10_000 + number);
        let mut near = 0;
        world.until(100, |it| {
            let accepted = it.ask(of_server(Op::Accept, listener), &mut []);
            near = accepted.map_or(0, |reply| reply.handle);
            near != 0
        });
        clients.push((near, far));
    }
    let [_, sockets, ..] = world.net.census();
    assert_eq!(sockets, usize::from(CLIENTS));
    for (near, far) in clients.iter().step_by(37) {
        assert_eq!(world.send(*near, &mut [7; 200]), Ok(200));
        world.until(100, |it| it.peer.stream(*far).recv_queue() == 200);
    }
    // Loopback is as it was.
    let listener = world.listen(1, 1);
    let near = world.socket(Op::Tcp);
    assert_eq!(world.connect(near, hosts.localhost, 1), Ok(()));
    assert!(world.ask(Request::new(Op::Accept, listener), &mut []).is_ok());
}

/// Sources that no host outside has.
const NONE_V4: [Address; 6] =
    [V4.ours, V4.localhost, ANY_V4, v4([10, 0, 2, 255]), v4([244, 1, 1, 1]), v4([224, 0, 0, 1])];
const NONE_V6: [Address; 5] = [
    V6.ours,
    V6.localhost,
    ANY,
    [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
];

fn a_frame_from_no_host_outside_is_dropped(hosts: Hosts) {
    let (fake, mut random) = (device(), Prng::new(78));
    let mut world = World::open(&fake, 78);
    world.listen(7, 128);
    let mut count = 0;
    while count < 100 {
        let mut frame = noise(&mut random);
        let is_v4 = to_v4(hosts.ours).is_some();
        let (first, protocol, begin): (&[u8], usize, usize) =
            if is_v4 { (&[8, 0, 0x45], 23, 26) } else { (&[0x86, 0xdd, 0x60], 20, 22) };
        if frame.len() < 80 || !frame[12..].starts_with(first) || frame[protocol] != 6 {
            continue;
        }
        let none = if is_v4 { &NONE_V4[..] } else { &NONE_V6 };
        let from = none[count % none.len()];
        let from = if is_v4 { &from[12..] } else { &from[..] };
        frame[begin..begin + from.len()].copy_from_slice(from);
        checksum(&mut frame);
        world.inject(frame);
        count += 1;
    }
    world.seen = Some(Vec::new());
    world.run(200);
    assert_eq!(world.seen, Some(Vec::new()));
    assert_eq!(world.net.frames().dropped, 100);
}

#[test]
fn no_device_makes_a_step_panic() {
    for seed in 0..60 {
        let (fake, mut random) = (device(), Prng::new(seed));
        let mut world = World::open(&fake, seed);
        world.listen(7, 8);
        fake.is_hostile.set(true);
        fake.eager.set(false);
        let last = virtio::fake::MEMORY + 2 * virtio::queue::BYTES;
        for _ in 0..2000 {
            let place = match random.below(3) {
                0 => random.below(last as u64 / 8),
                1 => (virtio::fake::MEMORY / 8) as u64 + random.below(128),
                _ => offset_of!(DeviceRegisters, config) as u64 / 8 + random.below(10),
            };
            let value = match random.below(3) {
                0 => random.next(),
                1 => random.below(1 << 20),
                _ => u64::MAX,
            };
            fake.set(8 * place as usize, value);
            let who = random.below(2) as usize;
            match random.below(3) {
                0 => drop(world.event(who, Event::Device)),
                1 => drop(world.event(who, Event::Timer)),
                _ => {
                    let near = world.socket(Op::Tcp);
                    let _ = world.connect(near, v4([10, 0, 2, 9]), 9);
                    world.close(near).unwrap();
                }
            }
        }
        assert!(loopback_works(&mut world));
    }
}

#[test]
fn no_configuration_makes_a_step_panic() {
    let mut random = Prng::new(5);
    for seed in 0..3000 {
        let fake = device();
        let mut bytes = [0; size_of::<abi::ethernet::Config>()];
        bytes.iter_mut().for_each(|byte| *byte = random.next() as u8);
        let mut wrong = abi::ethernet::Config::read_from_bytes(&bytes).unwrap();
        let right = config();
        if random.chance(1, 2) {
            wrong.mac = right.mac;
        }
        if random.chance(1, 2) {
            wrong.addresses.prefix_v4 = random.below(34) as u8;
            wrong.addresses.prefix_v6 = random.below(132) as u8;
        }
        configure(&fake, &wrong);
        let mut world = World::new(&fake, seed);
        world.event(0, Event::Device);
        world.run(20);
        let near = world.socket(Op::Tcp);
        let byte = random.next() as u8;
        let to = if random.chance(1, 2) { v4([byte; 4]) } else { [byte; 16] };
        let reached = world.connect(near, to, 9);
        assert!(matches!(reached, Err(Errno::Netunreach | Errno::Inprogress | Errno::Connrefused)));
        assert!(loopback_works(&mut world));
    }
}

#[test]
fn a_segment_to_the_broadcast_and_a_fragment_are_dropped() {
    let (fake, mut random) = (device(), Prng::new(80));
    let mut world = World::open(&fake, 80);
    world.seen = Some(Vec::new());
    let mut segment = noise(&mut random);
    while segment.len() < 54 || segment[13] != 0 || segment[14] != 0x45 || segment[23] != 6 {
        segment = noise(&mut random);
    }
    segment[20..22].fill(0);
    segment[26..30].copy_from_slice(&PEER);
    // An acknowledgement, which a reset answers.
    (segment[46], segment[47]) = (0x50, 0x10);
    let place = |segment: &mut [u8], (to, fragment): ([u8; 4], [u8; 2])| {
        segment[20..22].copy_from_slice(&fragment);
        segment[30..34].copy_from_slice(&to);
        checksum(segment);
        segment.to_vec()
    };
    let wrong = [([255; 4], [0, 0]), ([10, 0, 2, 255], [0, 0]), (OURS, [0x20, 0]), (OURS, [0, 9])];
    for one in wrong {
        world.inject(place(&mut segment, one));
    }
    world.run(100);
    assert_eq!((world.seen.take(), world.net.frames().dropped), (Some(Vec::new()), 4));
    world.seen = Some(Vec::new());
    world.inject(place(&mut segment, (OURS, [0, 0])));
    world.run(100);
    assert_ne!(world.seen, Some(Vec::new()), "the same segment is answered");
}

/// Returns the SYN of a stranger that does not exist.
fn syn(number: u64) -> Vec<u8> {
    let mut frame = vec![0; 54];
    frame[..6].copy_from_slice(&config().mac);
    frame[12..17].copy_from_slice(&[8, 0, 0x45, 0, 0]);
    frame[17] = 40;
    (frame[22], frame[23]) = (64, 6);
    frame[26..30].copy_from_slice(&[203, 0, 113, number as u8]);
    frame[30..34].copy_from_slice(&OURS);
    frame[34..36].copy_from_slice(&(2000 + (number % 60_000) as u16).to_be_bytes());
    frame[37] = 7;
    (frame[46], frame[47]) = (0x50, 2);
    checksum(&mut frame);
    frame
}

#[test]
fn hosts_connect_during_a_flood_of_syns() {
    let fake = device();
    let mut world = World::open(&fake, 81);
    let (listener, mut port) = (world.listen(7, 64), 900);
    let (mut far, mut begun, mut took) = (None, 1000, Vec::new());
    // One SYN in each ms, on average. A host connects now and then.
    for ms in 0..100_000 {
        for _ in 0..4 {
            if world.random.chance(1, 4) {
                world.inject(syn(ms));
            }
            let until = world.now + world.random.below(500_000);
            world.round(until);
            world.now = world.now.max(until);
        }
        if let Ok(reply) = world.ask(Request::new(Op::Accept, listener), &mut []) {
            world.close(reply.handle).unwrap();
        }
        match far {
            None if ms >= begun => {
                port += 1;
                far = Some(world.peer.connect(V4, 7, port));
            }
            Some(handle) if world.peer.stream(handle).state() == tcp::State::Established => {
                world.peer.stream(handle).abort();
                took.push(ms - begun);
                (far, begun) = (None, ms + world.random.below(1500));
            }
            _ => {}
        }
    }
    let late = took.iter().filter(|ms| **ms > 1500).count();
    assert!(took.len() > 60 && late <= took.len() / 5, "{took:?} ms");
}

#[test]
fn a_flood_is_taken_in_several_steps() {
    let fake = device();
    let mut world = World::open(&fake, 15);
    for _ in 0..200 {
        world.inject(vec![0xff; 60]);
    }
    let mut most = 0;
    let before = world.net.frames().received;
    while world.net.frames().received < before + 200 {
        let last = world.net.frames().received;
        world.round(u64::MAX);
        most = most.max(world.net.frames().received - last);
    }
    // An interrupt and a timer in a round.
    assert!((1..=64).contains(&most), "{most}");
}

for_both_families! {
    changed_frames_of_connections_with_right_checksums_harm_no_other
    strangers_fill_neither_loopback_nor_what_is_reserved
    a_thousand_clients_are_idle
    a_frame_from_no_host_outside_is_dropped
}
