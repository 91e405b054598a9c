//! Opening, reading and writing.

use super::{ConsoleModel, DiskModel, RandomModel, of, read, write};
use crate::console::Port;
use crate::disk::{self, Block};
use crate::random::Rng;
use crate::request::{Reply, flag, kind, told};
use crate::world::World;
use base::port::Words;
use share::Event;
use std::cell::Cell;
use virtio::fake::{Fake, Model};
use virtio::queue::{ENTRIES, Piece, Queue};
use virtio::transport::Problem;

fn disk(features: u64) -> Fake<DiskModel> {
    Fake::new(2, features, 64, DiskModel(vec![0; 64 * 512]))
}

#[test]
fn a_disk_reads_what_was_written_from_either_kernel() {
    let fake = disk(1 << 9);
    let mut world: World<'_, Block, _> = World::new(&fake);
    let about = world.call(0, of(kind::ABOUT), Vec::new()).reply;
    assert_eq!(about, Some(Reply { value: 64, ..Reply::of(told::DONE) }));
    for round in 0..50u8 {
        let who = usize::from(round % 2);
        let data = vec![round; 1024];
        let wrote = world.call(who, write(1024, 3), data.clone()).reply;
        assert_eq!(wrote, Some(Reply { taken: 1024, ..Reply::of(told::DONE) }));
        let back = world.call(1 - who, read(1024, 3), vec![0; 2000]);
        assert_eq!(back.bytes(), data);
    }
    assert_eq!(world.call(0, of(kind::FLUSH), Vec::new()).reply, Some(Reply::of(told::DONE)));
    let fake = Fake::new(2, 0, 128, DiskModel(vec![0; 128 * 512]));
    let mut world: World<'_, Block, _> = World::new(&fake);
    let part = world.call(1, write(disk::BUFFER + 512, 0), vec![9; disk::BUFFER + 512]).reply;
    assert_eq!(part.map(|reply| reply.taken as usize), Some(disk::BUFFER), "the first part");
    let part = world.call(1, read(disk::BUFFER, 0), vec![0; 1000]);
    assert_eq!(part.bytes(), [9; 512], "whole sectors that fit bulk");
}

#[test]
fn impossible_disk_requests_are_refused() {
    let fake = disk(1 << 5);
    let mut world: World<'_, Block, _> = World::new(&fake);
    let mut told = |request| world.call(0, request, vec![0; 512]).reply.map(|reply| reply.told);
    for request in [read(512, 64), read(100, 0), read(512, u64::MAX), read(1024, 63), read(0, 0)] {
        assert_eq!(told(request), Some(told::RANGE), "{request:?}");
    }
    assert_eq!(told(write(512, 0)), Some(told::READ_ONLY));
    assert_eq!(told(of(kind::FLUSH)), Some(told::UNSUPPORTED));
    assert_eq!(told(of(kind::ACCEPT)), Some(told::REFUSED));
    let about = world.call(0, of(kind::ABOUT), Vec::new()).reply;
    assert_eq!(about.map(|reply| reply.flags), Some(flag::READ_ONLY));
}

#[test]
fn a_console_carries_both_directions() {
    let fake = Fake::new(3, 0, 0, ConsoleModel::default());
    let mut world: World<'_, Port, _> = World::new(&fake);
    let long: Vec<u8> = (0..9000u32).map(|i| i as u8).collect();
    let mut sent = 0;
    while sent < long.len() {
        let bulk = long[sent..].to_vec();
        let reply = world.call(sent % 2, write(bulk.len(), 0), bulk).reply.unwrap();
        assert!(reply.taken > 0);
        sent += reply.taken as usize;
    }
    world.settle();
    assert_eq!(fake.model.borrow().printed, long);
    fake.model.borrow_mut().typed = b"hello".to_vec();
    assert_eq!(world.call(0, read(3, 0), vec![0; 3]).bytes(), b"hel");
    assert_eq!(world.call(1, read(3, 0), vec![0; 8]).bytes(), b"lo");
    let token = world.request(0, read(3, 0), vec![0; 3]);
    world.settle();
    assert!(world.reply(token).is_none(), "there is no input");
}

#[test]
fn random_bytes_come_once_for_each_request() {
    let fake = Fake::new(4, 0, 0, RandomModel);
    let mut world: World<'_, Rng, _> = World::new(&fake);
    assert_eq!(world.call(0, read(16, 0), vec![0; 32]).bytes(), [7; 16]);
    assert_eq!(world.call(1, read(100, 0), vec![0; 100]).bytes(), [7; 64]);
    let tokens = [0, 1, 0, 1].map(|who| world.request(who, read(8, 0), vec![0; 8]));
    world.settle();
    assert!(tokens.iter().all(|token| world.reply(*token).is_some_and(|it| it.bytes() == [7; 8])));
}

/// Sends a request to a device that cannot be opened.
fn problem<M: Model>(fake: &Fake<M>, set: impl Fn(&mut World<'_, Rng, M>)) -> Option<Problem> {
    let mut world: World<'_, Rng, M> = World::new(fake);
    set(&mut world);
    let ended = world.call(0, of(kind::ABOUT), Vec::new());
    assert_eq!(ended.reply, Some(Reply::of(told::ABSENT)));
    world.state.problem()
}

#[test]
fn a_device_that_cannot_be_opened_is_absent() {
    let fake = Fake::new(9, 0, 0, RandomModel);
    assert_eq!(problem(&fake, |_| ()), Some(Problem::WrongDevice(9)));
    assert_eq!(problem(&fake, |world| world.memory = 8), Some(Problem::Memory));
    assert_eq!(problem(&fake, |world| world.has_device = false), None);
    let old = Fake::new(4, 0, 0, RandomModel);
    old.set(2048 + 16, 0);
    assert_eq!(problem(&old, |_| ()), Some(Problem::Features));
    let small = Fake::new(4, 0, 0, RandomModel);
    small.set(2048 + 32, 8);
    assert_eq!(problem(&small, |_| ()), Some(Problem::QueueTooSmall));
}

#[test]
fn a_silent_device_is_given_up_and_tried_again_when_it_speaks() {
    let fake = Fake::new(4, 0, 0, RandomModel);
    fake.eager.set(false);
    let mut world: World<'_, Rng, _> = World::new(&fake);
    let tokens = [0, 1].map(|who| world.request(who, read(8, 0), vec![0; 8]));
    for _ in 0..60 {
        world.now += 100_000_000;
        world.timers();
        world.deliver();
    }
    for token in tokens {
        assert_eq!(world.reply(token).unwrap().reply, Some(Reply::of(told::ABSENT)));
    }
    assert_eq!(world.state.problem(), Some(Problem::Silent));
    world.event(1, Event::Device);
    assert_eq!(world.call(0, read(8, 0), vec![0; 8]).bytes(), [7; 8]);
}

struct Ram(Vec<Cell<u64>>);

impl Words for Ram {
    fn load(&self, at: usize) -> u64 {
        self.0[at / 8].get()
    }
    fn store(&self, at: usize, value: u64) {
        self.0[at / 8].set(value);
    }
    fn barrier(&self) {}
}

#[test]
fn invalid_completions_are_counted_and_ignored() {
    let ram = Ram((0..0x1000).map(|_| Cell::new(0)).collect());
    let mut queue = Queue::new(&ram, 0);
    let piece = Piece { address: 0, bytes: 4, device_writes: true };
    let head = queue.submit(&ram, &[piece]).unwrap();
    // Three completions: an index beyond the table, one never submitted, a valid one with too many
    // bytes.
    let used = 320;
    let (beyond, never) = (0xffff_u64, 5_u64);
    ram.store(used, 3 << 16 | beyond << 32);
    ram.store(used + 8, never << 32);
    ram.store(used + 16, u64::from(head) << 32);
    ram.store(used + 24, 1000);
    let done = queue.complete(&ram).unwrap();
    assert_eq!((done.head, done.bytes, queue.bogus), (head, 4, 2));
    assert_eq!(queue.complete(&ram), None);
    // More completions than the queue has entries.
    queue.submit(&ram, &[piece]).unwrap();
    ram.store(used, 3000 << 16);
    assert_eq!((queue.complete(&ram), queue.bogus), (None, 3));
    assert_eq!(queue.complete(&ram), None);
}

#[test]
fn a_full_queue_refuses_requests_and_changes_nothing() {
    let ram = Ram((0..0x1000).map(|_| Cell::new(0)).collect());
    let mut queue = Queue::new(&ram, 0);
    let piece = Piece { address: 0, bytes: 4, device_writes: true };
    for _ in 0..ENTRIES / 2 {
        assert!(queue.submit(&ram, &[piece, piece]).is_some());
    }
    let before: Vec<_> = ram.0.iter().map(Cell::get).collect();
    assert_eq!(queue.submit(&ram, &[piece]), None);
    assert!(ram.0.iter().map(Cell::get).eq(before));
}
