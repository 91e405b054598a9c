//! The driver against an engine in the test process: in order, late, broken, and lying; and with
//! stores that are seen late and out of order until a barrier.

use super::*;
use crate::fake::{Once, Ram};
use base::prng::Prng;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

const WINDOW: u64 = 0x8020_0000;
const RINGS: usize = 0x2000;
const EPOCH: Epoch = Epoch(7);
/// The engine refuses it.
const BAD: u64 = 0xbad;

/// Stores of the driver linger here until a barrier, or until they please.
struct Memory {
    seen: Ram,
    stores: RefCell<Vec<(usize, u64)>>,
    prng: RefCell<Prng>,
}

impl Memory {
    /// A random part of the lingering stores is seen; those to one word stay in order.
    fn leak(&self) {
        let mut stores = self.stores.borrow_mut();
        let mut prng = self.prng.borrow_mut();
        let mut kept: Vec<(usize, u64)> = Vec::new();
        for (at, value) in stores.drain(..) {
            if kept.iter().any(|&(other, _)| other == at) || prng.chance(1, 2) {
                kept.push((at, value));
            } else {
                self.seen.store(at, value);
            }
        }
        *stores = kept;
    }
}

/// The driver's accesses; the engine may look between any two.
impl Words for Fake {
    fn load(&self, at: usize) -> u64 {
        let stores = self.memory.stores.borrow();
        let own = stores.iter().rev().find(|&&(other, _)| other == at);
        own.map_or_else(|| self.memory.seen.load(at), |&(_, value)| value)
    }
    fn store(&self, at: usize, value: u64) {
        self.memory.stores.borrow_mut().push((at, value));
        if self.eager.get() {
            self.look();
        }
    }
    fn barrier(&self) {
        let stores = self.memory.stores.take();
        stores.into_iter().for_each(|(at, value)| self.memory.seen.store(at, value));
    }
}

#[derive(Default)]
struct Line {
    session: Position,
    completed: u32,
    queued: VecDeque<Transfer>,
    broken: bool,
}

/// What an engine does, at random times.
struct Fake {
    memory: Memory,
    lines: RefCell<[Line; 4]>,
    /// Destinations of all transfers that were done.
    done: RefCell<Vec<u64>>,
    kicks: Cell<usize>,
    /// It looks without being kicked.
    eager: Cell<bool>,
}

impl Fake {
    fn new(seed: u64) -> Fake {
        let memory = Memory {
            seen: Ram((0..0x4000 / 8).map(|_| Cell::new(0)).collect()),
            stores: RefCell::default(),
            prng: RefCell::new(Prng::new(!seed)),
        };
        let set = |field, value| memory.seen.store(offset_of!(Registers, engine) + field, value);
        set(offset_of!(Engine, magic), MAGIC);
        set(offset_of!(Engine, channels), 4);
        for channel in 0..4 {
            memory.seen.store(status_at(channel, OWNER), channel as u64 % 2);
        }
        let (lines, done) = (RefCell::default(), RefCell::default());
        Fake { memory, lines, done, kicks: Cell::new(0), eager: Cell::new(seed % 2 == 1) }
    }

    fn tell(&self, channel: usize, field: usize, value: u64) {
        self.memory.seen.store(status_at(channel, field), value);
    }

    fn complete(&self, channel: usize, line: &Line) {
        self.tell(channel, COMPLETED, line.session.at(line.completed).pack());
    }

    /// Looks at what was submitted.
    fn look(&self) {
        self.memory.leak();
        for (channel, line) in self.lines.borrow_mut().iter_mut().enumerate() {
            let word = self.memory.seen.load(control_at(channel, SUBMITTED));
            let submitted = Position::unpack(word);
            if submitted.epoch != EPOCH.0 {
                continue;
            }
            if !submitted.same_session(line.session) {
                *line = Line { session: submitted, ..Line::default() };
                self.tell(channel, FAULT, 0);
                self.complete(channel, line);
                if submitted.index != 0 {
                    self.fault(channel, line);
                }
            }
            let fresh = submitted.index.wrapping_sub(line.session.index);
            if line.broken || fresh == 0 {
                continue;
            }
            if fresh as usize > RING - line.queued.len() {
                self.fault(channel, line);
                continue;
            }
            for _ in 0..fresh {
                let index = line.session.index;
                line.queued.push_back(self.read(channel, line.session));
                line.session = line.session.at(index.wrapping_add(1));
            }
        }
    }

    fn read(&self, channel: usize, position: Position) -> Transfer {
        let word =
            |field| self.memory.seen.load(RINGS + descriptor_at(channel, position.index, field));
        assert_eq!(word(offset_of!(Descriptor, position)), position.pack(), "announced too early");
        Transfer {
            source: word(offset_of!(Descriptor, source)),
            destination: word(offset_of!(Descriptor, destination)),
            bytes: word(offset_of!(Descriptor, bytes)),
            flags: word(offset_of!(Descriptor, flags)),
        }
    }

    fn fault(&self, channel: usize, line: &mut Line) {
        line.queued.clear();
        line.broken = true;
        self.tell(channel, FAULT, u64::from(status::QUEUE));
    }

    /// Ends up to `count` transfers of a channel.
    fn end(&self, channel: usize, count: usize) {
        let line = &mut self.lines.borrow_mut()[channel];
        for _ in 0..count {
            let Some(transfer) = line.queued.pop_front() else { return };
            let bad = transfer.destination == BAD;
            let code = if bad { status::ADDRESS } else { status::DONE };
            if !bad {
                self.done.borrow_mut().push(transfer.destination);
            }
            let at = |field| RINGS + descriptor_at(channel, line.completed, field);
            let word = abi::dma::pack_status(line.session.at(line.completed), code);
            self.memory.seen.store(at(offset_of!(Descriptor, status)), word);
            self.memory.seen.store(at(offset_of!(Descriptor, time)), transfer.destination);
            line.completed = line.completed.wrapping_add(1);
            self.complete(channel, line);
        }
    }

    fn holds(&self, destination: u64) -> bool {
        let lines = self.lines.borrow();
        let queued = lines.iter().flat_map(|line| &line.queued);
        queued.filter(|transfer| transfer.destination == destination).count() > 0
    }
}

fn device(memory: u64) -> Device {
    let memory = [WINDOW + RINGS as u64, memory];
    Device { registers: WINDOW, memory: memory[0], memory_size: memory[1], ..Device::default() }
}

fn bus<'a>(fake: &'a Fake, kick: &'a dyn Fn(u32)) -> Bus<'a, &'a Fake> {
    Bus { words: fake, window: WINDOW, attend: &Once, kick }
}

fn start(bus: &Bus<&Fake>) -> Dma {
    Dma::start(bus, &device(4 * RING_BYTES), DomainId(1), EPOCH).unwrap()
}

fn fills<const N: usize>(first: u64) -> [Transfer; N] {
    core::array::from_fn(|i| Transfer::fill(5, first + i as u64, 8))
}

#[test]
fn batches_go_through_and_errors_name_their_transfer() {
    let fake = Fake::new(0);
    let kick = |_| {
        fake.look();
        (0..4).for_each(|channel| fake.end(channel, 100));
    };
    let bus = bus(&fake, &kick);
    let mut dma = start(&bus);
    assert_eq!(dma.channels().collect::<Vec<_>>(), [1, 3]);
    for round in 0..50 {
        let batch = fills::<5>(100 * round);
        let ticket = dma.submit(&bus, &batch).unwrap();
        let outcome = dma.finish(&bus, ticket).unwrap();
        assert_eq!(outcome, Outcome { done: 5, refused: None, time: 100 * round + 4 });
    }
    assert_eq!(fake.done.borrow().len(), 250);
    let batch = [Transfer::copy(1, 2, 3), Transfer::copy(4, BAD, 5), Transfer::copy(6, 7, 8)];
    let ticket = dma.submit(&bus, &batch).unwrap();
    let outcome = dma.finish(&bus, ticket).unwrap();
    assert_eq!((outcome.done, outcome.refused), (2, Some((1, Refusal::Address))));
    assert_eq!(dma.submit(&bus, &[]), Err(SubmitError::Count));
    assert_eq!(dma.submit(&bus, &[batch[0]; BATCH + 1]), Err(SubmitError::Count));
}

#[test]
fn full_is_busy_and_changes_nothing() {
    let fake = Fake::new(0);
    let kick = |_| fake.look();
    let bus = bus(&fake, &kick);
    let mut dma = start(&bus);
    let tickets: Vec<_> = (0..4).map(|i| dma.submit(&bus, &fills::<8>(8 * i)).unwrap()).collect();
    let before: Vec<_> = fake.memory.seen.0.iter().map(Cell::get).collect();
    assert_eq!(dma.submit(&bus, &fills::<1>(99)), Err(SubmitError::Busy));
    assert!(fake.memory.seen.0.iter().map(Cell::get).eq(before));
    fake.end(1, 8);
    // Both channels took two batches; the first to end is at hand, the others are not.
    let mut ended = 0;
    for ticket in tickets {
        match dma.finish(&bus, ticket) {
            Ok(outcome) => ended += outcome.done,
            Err(ticket) => drop(ticket),
        }
    }
    assert_eq!(ended, 8);
    let ticket = dma.submit(&bus, &fills::<8>(50)).unwrap();
    fake.end(1, 100);
    assert!(dma.finish(&bus, ticket).is_ok());
}

#[test]
fn what_is_not_an_engine_is_refused() {
    let fake = Fake::new(0);
    let kick = |_| fake.look();
    let bus = bus(&fake, &kick);
    let start = |device: &Device, me| Dma::start(&bus, device, DomainId(me), EPOCH).err();
    assert_eq!(start(&device(4 * RING_BYTES), 2), Some(InitError::NoChannel));
    assert_eq!(start(&device(4 * RING_BYTES - 8), 1), Some(InitError::Memory));
    fake.memory.seen.store(0, 5);
    assert_eq!(start(&device(4 * RING_BYTES), 1), Some(InitError::WrongDevice(5)));
}

#[test]
fn a_driver_that_starts_again_opens_other_sessions() {
    let fake = Fake::new(0);
    let kick = |_| fake.look();
    let bus = bus(&fake, &kick);
    let mut first = start(&bus);
    let _lost = first.submit(&bus, &fills::<3>(0)).unwrap();
    let mut second = start(&bus);
    assert!(!fake.holds(0), "the engine has dropped what the first one asked for");
    let ticket = second.submit(&bus, &fills::<2>(10)).unwrap();
    (0..4).for_each(|channel| fake.end(channel, 9));
    assert_eq!(second.finish(&bus, ticket).map(|outcome| outcome.done), Ok(2));
}

#[test]
fn a_batch_of_a_broken_session_ends_when_the_engine_has_let_go_of_it() {
    let fake = Fake::new(0);
    let awake = Cell::new(true);
    let kick = |_| {
        if awake.get() {
            fake.look();
        }
    };
    let bus = bus(&fake, &kick);
    let mut dma = start(&bus);
    let ticket = dma.submit(&bus, &fills::<3>(10)).unwrap();
    fake.end(1, 1);
    awake.set(false);
    // A word that cannot be the engine's: more has ended than was submitted.
    let line = fake.lines.borrow()[1].session;
    fake.tell(1, COMPLETED, line.at(9).pack());
    let ticket = dma.finish(&bus, ticket).unwrap_err();
    assert!(dma.finish(&bus, ticket).is_err(), "it may still write there");
    assert_eq!(dma.broken, 1);
    let ticket = Ticket { channel: 0, count: 3, first: 0 };
    awake.set(true);
    kick(0);
    let outcome = dma.finish(&bus, ticket).unwrap();
    assert_eq!(outcome.refused, Some((0, Refusal::Lost)));
    assert!(!fake.holds(11));
}

#[test]
fn a_channel_that_was_damaged_works_again() {
    let fake = Fake::new(0);
    let kick = |_| {
        fake.look();
        (0..4).for_each(|channel| fake.end(channel, 100));
    };
    let bus = bus(&fake, &kick);
    let mut dma = start(&bus);
    dma.damage(&bus, RING as u32 + 1);
    dma.poll(&bus);
    assert_eq!(dma.broken, 1);
    dma.poll(&bus);
    assert_eq!((dma.broken, dma.channels[0].room()), (1, RING));
    // While it is being opened: the session breaks as soon as it is open.
    dma.channels[0].reopen();
    dma.damage(&bus, 5);
    dma.poll(&bus);
    assert_eq!(dma.broken, 2);
    dma.poll(&bus);
    assert_eq!(dma.channels[0].room(), RING);
    let ticket = dma.submit(&bus, &fills::<16>(1)).unwrap();
    assert_eq!(dma.finish(&bus, ticket).map(|outcome| outcome.done), Ok(16));
}

/// One of our batches under test.
struct Flying {
    ticket: Ticket,
    batch: Vec<Transfer>,
}

impl Flying {
    /// A random batch to destinations from `next` on, if there is room.
    fn submit(
        dma: &mut Dma,
        bus: &Bus<&Fake>,
        below: &dyn Fn(u64) -> u64,
        next: &mut u64,
    ) -> Option<Flying> {
        let first = *next;
        *next += 1 + below(BATCH as u64);
        let batch: Vec<_> = (first..*next)
            .map(|to| if below(9) == 0 { BAD } else { to })
            .map(|to| Transfer::copy(first, to, 64))
            .collect();
        let ticket = dma.submit(bus, &batch).ok()?;
        Some(Flying { ticket, batch })
    }

    /// Finishes and checks it, or gives it back.
    fn finish(self, dma: &mut Dma, bus: &Bus<&Fake>, seed: u64) -> Option<Flying> {
        let Flying { ticket, batch } = self;
        match dma.finish(bus, ticket) {
            Ok(outcome) => {
                check(bus.words, &outcome, &batch, seed);
                None
            }
            Err(ticket) => Some(Flying { ticket, batch }),
        }
    }
}

/// Random batches, an engine that is late, faults, and is lied about; every batch ends exactly
/// once, with what happened to it, and the engine does not hold it any more.
#[test]
fn every_batch_ends_once_whatever_happens() {
    for seed in 0..2000 {
        let prng = RefCell::new(Prng::new(seed));
        let below = |bound| prng.borrow_mut().below(bound);
        let fake = Fake::new(seed);
        let kick = |_| {
            fake.kicks.set(fake.kicks.get() + 1);
            if fake.kicks.get() < 2 || below(3) > 0 {
                fake.look();
            }
        };
        let bus = bus(&fake, &kick);
        let mut dma = start(&bus);
        let (mut flying, mut next): (Vec<Flying>, u64) = (Vec::new(), 1 << 20);
        for step in 0..300 {
            match below(8) {
                0..3 if step < 250 => {
                    flying.extend(Flying::submit(&mut dma, &bus, &below, &mut next));
                }
                3 => fake.look(),
                4 | 5 => fake.end(below(4) as usize, below(12) as usize),
                6 if below(10) == 0 => harm(&fake, &dma, &prng),
                _ if !flying.is_empty() => {
                    let one = flying.swap_remove(below(flying.len() as u64) as usize);
                    flying.extend(one.finish(&mut dma, &bus, seed));
                }
                _ => {}
            }
        }
        // The engine catches up; nothing is left over, and all room is there again.
        for _ in 0..50 {
            fake.look();
            (0..4).for_each(|channel| fake.end(channel, 100));
            dma.poll(&bus);
            flying =
                flying.into_iter().filter_map(|one| one.finish(&mut dma, &bus, seed)).collect();
        }
        assert!(flying.is_empty(), "seed {seed}: {} batches never end", flying.len());
        let room: Vec<_> = dma.mine().iter().map(Channel::room).collect();
        assert_eq!(room, [RING, RING], "seed {seed}");
    }
}

/// A fault, or words in the engine's place that are not its own, on a channel that is open.
fn harm(fake: &Fake, dma: &Dma, prng: &RefCell<Prng>) {
    let mut prng = prng.borrow_mut();
    let open = |channel: &&Channel| channel.phase == Phase::Open;
    let Some(channel) = dma.mine().iter().filter(open).nth(prng.below(2) as usize) else { return };
    let number = channel.number;
    let line = &mut fake.lines.borrow_mut()[number];
    let beyond = channel.session.index + 1 + prng.below(40) as u32;
    match prng.below(4) {
        0 => fake.fault(number, line),
        1 => fake.tell(number, COMPLETED, prng.next()),
        2 => fake.tell(number, COMPLETED, line.session.at(beyond).pack()),
        _ => {
            let at = descriptor_at(number, prng.below(16) as u32, offset_of!(Descriptor, status));
            fake.memory.seen.store(RINGS + at, prng.next());
        }
    }
}

fn check(fake: &Fake, outcome: &Outcome, batch: &[Transfer], seed: u64) {
    let lost = matches!(outcome.refused, Some((_, Refusal::Lost)));
    let done = fake.done.borrow();
    let was_done = |transfer: &&Transfer| done.contains(&transfer.destination);
    let good = batch.iter().filter(was_done).count() as u32;
    let first_bad = batch.iter().position(|transfer| transfer.destination == BAD);
    for transfer in batch.iter().filter(|transfer| transfer.destination != BAD) {
        assert!(!fake.holds(transfer.destination), "seed {seed}: still with the engine");
    }
    assert!(outcome.done <= good, "seed {seed}: done is what was done");
    match outcome.refused {
        None => assert_eq!(outcome.done as usize, batch.len(), "seed {seed}"),
        Some((at, Refusal::Address)) => assert_eq!(first_bad, Some(at as usize), "seed {seed}"),
        Some((_, why)) => assert!(lost, "seed {seed}: {why:?}"),
    }
}
