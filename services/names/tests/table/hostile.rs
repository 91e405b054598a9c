//! Requests of random bits with random bulks. Each gets an answer, none causes a panic, and nothing
//! is written beyond the bytes that the reply reports.

use crate::common::*;
use abi::boot::MAX_DOMAINS;
use abi::names::{Errno, NAME, NAMES, Name, Op, Reply, Request, SYSTEM_NAMES, WATCHES};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use names::Names;
use share::{Event, Service, Token};
use zerocopy::{FromBytes, IntoBytes};

/// Returns the bytes of a name as a hostile kernel sends them, with any length.
fn raw(bytes: &[u8], length: u8) -> Name {
    let mut raw = [0; NAME + 1];
    raw[..bytes.len()].copy_from_slice(bytes);
    raw[NAME] = length;
    Name::read_from_bytes(&raw).unwrap()
}

#[test]
fn an_invalid_name_is_refused_by_each_operation() {
    let mut world = World::new();
    world.add(1, "a", 1).unwrap();
    let before = world.edition();
    for bad in [
        raw(b"a", 0),
        raw(b"a", 2),
        raw(b"a\0b", 1),
        raw(b"a", NAME as u8 + 1),
        raw(b"a", 255),
        raw(b"..", 2),
        raw(b"A", 1),
        raw(&[0xff; NAME], NAME as u8),
        raw(&[b'a'; NAME], NAME as u8),
        raw(b"a/", 2),
        raw(b"a/b/c/d/e", 9),
    ] {
        for op in [Op::Register, Op::Remove, Op::Find, Op::List] {
            let request = Request { name: bad, door: 1, ..Request::new(op) };
            assert_eq!(world.done(1, request, &mut [0; 200]).errno(), Errno::Inval, "{bad:?}");
        }
    }
    for op in [Op::Register, Op::Remove, Op::Find] {
        assert_eq!(world.errno(1, Request::new(op)), Errno::Inval, "no name");
    }
    assert_eq!((world.edition(), world.texts()), (before, vec!["a".to_string()]));
}

#[test]
fn a_request_with_reserved_bits_or_of_another_version_is_refused() {
    let mut world = World::new();
    for op in 0..=u16::MAX {
        let request = Request { op, edition: 1, name: name("a"), ..Request::default() };
        let is_known = Op::from_code(op).is_some();
        let errno = world.errno(1, request);
        assert_eq!(errno == Errno::Nosys, !is_known, "{op}: {errno:?}");
        for at in 0..3 {
            let mut reserved = [0; 3];
            reserved[at] = 1;
            let refused = world.errno(1, Request { reserved, ..request });
            assert!(refused == if is_known { Errno::Inval } else { Errno::Nosys });
        }
    }
}

#[test]
fn a_kernel_that_no_board_has_is_refused() {
    let mut world = World::new();
    for kernel in [MAX_DOMAINS as u8, 200, 255] {
        let token = Token::new(DomainId(kernel), Epoch(1), 1, 1);
        let request = Request { name: name("a"), ..Request::new(Op::Register) };
        let reply = world.ask(token, request, &mut []).unwrap();
        assert_eq!(reply.errno(), Errno::Inval);
        world.tell(Event::Gone(DomainId(kernel), Epoch(1)));
    }
    assert_eq!(world.service.census(), (0, 0));
}

/// Returns a random number, often a small or otherwise special one.
fn number(random: &mut Prng) -> u64 {
    match random.below(8) {
        0 => random.next(),
        1 => u64::MAX - random.below(3),
        2 => 1 << random.below(64),
        _ => random.below(12),
    }
}

fn any_name(random: &mut Prng) -> Name {
    match random.below(3) {
        0 => {
            let bytes: Vec<u8> = (0..=NAME).map(|_| number(random) as u8).collect();
            Name::read_from_bytes(&bytes).unwrap()
        }
        1 => raw(b"a/b.c", number(random) as u8),
        2 if random.chance(1, 4) => {
            name(["kernel/a", "service/a/b", "kernel", "n7/a"][random.below(4) as usize])
        }
        _ => name(&format!("n{}", random.below(300))),
    }
}

fn request(random: &mut Prng, edition: u64) -> Request {
    let name = any_name(random);
    let mut n = || number(random);
    Request {
        op: n() as u16,
        reserved: if n() == 5 { [n() as u16; 3] } else { [0; 3] },
        tree: n() as u32,
        pid: n() as u32,
        door: n(),
        edition: if n() < 6 { edition } else { n() },
        contract: [n() as u8; 16],
        name,
    }
}

fn check(random: &mut Prng, world: &mut World) {
    let kernel = DomainId(random.below(3) as u8);
    let token = Token::new(kernel, Epoch(5), random.below(8), number(random) as u32);
    let request = request(random, world.edition());
    let mut bulk: Vec<u8> = (0..random.below(300)).map(|_| number(random) as u8).collect();
    let before = bulk.clone();
    let reply = match random.chance(1, 4) {
        true => world.again(token, request, &mut bulk),
        false => world.ask(token, request, &mut bulk),
    };
    let filled = Names::filled(&reply.unwrap_or_default());
    assert!(filled <= bulk.len() && bulk[filled..] == before[filled..], "{request:?}");
    assert_eq!(Names::sent(&request, bulk.len()), 0);
    if let Some(reply) = reply.filter(|reply| reply.error != 0) {
        assert_eq!(Reply { edition: reply.edition, ..Reply::error(reply.errno()) }, reply);
    }
    match random.below(200) {
        0 => world.tell(Event::Gone(kernel, Epoch(random.below(5) as u16))),
        1..10 => world.tell(Event::Cancel(token)),
        _ => {}
    }
    let (names, watches) = world.service.census();
    assert!(names <= NAMES + SYSTEM_NAMES && watches <= WATCHES);
}

#[test]
fn any_request_is_answered() {
    for seed in 0..40 {
        let (mut random, mut world) = (Prng::new(seed), World::of_life(seed as u32));
        world.epochs = [5; 4];
        for _ in 0..2500 {
            check(&mut random, &mut world);
        }
        let all: Vec<Name> = world.list().iter().map(|listed| listed.name).collect();
        assert!(all.iter().all(Name::is_valid), "seed {seed}");
        assert!(!all.iter().any(|low| all.iter().any(|high| low.is_below(high))), "seed {seed}");
        (0..3).for_each(|kernel| world.tell(Event::Gone(DomainId(kernel), Epoch(5))));
        assert_eq!(world.service.census(), (0, 0), "seed {seed}: something of a dead kernel");
    }
}

#[test]
fn requests_are_any_bits() {
    let mut random = Prng::new(1);
    let mut world = World::new();
    for _ in 0..10_000 {
        let bytes: Vec<u8> = (0..size_of::<Request>()).map(|_| random.next() as u8).collect();
        let mut request = Request::read_from_bytes(&bytes).unwrap();
        request.op = random.below(9) as u16;
        if random.chance(1, 2) {
            request.reserved = [0; 3];
        }
        let token = world.token(1);
        world.ask(token, request, &mut [0; 100]);
        assert_eq!(request.as_bytes().len(), bytes.len());
    }
    assert_eq!(world.list(), [], "no such name is valid");
}
