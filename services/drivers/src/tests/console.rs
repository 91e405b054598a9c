//! The console under random input, output and accidents.

use super::{of, read, write};
use crate::console::{INPUT, MEMORY, Port, last_words};
use crate::request::kind;
use crate::world::{Ended, World};
use abi::soc::DeviceRegisters;
use base::prng::Prng;
use share::{Event, Token};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::offset_of;
use virtio::fake::{Fake, Model};

/// What is printed, and a user that types numbered bytes.
#[derive(Default)]
struct User {
    printed: Vec<u8>,
    /// Bytes typed so far, and how many of them the device has passed on.
    typed: u64,
    passed: u64,
    /// What was taken by readers at each reset.
    resets: Vec<u64>,
}

fn byte(number: u64) -> u8 {
    Prng::new(number).next() as u8
}

impl Model for User {
    fn serve(&mut self, queue: usize, input: &[u8], room: usize) -> Option<Vec<u8>> {
        if queue == 1 {
            self.printed.extend(input);
            return Some(Vec::new());
        }
        let bytes = (room as u64).min(self.typed - self.passed);
        let from = self.passed;
        self.passed += bytes;
        (bytes > 0).then(|| (from..self.passed).map(byte).collect())
    }
    fn reset(&mut self, taken: u64) {
        // As the soc's: what it has again is not dropped.
        self.passed = self.passed.min(taken);
        self.resets.push(taken);
    }
}

type Console<'a> = World<'a, Port, User>;

fn user() -> Fake<User> {
    Fake::new(3, 0, 0, User::default())
}

/// What must have come and gone.
#[derive(Default)]
struct Record {
    seed: u64,
    /// Number of the next byte of input.
    next: u64,
    lives: u32,
    /// Number of resets when the state was lost, if no input has come since.
    lost_at: Option<usize>,
    /// Words of output that were taken, with their places in the order; words that may be printed
    /// although their write got no reply.
    taken: Vec<u32>,
    maybe: Vec<u32>,
    words: u32,
}

impl Record {
    fn output(&mut self, prng: &mut Prng) -> Vec<u8> {
        let most = if prng.chance(1, 8) { 900 } else { 20 };
        let count = 1 + prng.below(most) as u32;
        let first = self.words;
        self.words += count;
        (first..self.words).flat_map(u32::to_le_bytes).collect()
    }

    /// Notices that the state was lost in the last step.
    fn look(&mut self, world: &Console<'_>) {
        if world.lives != self.lives {
            (self.lives, self.lost_at) = (world.lives, Some(world.lost_at as usize));
        }
    }

    fn ended(&mut self, world: &Console<'_>, ended: &Ended) {
        let seed = self.seed;
        if ended.caller.request.kind == kind::WRITE {
            let taken = ended.reply.map_or(0, |reply| reply.taken as usize);
            let words = |bytes: &[u8]| -> Vec<u32> {
                bytes.chunks(4).map(|it| u32::from_le_bytes(it.try_into().unwrap())).collect()
            };
            let (done, rest) = ended.caller.bulk.split_at(taken);
            self.taken.extend(words(done));
            if ended.reply.is_none() {
                self.maybe.extend(words(rest));
            }
        } else if ended.reply.is_some() {
            let user = world.fake.model.borrow();
            assert!(!ended.bytes().is_empty(), "seed {seed}");
            if let Some(lost_at) = self.lost_at.take() {
                // A reader may have died with its input.
                let next = user.resets[lost_at];
                assert!(next >= self.next, "seed {seed}: input comes twice");
                self.next = next;
            }
            for &found in ended.bytes() {
                assert_eq!(found, byte(self.next), "seed {seed}: byte {} of the input", self.next);
                self.next += 1;
            }
            assert!(self.next <= user.passed, "seed {seed}");
        }
    }

    /// Checks that output was printed once and in order; all of it if nothing happened to it.
    fn printed(&self, user: &User, harmed: bool) {
        let (seed, mut from) = (self.seed, 0);
        let places: BTreeMap<_, _> =
            self.taken.iter().enumerate().map(|(at, w)| (*w, at)).collect();
        for word in user.printed.chunks(4) {
            let word = u32::from_le_bytes(word.try_into().unwrap());
            match places.get(&word) {
                Some(&at) => {
                    assert!(at >= from, "seed {seed}: word {word} is printed late or twice");
                    from = at + 1;
                }
                None => assert!(
                    self.maybe.contains(&word) || word & LAST == LAST,
                    "seed {seed}: word {word:x} was not written"
                ),
            }
        }
        if !harmed {
            assert_eq!(user.printed.len(), 4 * self.taken.len(), "seed {seed}");
        }
    }
}

/// Bits of the words of a panicking kernel.
const LAST: u32 = 0xffff_0000;

/// A kernel panics: prints its last words by force, and dies.
fn panic(world: &mut Console<'_>, who: usize) {
    let text: Vec<u8> = (0..40u32).flat_map(|at| (LAST | at).to_le_bytes()).collect();
    let fake = world.fake;
    let ring = |_| fake.turn();
    let printed = last_words(&world.views[who].device(MEMORY, &ring), &text);
    assert_eq!(printed, text.len());
    assert!(fake.model.borrow().printed.ends_with(&text));
    world.die(who, false);
}

/// Random input and output of two kernels. Input comes once and in order, whichever kernel reads;
/// output is printed once and in order; no caller waits forever although there is input or room.
#[test]
fn input_and_output_come_once_and_in_order() {
    for seed in 0..1500 {
        let (mut prng, fake) = (Prng::new(seed), user());
        let mut world = Console::new(&fake);
        let mut record = Record { seed, lives: 1, ..Record::default() };
        let (harm, mut harmed) = (seed % 3 > 0, false);
        for _ in 0..250 {
            fake.eager.set(prng.chance(seed % 4, 20));
            let who = prng.below(2) as usize;
            match prng.below(10) {
                0 if world.callers.len() < 8 => {
                    let most = if prng.chance(1, 4) { 3000 } else { 9 };
                    let length = 1 + prng.below(most) as usize;
                    world.request(who, read(length, 0), vec![0; length]);
                }
                1 if world.callers.len() < 8 => {
                    let bulk = record.output(&mut prng);
                    world.request(who, write(bulk.len(), 0), bulk);
                }
                2 => {
                    let many = if prng.chance(1, 9) { 2 * INPUT as u64 } else { 9 };
                    fake.model.borrow_mut().typed += prng.below(many);
                }
                3 if harm && prng.chance(1, 6) => {
                    harmed = true;
                    match prng.chance(1, 6) {
                        true => panic(&mut world, who),
                        false => world.mischance(&mut prng),
                    }
                }
                _ => world.chance(&mut prng, true),
            }
            record.look(&world);
            for ended in std::mem::take(&mut world.ended) {
                record.ended(&world, &ended);
            }
        }
        world.make_up();
        world.settle();
        fake.model.borrow_mut().typed += 8 * 3000;
        world.settle();
        assert!(world.callers.is_empty(), "seed {seed}: {} callers wait", world.callers.len());
        for ended in std::mem::take(&mut world.ended) {
            record.ended(&world, &ended);
        }
        record.printed(&fake.model.borrow(), harmed);
        // All input that was typed can be read.
        let typed = fake.model.borrow().typed;
        while record.next < typed {
            let ended = world.call(0, read(1000, 0), vec![0; 1000]);
            record.ended(&world, &ended);
        }
    }
}

/// Two kernels wait for input, then there are three bytes.
fn two_readers(world: &mut Console<'_>) -> [Token; 2] {
    world.call(0, of(kind::ABOUT), Vec::new());
    let tokens = [0, 1].map(|who| world.request(who, read(9, 0), vec![0; 9]));
    world.settle();
    assert_eq!(world.woken, []);
    world.fake.model.borrow_mut().typed += 3;
    world.fake.turn();
    tokens
}

#[test]
fn one_of_two_readers_is_woken_the_near_one_first() {
    for who in [0, 1] {
        let fake = user();
        let mut world = Console::new(&fake);
        let tokens = two_readers(&mut world);
        world.interrupt(who);
        assert_eq!(world.woken, [tokens[who]]);
        world.event(1 - who, Event::Device);
        assert_eq!(world.woken, [tokens[who]], "the other one's rest is not disturbed");
        // It reads all, so the other one waits on.
        world.settle();
        assert!(world.reply(tokens[who]).is_some() && world.callers.len() == 1);
    }
}

#[test]
fn the_next_reader_is_woken_when_the_woken_one_is_gone() {
    for how in 0..3 {
        let fake = user();
        let mut world = Console::new(&fake);
        let tokens = two_readers(&mut world);
        world.interrupt(1);
        assert_eq!(world.woken, [tokens[1]]);
        match how {
            0 => world.die(1, false),
            1 => world.cancel(tokens[1]),
            // It leaves something.
            _ => {
                world.callers[1].bulk.truncate(2);
                world.again(tokens[1]);
            }
        }
        assert_eq!(world.woken, [tokens[0]]);
        world.settle();
        assert!(!world.reply(tokens[0]).unwrap().bytes().is_empty());
    }
}

#[test]
fn a_lost_wake_costs_a_second_and_no_input() {
    let fake = user();
    let mut world = Console::new(&fake);
    let tokens = two_readers(&mut world);
    world.interrupt(0);
    world.woken.clear();
    world.settle();
    assert!(world.reply(tokens[0]).is_none() && world.reply(tokens[1]).is_none());
    world.make_up();
    assert_eq!(world.reply(tokens[0]).unwrap().bytes(), [0, 1, 2].map(byte));
}

#[test]
fn a_reader_that_never_comes_does_not_keep_the_input() {
    let fake = user();
    let mut world = Console::new(&fake);
    let tokens = two_readers(&mut world);
    world.interrupt(0);
    assert_eq!(world.woken, [tokens[0]]);
    world.woken.clear();
    world.now += crate::waiters::OVERDUE;
    world.event(0, Event::Device);
    assert_eq!(world.woken, [tokens[1]]);
    world.settle();
    assert!(world.reply(tokens[1]).is_some());
}

#[test]
fn more_callers_than_places_are_all_served() {
    let fake = user();
    let mut world = Console::new(&fake);
    let tokens: Vec<_> = (0..100).map(|at| world.request(at % 2, read(1, 0), vec![0; 1])).collect();
    fake.model.borrow_mut().typed = 100;
    world.settle();
    assert!(tokens.iter().all(|token| world.reply(*token).is_some()));
}

#[test]
fn last_words_are_printed_although_another_kernel_opens_the_device() {
    for meddles in 0..8 {
        let fake = user();
        let (dying, other) = (Console::new(&fake), RefCell::new(Console::new(&fake)));
        other.borrow_mut().call(0, of(kind::ABOUT), Vec::new());
        fake.eager.set(false);
        let rings = Cell::new(0);
        let ring = |_| {
            // The other kernel's driver finds that the device is not its own any more.
            rings.set(rings.get() + 1);
            if rings.get() == meddles {
                other.borrow_mut().event(0, Event::Device);
            }
            fake.turn();
        };
        assert_eq!(last_words(&dying.views[1].device(MEMORY, &ring), b"last words"), 10);
        assert!(fake.model.borrow().printed.ends_with(b"last words"), "{meddles}");
        let mut other = other.into_inner();
        other.settle();
        assert!(other.call(0, write(4, 0), b"back".to_vec()).reply.is_some());
    }
}

#[test]
fn last_words_are_cut_and_a_silent_device_does_not_hold_them_up() {
    let fake = user();
    let mut world = Console::new(&fake);
    world.call(0, of(kind::ABOUT), Vec::new());
    let ring = |_| fake.turn();
    let device = world.views[1].device(MEMORY, &ring);
    assert_eq!(last_words(&device, &[b'x'; 5000]), INPUT);
    assert_eq!(fake.model.borrow().printed, [b'x'; INPUT]);
    assert_eq!(last_words(&share::Device { memory_size: 100, ..device }, b"no room"), 0);
    let (silent, before) = (|_| (), world.views[1].loads.get());
    assert_eq!(last_words(&share::Device { ring: &silent, ..device }, b"silence"), 0);
    assert!(world.views[1].loads.get() - before < 1_100_000);
    // The other kernel's driver takes the device back.
    world.event(0, Event::Device);
    let wrote = world.call(0, write(4, 0), b"back".to_vec()).reply;
    assert_eq!(wrote.map(|reply| reply.taken), Some(4));
    world.settle();
    assert!(fake.model.borrow().printed.ends_with(b"back"));
}

#[test]
fn input_comes_once_although_another_kernel_resets_the_device_during_a_read() {
    let fake = user();
    let mut world = Console::new(&fake);
    world.call(0, of(kind::ABOUT), Vec::new());
    fake.model.borrow_mut().typed += 3;
    fake.turn();
    world.interrupt(0);
    // After the step has found that the device is its own.
    fake.seized_at.set(Some(offset_of!(DeviceRegisters, device_status)));
    assert_eq!(world.call(0, read(9, 0), vec![0; 9]).bytes(), [0, 1, 2].map(byte));
    assert_eq!(fake.seized_at.get(), None);
    fake.model.borrow_mut().typed += 2;
    assert_eq!(world.call(0, read(9, 0), vec![0; 9]).bytes(), [3, 4].map(byte));
}

#[test]
fn last_words_have_sequence_numbers_that_no_driver_takes_for_its_own() {
    let fake = user();
    let mut world = Console::new(&fake);
    world.call(0, of(kind::ABOUT), Vec::new());
    let sequence = || fake.get(offset_of!(DeviceRegisters, sequence));
    let before = sequence();
    let ring = |_| {
        assert_eq!(sequence() as u32, before as u32);
        fake.turn();
    };
    assert_eq!(last_words(&world.views[1].device(MEMORY, &ring), b"last words"), 10);
    assert_ne!(sequence(), before);
}
