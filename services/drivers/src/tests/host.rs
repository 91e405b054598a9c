//! Streams with a simulated host, under random use and accidents.

use super::of;
use crate::host::Link;
use crate::request::{Reply, Request, kind, told};
use crate::streams::STREAMS;
use crate::world::{Ended, World};
use abi::host::PORT;
use abi::vsock::{BOARD, Consumed, Credit, DATA, DEVICE_ID, HOST, Header, NO_SEND, Op};
use base::prng::Prng;
use share::Event;
use std::collections::VecDeque;
use virtio::fake::{Fake, Model};
use zerocopy::{FromBytes, IntoBytes};

mod accepting;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Asks,
    Open,
    Over,
}

/// The host's end of a stream. It sends bytes that depend on its number, and receives others.
struct Peer {
    phase: Phase,
    credit: Credit,
    /// Bytes that it wants to send, and those sent.
    wants: u64,
    sent: u64,
    /// Whether it sends no more after that.
    ends: bool,
    said_end: bool,
    received: Vec<u8>,
    consumed: Consumed,
    control: VecDeque<Op>,
}

/// The n-th byte of stream `peer` to the board. The first one names the stream.
fn byte(peer: usize, n: u64) -> u8 {
    if n == 0 { peer as u8 } else { Prng::new(n * 256 + peer as u64).next() as u8 }
}

/// The n-th byte of the same stream to the host.
fn answer(peer: usize, n: u64) -> u8 {
    Prng::new(!(n * 256 + peer as u64)).next() as u8
}

#[derive(Default)]
struct Peers(Vec<Peer>);

impl Peers {
    fn open(&mut self) {
        self.0.push(Peer {
            phase: Phase::Asks,
            credit: Credit::default(),
            wants: 1,
            sent: 0,
            ends: false,
            said_end: false,
            received: Vec::new(),
            consumed: Consumed::default(),
            control: VecDeque::from([Op::Request]),
        });
    }

    fn told(&mut self, header: &Header, data: &[u8]) {
        assert_eq!((header.to_port.get() / 1000, header.from_port.get()), (1, PORT));
        let peer = &mut self.0[header.to_port.get() as usize % 1000];
        peer.credit.told(header);
        match Op::from_code(header.op.get()).unwrap() {
            Op::Response => {
                assert_eq!(peer.phase, Phase::Asks);
                peer.phase = Phase::Open;
            }
            Op::Data if peer.phase == Phase::Open => {
                peer.received.extend(data);
                peer.consumed.add(data.len());
                if peer.consumed.is_due() {
                    peer.control.push_back(Op::Credit);
                }
            }
            Op::Shutdown => {
                if peer.phase != Phase::Over {
                    peer.control.push_back(Op::Reset);
                }
                peer.phase = Phase::Over;
            }
            Op::Reset => peer.phase = Phase::Over,
            _ => {}
        }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        for (number, peer) in self.0.iter_mut().enumerate() {
            let ports = (1000 + number as u32, PORT);
            let packet = |said, consumed: &mut Consumed, data: &[u8]| {
                let header = Header::new((HOST, BOARD), ports, said, consumed);
                Some([header.as_bytes(), data].concat())
            };
            if let Some(op) = peer.control.pop_front() {
                return packet((op, 0, 0), &mut peer.consumed, &[]);
            }
            if peer.phase != Phase::Open {
                continue;
            }
            let room = u64::from(peer.credit.room()).min(DATA as u64);
            let bytes = (peer.wants - peer.sent).min(room);
            if bytes > 0 {
                let data: Vec<u8> =
                    (peer.sent..peer.sent + bytes).map(|n| byte(number, n)).collect();
                peer.sent += bytes;
                peer.credit.sent(bytes as u32);
                return packet((Op::Data, data.len(), 0), &mut peer.consumed, &data);
            }
            if peer.ends && peer.sent == peer.wants && !peer.said_end {
                peer.said_end = true;
                return packet((Op::Shutdown, 0, NO_SEND), &mut peer.consumed, &[]);
            }
        }
        None
    }
}

impl Model for Peers {
    fn serve(&mut self, queue: usize, input: &[u8], _: usize) -> Option<Vec<u8>> {
        if queue == 0 {
            return self.next();
        }
        let (header, data) = Header::read_from_prefix(input).unwrap();
        self.told(&header, data);
        Some(Vec::new())
    }

    /// As the soc: streams that are open end, the others are offered again.
    fn reset(&mut self, _taken: u64) {
        for peer in &mut self.0 {
            peer.control.clear();
            match peer.phase {
                Phase::Asks => peer.control.push_back(Op::Request),
                _ => peer.phase = Phase::Over,
            }
        }
    }
}

/// A stream that a kernel has accepted.
struct Used {
    number: u64,
    kernel: usize,
    epoch: u16,
    /// The host's number of it, once the first byte was read.
    peer: Option<usize>,
    read: u64,
    wrote: u64,
    /// A WRITE with this number of bytes before it is under way.
    writes: bool,
    over: bool,
}

type Host<'a> = World<'a, Link, Peers>;

#[derive(Default)]
struct Users {
    used: Vec<Used>,
    /// Streams that have ended for their readers.
    to_close: Vec<u64>,
    seed: u64,
}

fn request(kind: u32, length: usize, at: u64) -> Request {
    Request { kind, length: length as u32, at, ..Request::default() }
}

impl Users {
    /// A random request of a kernel for one of its streams.
    fn request(&mut self, world: &mut Host<'_>, prng: &mut Prng) {
        let who = prng.below(2) as usize;
        let own: Vec<usize> = (0..self.used.len())
            .filter(|at| self.used[*at].kernel == who && !self.used[*at].over)
            .collect();
        if own.is_empty() || prng.chance(1, 6) {
            world.request(who, of(kind::ACCEPT), Vec::new());
            return;
        }
        let used = &mut self.used[own[prng.below(own.len() as u64) as usize]];
        let length = 1 + prng.below(3000) as usize;
        match (prng.below(12), used.peer) {
            (0, _) => drop(world.request(who, request(kind::CLOSE, 0, used.number), Vec::new())),
            (5, _) => drop(world.request(who, request(kind::SINGLE, 0, used.number), Vec::new())),
            (1..5, Some(peer)) if !used.writes => {
                used.writes = true;
                let from = used.wrote;
                let data = (from..from + length as u64).map(|n| answer(peer, n)).collect();
                world.request(who, request(kind::WRITE, length, used.number), data);
            }
            _ => {
                world.request(who, request(kind::READ, length, used.number), vec![0; length]);
            }
        }
    }

    fn ended(&mut self, ended: &Ended) {
        let (seed, asked) = (self.seed, ended.caller.request);
        let Some(reply) = ended.reply else {
            if let Some(used) = self.used.iter_mut().find(|used| used.number == asked.at) {
                used.writes &= asked.kind != kind::WRITE;
            }
            return;
        };
        if asked.kind == kind::ACCEPT {
            let same = self.used.iter().any(|used| used.number == reply.value);
            assert!(reply.told == told::DONE && !same, "seed {seed}: stream {}", reply.value);
            let (number, kernel) = (reply.value, ended.caller.kernel());
            let epoch = ended.caller.token.epoch;
            let (peer, read, wrote, writes, over) = (None, 0, 0, false, false);
            return self.used.push(Used { number, kernel, epoch, peer, read, wrote, writes, over });
        }
        let Some(used) = self.used.iter_mut().find(|used| used.number == asked.at) else { return };
        match asked.kind {
            kind::CLOSE => used.over = true,
            kind::SINGLE => {}
            _ if reply.told == told::GONE => used.over = true,
            kind::WRITE => {
                used.wrote += u64::from(reply.taken);
                used.writes = false;
                assert!(reply.taken > 0, "seed {seed}");
            }
            _ if reply.filled == 0 => {
                used.over = true;
                self.to_close.push(used.number);
            }
            _ => {
                let bytes = ended.bytes();
                let peer = *used.peer.get_or_insert(usize::from(bytes[0]));
                for &found in bytes {
                    assert_eq!(found, byte(peer, used.read), "seed {seed}: stream {peer}");
                    used.read += 1;
                }
            }
        }
    }
}

fn take_ended(world: &mut Host<'_>, users: &mut Users) {
    for ended in std::mem::take(&mut world.ended) {
        users.ended(&ended);
    }
    // The streams of a dead kernel are closed without its help.
    for used in &mut users.used {
        used.over |= used.epoch != world.epochs[used.kernel];
    }
    for number in std::mem::take(&mut users.to_close) {
        if users.used.iter().any(|it| it.number == number && it.epoch == world.epochs[it.kernel]) {
            world.request(0, request(kind::CLOSE, 0, number), Vec::new());
        }
    }
}

fn host() -> Fake<Peers> {
    Fake::new(DEVICE_ID, 0, BOARD, Peers::default())
}

fn random_host(fake: &Fake<Peers>, prng: &mut Prng) {
    let mut peers = fake.model.borrow_mut();
    let live = peers.0.iter().filter(|peer| peer.phase != Phase::Over).count();
    if live < STREAMS && peers.0.len() < 200 && prng.chance(1, 3) {
        return peers.open();
    }
    let Some(count) = (peers.0.len() as u64).checked_sub(1) else { return };
    let peer = &mut peers.0[prng.below(count + 1) as usize];
    match prng.below(12) {
        0 => peer.ends = true,
        1 if peer.phase == Phase::Open && prng.chance(1, 3) => {
            peer.phase = Phase::Over;
            peer.control.push_back(Op::Reset);
        }
        _ if peer.ends => {}
        _ => peer.wants += prng.below(8_000),
    }
}

/// Random streams of two kernels with a host, with accidents. Each stream carries its bytes in
/// order, every request ends, and no stream of a dead kernel stays open at the host.
#[test]
fn streams_carry_their_bytes_and_end_with_their_kernel() {
    for seed in 0..1000 {
        let (mut prng, fake) = (Prng::new(seed), host());
        let mut world = Host::new(&fake);
        let mut users = Users { seed, ..Users::default() };
        let harm = seed % 3 > 0;
        for _ in 0..300 {
            fake.eager.set(prng.chance(seed % 4, 20));
            match prng.below(10) {
                0 | 1 => random_host(&fake, &mut prng),
                2 | 3 if world.callers.len() < 12 => users.request(&mut world, &mut prng),
                4 if harm && prng.chance(1, 9) => world.mischance(&mut prng),
                5 if prng.chance(1, 9) => serve(&mut world, prng.below(2) as usize),
                _ => world.chance(&mut prng, true),
            }
            take_ended(&mut world, &mut users);
        }
        finish(&mut world, &mut users);
    }
}

/// Lets all bytes arrive, then all streams end.
fn finish(world: &mut Host<'_>, users: &mut Users) {
    let seed = users.seed;
    world.make_up();
    let mut reads = 1;
    // The streams of one kernel may wait for the end of the other's.
    while reads > 0 || !world.ended.is_empty() {
        take_ended(world, users);
        world.settle();
        take_ended(world, users);
        reads = 0;
        for used in users.used.iter().filter(|used| !used.over) {
            let waits = world.callers.iter().any(|caller| caller.request.at == used.number);
            if !waits {
                let (who, number) = (used.kernel, used.number);
                world.request(who, request(kind::READ, 9000, number), vec![0; 9000]);
                reads += 1;
            }
        }
        world.settle();
    }
    let peers = std::mem::take(&mut world.fake.model.borrow_mut().0);
    for used in users.used.iter().filter(|used| !used.over) {
        let Some(number) = used.peer else { continue };
        let peer = &peers[number];
        assert_eq!(peer.phase, Phase::Open, "seed {seed}: stream {number}");
        assert_eq!(used.read, peer.wants, "seed {seed}: stream {number} to the board");
        let all: Vec<u8> = (0..used.wrote).map(|n| answer(number, n)).collect();
        assert!(peer.received == all, "seed {seed}: stream {number} to the host");
    }
    let open = peers.iter().filter(|peer| peer.phase == Phase::Open).count();
    let known = users.used.iter().filter(|used| !used.over).count();
    assert!(open <= known, "seed {seed}: {open} streams are open, {known} have a user");
    world.fake.model.borrow_mut().0 = peers;
    world.fake.fail();
    world.settle();
    take_ended(world, users);
    let accepts = |caller: &&crate::world::Caller| caller.request.kind == kind::ACCEPT;
    let waiting = world.callers.iter().filter(|caller| !accepts(caller)).count();
    assert_eq!(waiting, 0, "seed {seed}: callers wait for streams that have ended");
}

/// From now on, a kernel serves the device. It looks once.
fn serve(world: &mut Host<'_>, who: usize) {
    world.server = Some(who);
    world.event(who, Event::Device);
}

/// Opens `count` streams from the host.
fn offers(world: &mut Host<'_>, count: usize) {
    (0..count).for_each(|_| world.fake.model.borrow_mut().open());
    world.settle();
}

#[test]
fn the_host_sees_the_end_of_the_streams_of_a_dead_kernel() {
    let fake = host();
    let mut world = Host::new(&fake);
    offers(&mut world, 2);
    let number = world.call(1, of(kind::ACCEPT), Vec::new()).reply.map_or(0, |reply| reply.value);
    // The other kernel gets no stream while this one has some.
    let other = world.request(0, of(kind::ACCEPT), Vec::new());
    world.settle();
    assert!(world.reply(other).is_none());
    world.die(1, false);
    world.settle();
    let next = world.reply(other).and_then(|ended| ended.reply).map_or(0, |reply| reply.value);
    let phases: Vec<Phase> = fake.model.borrow().0.iter().map(|peer| peer.phase).collect();
    assert_eq!(phases, [Phase::Over, Phase::Open]);
    let mut told = |number| {
        world.call(0, request(kind::WRITE, 1, number), vec![1]).reply.map(|reply| reply.told)
    };
    assert_eq!((told(number), told(next)), (Some(told::GONE), Some(told::DONE)));
}

#[test]
fn streams_of_an_earlier_life_are_gone() {
    let fake = host();
    let mut world = Host::new(&fake);
    offers(&mut world, 1);
    let old = world.call(0, of(kind::ACCEPT), Vec::new()).reply.map_or(0, |reply| reply.value);
    let reader = world.request(1, request(kind::READ, 9, old), vec![0; 9]);
    world.settle();
    assert!(world.reply(reader).is_some(), "the first byte");
    world.lose();
    offers(&mut world, 1);
    let new = world.call(0, of(kind::ACCEPT), Vec::new()).reply.map_or(0, |reply| reply.value);
    assert_ne!(old, new);
    let gone = Some(Reply::of(told::GONE));
    assert_eq!(world.call(0, request(kind::READ, 9, old), vec![0; 9]).reply, gone);
    assert_eq!(world.call(0, request(kind::CLOSE, 0, old), vec![0; 9]).reply, gone);
    assert_eq!(world.call(1, request(kind::READ, 9, new), vec![0; 9]).bytes(), [1]);
}

#[test]
fn a_close_ends_the_waits_of_others_and_data_written_before_arrive() {
    let fake = host();
    let mut world = Host::new(&fake);
    offers(&mut world, 1);
    let number = world.call(0, of(kind::ACCEPT), Vec::new()).reply.map_or(0, |reply| reply.value);
    assert_eq!(world.call(0, request(kind::READ, 9, number), vec![0; 9]).bytes(), [0]);
    let readers = [0, 1].map(|who| world.request(who, request(kind::READ, 9, number), vec![0; 9]));
    world.settle();
    assert_eq!(world.callers.len(), 2);
    let mut sent = 0;
    while sent < 20_000 {
        let bulk: Vec<u8> = (sent..20_000).map(|n| answer(0, n)).collect();
        let length = bulk.len();
        let reply = world.call(0, request(kind::WRITE, length, number), bulk).reply.unwrap();
        sent += u64::from(reply.taken);
    }
    world.call(0, request(kind::CLOSE, 0, number), Vec::new());
    world.deliver();
    for token in readers {
        assert_eq!(world.reply(token).unwrap().reply, Some(Reply::of(told::DONE)), "the end");
    }
    world.settle();
    let peers = fake.model.borrow();
    assert_eq!(peers.0[0].received, (0..20_000).map(|n| answer(0, n)).collect::<Vec<_>>());
    assert_eq!(peers.0[0].phase, Phase::Over);
}

#[test]
fn more_packets_than_a_step_takes_are_continued_by_a_timer() {
    let fake = host();
    let mut world = Host::new(&fake);
    offers(&mut world, 3);
    for _ in 0..3 {
        world.call(0, of(kind::ACCEPT), Vec::new());
    }
    world.settle();
    fake.model.borrow_mut().0.iter_mut().for_each(|peer| peer.wants = 30_000);
    // The device refills each buffer at once, and its interrupts are lost but for the first one.
    fake.turn();
    world.event(0, Event::Device);
    let sent = || fake.model.borrow().0.iter().map(|peer| peer.sent).sum::<u64>();
    assert!(sent() < 90_000, "a step is bounded");
    for _ in 0..9 {
        fake.news.set(false);
        world.timers();
    }
    assert_eq!(sent(), 90_000);
}
