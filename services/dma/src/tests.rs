//! The driver with a simulated engine and one state shared by two kernels: transfers in order,
//! delays, faults, corrupted words, stores that become visible late and out of order, kernels that
//! die, and loss of the state.

use crate::fake::{BAD, CHANNELS, Fake, KERNELS, View};
use crate::port::{NotOurs, Port};
use crate::request::{Reply, Request, kind, told};
use crate::*;
use abi::dma::{MAGIC, RING, RING_BYTES, Status};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use share::{Answer, Device, Effects, Event, Service, Token};
use std::mem::offset_of;
use zerocopy::IntoBytes;

/// The effects of a step.
struct Out<'a> {
    woken: Vec<Token>,
    all: bool,
    device: Device<'a>,
}

impl Effects for Out<'_> {
    fn wake(&mut self, token: Token) {
        self.woken.push(token);
    }
    fn wake_all(&mut self) {
        self.all = true;
    }
    fn timer(&mut self, _: u64) {}
    fn device(&self) -> Option<Device<'_>> {
        Some(self.device)
    }
}

/// A kernel with its batches.
struct Kernel<'a> {
    id: u8,
    epoch: u16,
    view: View<'a>,
    books: Books,
    flying: Vec<(Ticket, Vec<Transfer>)>,
    parked: Vec<(Token, Vec<Transfer>)>,
}

/// Two kernels that share one state.
struct World<'a> {
    fake: &'a Fake,
    kernels: Vec<Kernel<'a>>,
    state: Dma,
    lives: u32,
    next: u64,
    sequence: u32,
    /// Callers that may ask again.
    woken: Vec<Token>,
    /// Whether a fault was injected; otherwise no transfer may be lost.
    harmed: bool,
    seed: u64,
}

impl<'a> World<'a> {
    fn new(fake: &'a Fake, seed: u64) -> World<'a> {
        let kernel = |id| Kernel {
            id,
            epoch: 7,
            view: View::new(fake),
            books: Books::new(),
            flying: Vec::new(),
            parked: Vec::new(),
        };
        World {
            fake,
            kernels: (0..KERNELS as u8).map(kernel).collect(),
            state: Dma::start(1),
            lives: 1,
            next: 1 << 20,
            sequence: 0,
            woken: Vec::new(),
            harmed: false,
            seed,
        }
    }

    fn step(&mut self, who: usize, event: Event<'_, Request>) -> Answer<Reply> {
        let fake = self.fake;
        let ring = |_| {
            if fake.awake.get() {
                fake.look();
            }
        };
        let device = self.kernels[who].view.device(&ring);
        let mut out = Out { woken: Vec::new(), all: false, device };
        let answer = self.state.step(1, event, &mut out);
        let Out { woken, all, .. } = out;
        self.woken.extend(woken);
        if all {
            self.wake_all();
        }
        answer
    }

    fn wake_all(&mut self) {
        let parked = self.kernels.iter().flat_map(|k| k.parked.iter().map(|wait| wait.0));
        self.woken.extend(parked);
    }

    fn token(&mut self, who: usize) -> Token {
        self.sequence += 1;
        let Kernel { id, epoch, .. } = self.kernels[who];
        Token::new(DomainId(id), Epoch(epoch), 1, self.sequence)
    }

    fn ask(&mut self, who: usize, request: Request) -> Answer<Reply> {
        let token = self.token(who);
        self.step(who, Event::Request { token, request: &request, bulk: &mut [] })
    }

    fn submit(&mut self, who: usize, batch: Vec<Transfer>) -> bool {
        let token = self.token(who);
        self.submit_as(who, token, batch, false)
    }

    fn submit_as(&mut self, who: usize, token: Token, batch: Vec<Transfer>, again: bool) -> bool {
        let request = Request::counted(kind::SUBMIT, batch.len() as u32);
        let mut sent = batch.clone();
        let bulk = sent.as_mut_slice().as_mut_bytes();
        let answer = match again {
            false => self.step(who, Event::Request { token, request: &request, bulk }),
            true => self.step(who, Event::Again { token, request: &request, bulk }),
        };
        let kernel = &mut self.kernels[who];
        match answer {
            Answer::Done(reply) => {
                let ticket = Ticket::of(&reply).unwrap_or_else(|| panic!("{reply:?}"));
                kernel.flying.push((ticket, batch));
                true
            }
            Answer::Parked => {
                kernel.parked.push((token, batch));
                false
            }
            Answer::NoReply => panic!("no reply"),
        }
    }

    /// Creates a batch with destinations used nowhere else.
    fn batch(&mut self, count: u64, mut is_bad: impl FnMut() -> bool) -> Vec<Transfer> {
        let first = self.next;
        self.next += count;
        let to = |to| if is_bad() { BAD } else { to };
        (first..self.next).map(to).map(|to| Transfer::copy(first, to, 64)).collect()
    }

    /// Repeats the requests of the woken callers.
    fn again(&mut self) {
        for token in std::mem::take(&mut self.woken) {
            let who = usize::from(token.kernel);
            let parked = &mut self.kernels[who].parked;
            if let Some(at) = parked.iter().position(|wait| wait.0 == token) {
                let (token, batch) = parked.remove(at);
                self.submit_as(who, token, batch, true);
            }
        }
    }

    /// Looks at one batch of a kernel. Returns its outcome if it has ended.
    fn finish(&mut self, who: usize, at: usize) -> Option<Outcome> {
        let kernel = &mut self.kernels[who];
        let ring = |_| ();
        let port = Port(kernel.view.device(&ring));
        let ticket = kernel.flying[at].0;
        match ticket.look(&port) {
            Seen::Waiting => None,
            Seen::Broken => {
                assert!(self.harmed, "seed {}: no fault was injected", self.seed);
                let request = Request::reopen(ticket.channel(), ticket.session());
                let answer = self.ask(who, request);
                assert_eq!(answer, Answer::Done(Reply::of(told::DONE)));
                None
            }
            Seen::Ended(outcome) => {
                let (_, batch) = kernel.flying.swap_remove(at);
                kernel.books.read(&port, &ticket);
                let wanted = port.is_wanted(KERNELS);
                self.check(&outcome, &batch);
                if wanted {
                    self.ask(who, Request::of(kind::ROOM));
                }
                Some(outcome)
            }
        }
    }

    fn finish_all(&mut self) {
        for who in 0..KERNELS {
            for at in (0..self.kernels[who].flying.len()).rev() {
                self.finish(who, at);
            }
        }
        self.again();
    }

    fn check(&self, outcome: &Outcome, batch: &[Transfer]) {
        let (fake, seed) = (self.fake, self.seed);
        let done = fake.done.borrow();
        let was_done = |transfer: &&Transfer| done.contains(&transfer.destination);
        let good = batch.iter().filter(was_done).count() as u32;
        let first_bad = batch.iter().position(|transfer| transfer.destination == BAD);
        for transfer in batch.iter().filter(|transfer| transfer.destination != BAD) {
            assert!(!fake.holds(transfer.destination), "seed {seed}: still with the engine");
        }
        assert!(outcome.done <= good, "seed {seed}: more reported than done");
        match outcome.refused {
            None => assert_eq!(outcome.done as usize, batch.len(), "seed {seed}"),
            Some((at, Refusal::Address)) => assert_eq!(first_bad, Some(at as usize)),
            Some((_, Refusal::Lost)) if self.harmed => {}
            Some((_, why)) => panic!("seed {seed}: {why:?}"),
        }
    }

    /// Kills a kernel, optionally after `within` stores of a submission; its next life starts.
    fn kill(&mut self, who: usize, within: Option<u32>) {
        if let Some(stores) = within {
            self.kernels[who].view.lasts.set(stores);
            let batch = self.batch(3, || false);
            let answers = (self.kernels[who].flying.len(), self.kernels[who].parked.len());
            self.submit(who, batch.clone());
            self.fake.dead.borrow_mut().extend(batch.iter().map(|transfer| transfer.destination));
            assert_ne!(answers, (self.kernels[who].flying.len(), self.kernels[who].parked.len()));
        }
        self.fake.fence(who);
        let kernel = &mut self.kernels[who];
        kernel.view.die();
        let flying = kernel.flying.drain(..).flat_map(|(_, batch)| batch);
        let under_way = flying.map(|transfer| transfer.destination).filter(|&to| to != BAD);
        self.fake.dead.borrow_mut().extend(under_way);
        kernel.parked.clear();
        kernel.books = Books::new();
        kernel.epoch += 1;
        let epoch = kernel.epoch;
        if within.is_some() {
            self.lose();
        }
        let gone = Event::Gone(DomainId(who as u8), Epoch(epoch - 1));
        self.step(1 - who, gone);
        self.fake.epochs.borrow_mut()[who] = Some(epoch);
        self.again();
    }

    /// Loses the state; transfers in progress continue.
    fn lose(&mut self) {
        self.lives += 1;
        self.state = Dma::start(self.lives);
        self.wake_all();
    }

    /// Lets the engine finish. Checks that no batch or caller is left and all room is free again.
    fn drain(&mut self) {
        let seed = self.seed;
        for _ in 0..200 {
            self.fake.look();
            (0..CHANNELS).for_each(|channel| self.fake.end(channel, 100));
            self.finish_all();
        }
        for kernel in &self.kernels {
            assert!(kernel.flying.is_empty(), "seed {seed}: batches that never end");
            assert!(kernel.parked.is_empty(), "seed {seed}: a caller waits forever");
        }
        for who in 0..KERNELS {
            for _ in 0..CHANNELS {
                let batch = self.batch(BATCH as u64, || false);
                assert!(self.submit(who, batch), "seed {seed}: not all room is there");
            }
            self.fake.look();
            (0..CHANNELS).for_each(|channel| self.fake.end(channel, 100));
            (0..3).for_each(|_| self.finish_all());
        }
    }
}

#[test]
fn batches_go_through_and_errors_name_their_transfer() {
    let fake = Fake::new(0);
    let mut world = World::new(&fake, 0);
    for round in 0..50 {
        let who = round % 2;
        let batch = world.batch(5, || false);
        let last = batch[4].destination;
        assert!(world.submit(who, batch));
        (0..CHANNELS).for_each(|channel| fake.end(channel, 100));
        let outcome = world.finish(who, 0);
        assert_eq!(outcome, Some(Outcome { done: 5, refused: None, time: last }));
    }
    let batch = [Transfer::copy(1, 2, 3), Transfer::copy(4, BAD, 5), Transfer::copy(6, 7, 8)];
    world.submit(0, batch.to_vec());
    (0..CHANNELS).for_each(|channel| fake.end(channel, 100));
    let outcome = world.finish(0, 0).map(|outcome| (outcome.done, outcome.refused));
    assert_eq!(outcome, Some((2, Some((1, Refusal::Address)))));
    for count in [0, BATCH as u32 + 1, 5] {
        let answer = world.ask(0, Request::counted(kind::SUBMIT, count));
        assert_eq!(answer, Answer::Done(Reply::of(told::COUNT)), "or fewer in bulk");
    }
    assert_eq!(world.ask(0, Request::of(99)), Answer::Done(Reply::of(told::REFUSED)));
}

#[test]
fn one_kernel_uses_all_channels_until_the_other_needs_its_own() {
    let fake = Fake::new(0);
    let mut world = World::new(&fake, 0);
    for _ in 0..CHANNELS {
        let batch = world.batch(RING as u64, || false);
        assert!(world.submit(0, batch), "all four are idle");
    }
    let [mine, theirs] = [world.batch(4, || false), world.batch(4, || false)];
    assert!(!world.submit(0, mine) && !world.submit(1, theirs), "all rings are full");
    // Channel 1 is assigned to kernel 1, which waits, so kernel 0 does not get it again.
    fake.end(1, 100);
    let at = world.kernels[0].flying.iter().position(|(t, _)| t.channel() == 1).unwrap();
    world.finish(0, at);
    world.again();
    assert_eq!(world.kernels[1].flying[0].0.channel(), 1);
    assert_eq!((world.kernels[0].parked.len(), world.kernels[1].parked.len()), (1, 0));
    fake.end(0, 100);
    let at = world.kernels[0].flying.iter().position(|(t, _)| t.channel() == 0).unwrap();
    world.finish(0, at);
    world.again();
    assert_eq!(world.kernels[0].parked.len(), 0);
    world.drain();
}

#[test]
fn a_kernel_dies_and_the_other_continues() {
    let fake = Fake::new(0);
    let mut world = World::new(&fake, 0);
    for who in [0, 1, 0, 1] {
        let batch = world.batch(8, || false);
        assert!(world.submit(who, batch));
    }
    let batch = world.batch(3, || false);
    world.kill(1, None);
    assert!(world.submit(1, batch), "its next life can submit");
    (0..CHANNELS).for_each(|channel| fake.end(channel, 100));
    let outcomes: Vec<_> = (0..2).filter_map(|_| world.finish(0, 0)).collect();
    assert!(outcomes.iter().all(|o| o.done == 8), "{outcomes:?}");
    assert_eq!(world.finish(1, 0).map(|outcome| outcome.done), Some(3));
    world.drain();
}

#[test]
fn other_devices_are_refused() {
    let fake = Fake::new(0);
    let view = View::new(&fake);
    let ring = |_| ();
    let check = |parts, memory| Port(Device { parts, ..view.device(&ring) }).check(memory);
    assert_eq!(check(u64::MAX, 4 * RING_BYTES), Ok(()));
    assert_eq!(check(0, 4 * RING_BYTES), Err(NotOurs::NoChannel));
    assert_eq!(check(1, 4 * RING_BYTES - 8), Err(NotOurs::Memory));
    assert_eq!(Port(view.device(&ring)).dealt_to(DomainId(1)), 0b1010);
    fake.set(0, MAGIC + 1);
    assert_eq!(check(u64::MAX, 4 * RING_BYTES), Err(NotOurs::WrongDevice(MAGIC + 1)));
}

#[test]
fn a_batch_of_a_broken_session_ends_when_the_engine_has_dropped_it() {
    let fake = Fake::new(0);
    let mut world = World::new(&fake, 0);
    world.harmed = true;
    let batch = world.batch(3, || false);
    world.submit(1, batch.clone());
    let channel = world.kernels[1].flying[0].0.channel();
    fake.end(channel, 1);
    fake.awake.set(false);
    // A word that the engine cannot have written.
    fake.tell(channel, offset_of!(Status, completed), u64::MAX);
    assert_eq!(world.finish(1, 0), None, "it is reopened");
    assert_eq!(world.finish(1, 0), None, "the engine may still write there");
    assert_eq!(world.state.broken(), 1);
    fake.look();
    let lost = world.finish(1, 0).and_then(|outcome| outcome.refused);
    assert_eq!(lost, Some((0, Refusal::Lost)));
    assert!(!fake.holds(batch[1].destination));
}

#[test]
fn a_damaged_ring_works_again() {
    let fake = Fake::new(0);
    let mut world = World::new(&fake, 0);
    world.harmed = true;
    for count in [1, RING as u32 + 1] {
        let Answer::Done(reply) = world.ask(0, Request::counted(kind::DAMAGE, count)) else {
            panic!("there is room");
        };
        let ticket = Ticket::of(&reply).expect("it is under way");
        fake.end(ticket.channel(), 1);
        world.ask(0, Request::reopen(ticket.channel(), ticket.session()));
    }
    assert_eq!(world.state.broken(), 2);
    world.drain();
}

/// Random batches of two kernels, with delays, faults, corrupted words, kernels that die, also
/// within a step, and loss of the state. Every batch ends once with its true outcome, the engine
/// holds none of it then, nothing of a dead kernel is written, and no caller waits forever.
#[test]
fn every_batch_ends_once_whatever_happens() {
    for seed in 0..2000 {
        let mut prng = Prng::new(seed);
        let fake = Fake::new(seed);
        let mut world = World::new(&fake, seed);
        let (harm, deaths) = (seed % 4 > 1, seed % 3 > 0);
        for step in 0..300 {
            let who = prng.below(2) as usize;
            fake.awake.set(prng.below(3) > 0);
            match prng.below(9) {
                0..3 if step < 250 && world.kernels[who].parked.len() < 4 => {
                    let count = 1 + prng.below(BATCH as u64);
                    let batch = world.batch(count, || prng.below(9) == 0);
                    world.submit(who, batch);
                }
                3 => {
                    world.kernels[who].view.leak();
                    fake.look();
                }
                4 | 5 => fake.end(prng.below(4) as usize, prng.below(12) as usize),
                6 if harm && prng.below(10) == 0 => {
                    world.harmed = true;
                    match prng.below(3) {
                        0 => fake.fault(prng.below(4) as usize),
                        _ => fake.lie(prng.below(4) as usize, &mut prng),
                    }
                }
                7 if deaths && prng.below(30) == 0 => {
                    let within = prng.chance(1, 2).then(|| prng.below(30) as u32);
                    world.kill(who, within);
                }
                8 if prng.below(30) == 0 => world.lose(),
                _ if !world.kernels[who].flying.is_empty() => {
                    let at = prng.below(world.kernels[who].flying.len() as u64) as usize;
                    world.finish(who, at);
                    world.again();
                }
                _ => {}
            }
        }
        fake.awake.set(true);
        world.drain();
    }
}
