//! The disk when the file service starts again: writes of its earlier lives.

use super::{DiskModel, of, read, write};
use crate::disk::{Block, SECTOR, mutant};
use crate::request::{Request, kind, told};
use crate::world::World;
use base::prng::Prng;
use virtio::fake::{Fake, Model};

const SECTORS: u64 = 16;

/// A disk that knows the newest life of which a request was answered. Data of a write start with
/// its life.
struct Watched {
    disk: DiskModel,
    answered: u64,
    /// Number of writes of older lives than that.
    late: u32,
}

impl Model for Watched {
    fn serve(&mut self, queue: usize, input: &[u8], room: usize) -> Option<Vec<u8>> {
        if input[0] == 1 {
            let life = u64::from_le_bytes(input[16..24].try_into().unwrap());
            self.late += u32::from(life < self.answered);
        }
        self.disk.serve(queue, input, room)
    }
}

fn watched() -> Fake<Watched> {
    let disk = DiskModel(vec![0; SECTORS as usize * SECTOR]);
    Fake::new(2, 1 << 9, SECTORS, Watched { disk, answered: 0, late: 0 })
}

type Disk<'a, const MUTANT: u8> = World<'a, Block<MUTANT>, Watched>;
type Intact<'a> = Disk<'a, { mutant::NONE }>;

fn in_life(life: u64, request: Request) -> Request {
    Request { life, ..request }
}

fn data(life: u64) -> Vec<u8> {
    life.to_le_bytes().repeat(SECTOR / 8)
}

fn random_request(prng: &mut Prng, life: u64) -> (Request, Vec<u8>) {
    let sector = prng.below(SECTORS);
    match prng.below(6) {
        0 => (of(kind::ABOUT), Vec::new()),
        1 => (of(kind::FLUSH), Vec::new()),
        2 => (read(SECTOR, sector), data(0)),
        _ => (write(SECTOR, sector), data(life)),
    }
}

/// Two kernels issue requests of the newest life and of the one before, with accidents that also
/// lose the driver's state. Returns the number of writes that came too late.
fn late_writes<const MUTANT: u8>(seed: u64) -> u32 {
    let (mut prng, fake) = (Prng::new(seed), watched());
    let mut world: Disk<'_, MUTANT> = World::new(&fake);
    let mut newest = 1;
    for _ in 0..250 {
        fake.eager.set(prng.chance(seed % 4, 20));
        match prng.below(8) {
            0 | 1 if world.callers.len() < 8 => {
                newest += u64::from(prng.chance(1, 6));
                let life = (newest - prng.below(2)).max(1);
                let (request, bulk) = random_request(&mut prng, life);
                world.request(prng.below(2) as usize, in_life(life, request), bulk);
            }
            2 if prng.chance(1, 6) => world.mischance(&mut prng),
            _ => world.chance(&mut prng, false),
        }
        note_answers(&mut world, seed, newest);
    }
    world.make_up();
    world.settle();
    note_answers(&mut world, seed, newest);
    assert!(world.callers.is_empty(), "seed {seed}: {} callers wait", world.callers.len());
    fake.model.borrow().late
}

fn note_answers<const MUTANT: u8>(world: &mut Disk<'_, MUTANT>, seed: u64, newest: u64) {
    for ended in std::mem::take(&mut world.ended) {
        let life = ended.caller.request.life;
        match ended.reply.map(|reply| reply.told) {
            Some(told::DONE) => {
                let mut model = world.fake.model.borrow_mut();
                model.answered = model.answered.max(life);
            }
            Some(told::OLD) => assert!(life < newest, "seed {seed}"),
            other => assert_eq!(other, None, "seed {seed}"),
        }
    }
}

#[test]
fn no_write_of_an_earlier_life_lands_after_an_answer_to_a_later_one() {
    for seed in 0..1500 {
        assert_eq!(late_writes::<{ mutant::NONE }>(seed), 0, "seed {seed}");
    }
}

#[test]
fn every_mutant_of_the_lives_is_found() {
    assert!((0..1500).any(|seed| late_writes::<{ mutant::NO_CHECK }>(seed) > 0));
    assert!((0..1500).any(|seed| late_writes::<{ mutant::NO_WAIT }>(seed) > 0));
    assert!((0..1500).any(|seed| late_writes::<{ mutant::NO_WORD }>(seed) > 0));
}

#[test]
fn a_later_life_waits_for_the_writes_of_an_earlier_one() {
    let fake = watched();
    let mut world = Intact::new(&fake);
    world.call(0, in_life(1, of(kind::ABOUT)), Vec::new());
    fake.eager.set(false);
    let unknown = world.request(0, write(SECTOR, 9), data(0));
    let early = world.request(1, in_life(1, write(SECTOR, 5)), data(1));
    fake.take();
    let about = world.request(0, in_life(2, of(kind::ABOUT)), Vec::new());
    let late = world.request(1, in_life(1, write(SECTOR, 6)), data(1));
    assert_eq!(world.reply(late).unwrap().reply.map(|it| it.told), Some(told::OLD));
    assert!(fake.complete(1));
    world.interrupt(0);
    assert_eq!(world.woken, [early, about]);
    world.deliver();
    assert_eq!(world.reply(about).unwrap().reply.map(|it| it.told), Some(told::DONE));
    assert_eq!(world.reply(early).unwrap().reply.map(|it| it.told), Some(told::OLD));
    world.settle();
    assert!(world.reply(unknown).is_some());
}

#[test]
fn the_newest_life_outlives_the_state() {
    let fake = watched();
    let mut world = Intact::new(&fake);
    world.call(0, in_life(2, of(kind::ABOUT)), Vec::new());
    world.lose();
    for request in [write(SECTOR, 5), read(SECTOR, 5), of(kind::FLUSH)] {
        let reply = world.call(1, in_life(1, request), data(1)).reply;
        assert_eq!(reply.map(|it| it.told), Some(told::OLD));
    }
    assert_eq!(world.call(1, read(SECTOR, 5), data(1)).bytes(), [0; SECTOR]);
    world.lose();
    let late = world.call(0, in_life(2, write(SECTOR, 5)), data(2)).reply;
    assert_eq!(late.map(|it| it.told), Some(told::DONE));
}
