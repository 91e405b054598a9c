//! A disk under random requests, compared with the history of each sector.

use super::{DiskModel, of, read, write};
use crate::disk::{BUFFER, Block, SECTOR, SLOTS};
use crate::request::{Reply, Request, kind, told};
use crate::world::{Ended, World};
use base::prng::Prng;
use virtio::fake::{Fake, MEMORY, Model};
use virtio::queue;

const SECTORS: u64 = 80;

/// A write: when it began and ended, and whether it was answered. One that was not answered is over
/// when its caller was: it may have been carried out or not.
#[derive(Clone, Copy)]
struct Written {
    began: u64,
    ended: u64,
    answered: bool,
    first: u64,
    end: u64,
}

struct History {
    /// By the number that their data contain.
    writes: Vec<Written>,
    seed: u64,
}

/// The contents of a sector after write number `number`.
fn contents(number: usize, sector: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        let value = (number as u64) << 32 | sector << 8 | at as u64;
        word.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

impl History {
    fn new(seed: u64) -> History {
        let all = Written { began: 0, ended: 0, answered: true, first: 0, end: SECTORS };
        History { writes: vec![all], seed }
    }

    /// Returns the data of the next write.
    fn data(&mut self, request: &Request, now: u64) -> Vec<u8> {
        let (first, end) = (request.at, request.at + u64::from(request.length) / SECTOR as u64);
        let number = self.writes.len();
        let pending = Written { began: now, ended: u64::MAX, answered: false, first, end };
        self.writes.push(pending);
        (first..end).flat_map(|sector| contents(number, sector)).collect()
    }

    fn ended(&mut self, ended: &Ended, now: u64) {
        let (seed, request) = (self.seed, &ended.caller.request);
        let reply = ended.reply;
        assert!(reply.is_none_or(|reply| reply.told == told::DONE), "seed {seed}: {reply:?}");
        match request.kind {
            kind::READ if reply.is_some() => {
                assert_eq!(ended.bytes().len(), request.length as usize, "seed {seed}");
                for (at, bytes) in ended.bytes().chunks(SECTOR).enumerate() {
                    self.check(request.at + at as u64, bytes, ended.caller.began, now);
                }
            }
            kind::WRITE => {
                let number = u64::from_le_bytes(ended.caller.bulk[..8].try_into().unwrap()) >> 32;
                let written = &mut self.writes[number as usize];
                (written.ended, written.answered) = (now, reply.is_some());
                assert!(reply.is_none_or(|reply| reply.taken == request.length), "seed {seed}");
            }
            _ => {}
        }
    }

    /// Checks what a read between `began` and `ended` found: no write that ended before the read
    /// began came after the write that it saw.
    fn check(&self, sector: u64, bytes: &[u8], began: u64, ended: u64) {
        let seed = self.seed;
        let number = (u64::from_le_bytes(bytes[..8].try_into().unwrap()) >> 32) as usize;
        assert_eq!(bytes, contents(number, sector), "seed {seed}, sector {sector}");
        let seen = self.writes[number];
        assert!(seen.began <= ended, "seed {seed}: not written yet");
        let later = self.writes.iter().position(|other| {
            let covers = (other.first..other.end).contains(&sector) && other.answered;
            covers && other.began > seen.ended && other.ended < began
        });
        assert_eq!(later, None, "seed {seed}: sector {sector} has the data of write {number}");
    }
}

fn disk() -> Fake<DiskModel> {
    let blank = (0..SECTORS).flat_map(|sector| contents(0, sector)).collect();
    Fake::new(2, 1 << 9, SECTORS, DiskModel(blank))
}

type Disk<'a> = World<'a, Block, DiskModel>;

fn take_ended(world: &mut Disk<'_>, history: &mut History) {
    let now = world.now;
    for ended in std::mem::take(&mut world.ended) {
        history.ended(&ended, now);
    }
}

fn random_request(world: &mut Disk<'_>, history: &mut History, prng: &mut Prng) {
    let most = if prng.chance(1, 30) { 64 } else { 6 };
    let sectors = 1 + prng.below(most);
    // Half of them meet in a few sectors.
    let most = if prng.chance(1, 2) { 4 } else { SECTORS };
    let at = prng.below(most.min(SECTORS - sectors + 1));
    let length = sectors as usize * SECTOR;
    let who = prng.below(2) as usize;
    match prng.below(9) {
        0 => drop(world.request(who, of(kind::FLUSH), Vec::new())),
        1..5 => drop(world.request(who, read(length, at), vec![0; length])),
        _ => {
            let request = write(length, at);
            let data = history.data(&request, world.now);
            world.request(who, request, data);
        }
    }
}

/// Random requests of two kernels to a device that acknowledges late, serves late and in any order,
/// and fails; with callers that give up, kernels that die, also within a step, and lost wakes. Each
/// request ends once, every read finds what was written last, and no caller waits forever.
#[test]
fn every_request_ends_once_with_the_right_bytes() {
    for seed in 0..1500 {
        let (mut prng, fake) = (Prng::new(seed), disk());
        let (mut world, mut history) = (Disk::new(&fake), History::new(seed));
        let harm = seed % 3 > 0;
        for _ in 0..250 {
            fake.eager.set(prng.chance(seed % 4, 20));
            match prng.below(8) {
                0 | 1 if world.callers.len() < 9 => {
                    random_request(&mut world, &mut history, &mut prng);
                }
                2 if harm && prng.chance(1, 6) => world.mischance(&mut prng),
                _ => world.chance(&mut prng, false),
            }
            take_ended(&mut world, &mut history);
        }
        world.make_up();
        world.settle();
        take_ended(&mut world, &mut history);
        assert!(world.callers.is_empty(), "seed {seed}: {} callers wait", world.callers.len());
        for sector in 0..SECTORS {
            let back = world.call(0, read(SECTOR, sector), vec![0; SECTOR]);
            history.ended(&back, world.now);
        }
    }
}

/// Opens the disk, and lets `count` reads fill its slots.
fn full(world: &mut Disk<'_>, count: usize) -> Vec<share::Token> {
    world.call(0, of(kind::ABOUT), Vec::new());
    world.fake.eager.set(false);
    (0..count).map(|at| world.request(at % 2, read(SECTOR, at as u64), vec![0; SECTOR])).collect()
}

#[test]
fn each_caller_is_woken_once_when_its_own_request_is_complete() {
    let fake = disk();
    let mut world = Disk::new(&fake);
    let tokens = full(&mut world, SLOTS);
    fake.take();
    for at in [2, 0, 1, 3] {
        // The device has the others before it in its list.
        let place =
            tokens[..at].iter().filter(|token| world.callers.iter().any(|it| it.token == **token));
        assert!(fake.complete(place.count()));
        world.interrupt(at % 2);
        assert_eq!(world.woken, [tokens[at]]);
        world.event(0, share::Event::Device);
        assert_eq!(world.woken, [tokens[at]], "once");
        world.deliver();
        assert_eq!(world.reply(tokens[at]).unwrap().bytes(), contents(0, at as u64));
    }
}

#[test]
fn a_free_slot_goes_to_who_waited_for_it_first() {
    let fake = disk();
    let mut world = Disk::new(&fake);
    let tokens = full(&mut world, SLOTS + 2);
    fake.take();
    assert!(fake.complete(0));
    world.interrupt(0);
    assert_eq!(world.woken, [tokens[0]]);
    world.deliver();
    assert_eq!(world.woken, [tokens[4]], "one slot is free, so one caller is woken");
    // Another request does not get it.
    let late = world.request(1, read(SECTOR, 9), vec![0; SECTOR]);
    fake.take();
    assert_eq!(fake.in_flight(), SLOTS - 1);
    world.deliver();
    fake.take();
    assert_eq!((fake.in_flight(), &world.woken[..]), (SLOTS, &[][..]));
    world.settle();
    assert!(tokens[4..].iter().chain([&late]).all(|token| world.reply(*token).is_some()));
}

#[test]
fn a_slot_is_free_again_when_its_caller_is_gone_and_the_device_has_completed_it() {
    let fake = disk();
    let mut world = Disk::new(&fake);
    let tokens = full(&mut world, SLOTS);
    fake.take();
    world.cancel(tokens[0]);
    world.die(1, false);
    let next = world.request(0, read(SECTOR, 9), vec![0; SECTOR]);
    assert_eq!(fake.in_flight(), SLOTS, "the device may still write to all slots");
    assert!(fake.complete(0));
    world.interrupt(0);
    assert_eq!(world.woken, [next]);
    world.settle();
    assert!(world.reply(next).is_some());
}

#[test]
fn a_write_of_a_caller_that_is_gone_overtakes_nothing() {
    let fake = disk();
    let mut world = Disk::new(&fake);
    full(&mut world, 0);
    let lost = world.request(1, write(SECTOR, 5), vec![1; SECTOR]);
    fake.take();
    world.cancel(lost);
    let after = world.request(0, write(SECTOR, 5), vec![2; SECTOR]);
    let other = world.request(0, read(SECTOR, 6), vec![0; SECTOR]);
    fake.take();
    assert_eq!(fake.in_flight(), 2, "the write waits, the read does not");
    fake.complete(0);
    world.interrupt(1);
    assert_eq!(world.woken, [after]);
    world.settle();
    assert!(world.reply(after).is_some() && world.reply(other).is_some());
    assert_eq!(world.call(0, read(SECTOR, 5), vec![0; SECTOR]).bytes(), [2; SECTOR]);
}

#[test]
fn a_request_waits_for_a_write_in_flight_to_the_same_sectors() {
    let fake = disk();
    let mut world = Disk::new(&fake);
    full(&mut world, 0);
    // Its kernel may be dead without the driver's knowledge, and this is its repetition.
    let first = world.request(1, write(2 * SECTOR, 5), vec![1; 2 * SECTOR]);
    let again = world.request(0, write(SECTOR, 6), vec![2; SECTOR]);
    fake.take();
    assert_eq!(fake.in_flight(), 1);
    fake.complete(0);
    world.interrupt(0);
    assert_eq!(world.woken, [first, again]);
    world.settle();
    assert!(world.reply(again).is_some());
    assert_eq!(world.call(0, read(SECTOR, 6), vec![0; SECTOR]).bytes(), [2; SECTOR]);
}

#[test]
fn requests_in_flight_are_repeated_when_the_device_needs_a_reset() {
    let fake = disk();
    let mut world = Disk::new(&fake);
    let tokens = full(&mut world, SLOTS + 1);
    fake.take();
    fake.complete(1);
    fake.fail();
    world.interrupt(1);
    let first = fake.resets.get();
    world.settle();
    assert_eq!(fake.resets.get(), first + 1);
    for (at, token) in tokens.into_iter().enumerate() {
        assert_eq!(world.reply(token).unwrap().bytes(), contents(0, at as u64));
    }
}

/// A device that writes little.
struct Short;

impl Model for Short {
    fn serve(&mut self, _: usize, _: &[u8], _: usize) -> Option<Vec<u8>> {
        Some(vec![1; 100])
    }
}

#[test]
fn a_read_that_did_not_fill_its_buffer_has_failed() {
    let fake = Fake::new(2, 1 << 9, SECTORS, Short);
    let mut world: World<'_, Block, Short> = World::new(&fake);
    world.call(0, of(kind::ABOUT), Vec::new());
    fake.eager.set(false);
    let token = world.request(0, read(SECTOR, 0), vec![0; SECTOR]);
    fake.take();
    // The device says OK.
    fake.set(MEMORY + queue::BYTES + 16, 0);
    fake.complete(0);
    world.interrupt(0);
    world.deliver();
    assert_eq!(world.reply(token).unwrap().reply, Some(Reply::of(told::FAILED)));
}

/// A device that completes requests without a status.
struct NoStatus;

impl Model for NoStatus {
    fn serve(&mut self, _: usize, _: &[u8], _: usize) -> Option<Vec<u8>> {
        Some(Vec::new())
    }
}

#[test]
fn a_request_that_is_completed_without_a_status_has_failed() {
    let fake = Fake::new(2, 1 << 9, SECTORS, NoStatus);
    let mut world: World<'_, Block, NoStatus> = World::new(&fake);
    for request in [read(SECTOR, 0), write(SECTOR, 0), of(kind::FLUSH)] {
        let reply = world.call(0, request, vec![0; SECTOR]).reply;
        assert_eq!(reply, Some(Reply::of(told::FAILED)));
    }
}

fn fail_again(world: &mut Disk<'_>) {
    world.now += 100_000;
    world.fake.acknowledge();
    world.fake.fail();
    world.interrupt(0);
    world.timers();
}

#[test]
fn a_device_that_fails_each_time_is_given_up() {
    let fake = disk();
    let mut world = Disk::new(&fake);
    full(&mut world, 0);
    let token = world.request(0, read(BUFFER, 0), vec![0; BUFFER]);
    for _ in 0..100 {
        fail_again(&mut world);
        world.deliver();
    }
    assert_eq!(world.reply(token).unwrap().reply.map(|reply| reply.told), Some(told::ABSENT));
    assert!(fake.resets.get() < 12, "{} resets", fake.resets.get());
}

#[test]
fn results_that_no_caller_gets_because_the_device_has_failed_occupy_no_slots() {
    let fake = disk();
    let mut world = Disk::new(&fake);
    let tokens = full(&mut world, SLOTS);
    fake.take();
    while fake.complete(0) {}
    world.interrupt(0);
    for _ in 0..100 {
        fail_again(&mut world);
    }
    for token in tokens {
        world.again(token);
        assert_eq!(world.reply(token).unwrap().reply, Some(Reply::of(told::ABSENT)));
    }
    world.event(0, share::Event::Device);
    full(&mut world, SLOTS);
    fake.take();
    assert_eq!(fake.in_flight(), SLOTS);
}
