//! A simulated engine, and two kernels' views of its words. Stores become visible late and out of
//! order until a barrier; the engine is slow, has faults, and has its words corrupted.

use crate::transfer::Transfer;
use abi::dma::{
    Control, Descriptor, Engine, MAGIC, Position, RING, Registers, Status, control_at,
    descriptor_at, pack_status, status, status_at,
};
use base::port::Words;
use base::prng::Prng;
use share::Device;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::mem::offset_of;

pub const RINGS: usize = 0x2000;
pub const CHANNELS: usize = 4;
pub const KERNELS: usize = 2;
/// A destination that the engine refuses.
pub const BAD: u64 = 0xbad;

#[derive(Default)]
struct Line {
    holder: usize,
    session: Option<Position>,
    completed: u32,
    queued: VecDeque<Transfer>,
    broken: bool,
}

/// The engine.
pub struct Fake {
    seen: Vec<Cell<u64>>,
    lines: RefCell<[Line; CHANNELS]>,
    /// Life of each kernel, while it lives.
    pub epochs: RefCell<[Option<u16>; KERNELS]>,
    /// Destinations of all transfers done.
    pub done: RefCell<Vec<u64>>,
    /// Destinations that must not be written any more.
    pub dead: RefCell<BTreeSet<u64>>,
    prng: RefCell<Prng>,
    /// Whether it looks without being kicked.
    eager: bool,
    pub awake: Cell<bool>,
}

impl Fake {
    pub fn new(seed: u64) -> Fake {
        let fake = Fake {
            seen: (0..0x4000 / 8).map(|_| Cell::new(0)).collect(),
            lines: RefCell::default(),
            epochs: RefCell::new([Some(7); KERNELS]),
            done: RefCell::default(),
            dead: RefCell::default(),
            prng: RefCell::new(Prng::new(!seed)),
            eager: seed % 2 == 1,
            awake: Cell::new(true),
        };
        let set = |field, value| fake.set(offset_of!(Registers, engine) + field, value);
        set(offset_of!(Engine, magic), MAGIC);
        set(offset_of!(Engine, channels), CHANNELS as u64);
        for channel in 0..CHANNELS {
            fake.tell(channel, offset_of!(Status, owner), (channel % KERNELS) as u64);
        }
        fake
    }

    pub fn get(&self, at: usize) -> u64 {
        self.seen[at / 8].get()
    }

    pub fn set(&self, at: usize, value: u64) {
        self.seen[at / 8].set(value);
    }

    pub fn tell(&self, channel: usize, field: usize, value: u64) {
        self.set(status_at(channel, field), value);
    }

    fn complete(&self, channel: usize, line: &Line) {
        let Some(session) = line.session else { return };
        self.tell(channel, offset_of!(Status, completed), session.at(line.completed).pack());
    }

    /// Looks for submitted descriptors.
    pub fn look(&self) {
        for channel in 0..CHANNELS {
            let control = |field| self.get(control_at(channel, field));
            let submitted = Position::unpack(control(offset_of!(Control, submitted)));
            let line = &mut self.lines.borrow_mut()[channel];
            let open = line.session.is_some_and(|session| session.same_session(submitted));
            let named = control(offset_of!(Control, holder)) as usize;
            let holder = if open { line.holder } else { named };
            let lives = self.epochs.borrow()[holder] == Some(submitted.epoch);
            if !lives {
                continue;
            }
            if !open {
                *line = Line { holder, session: Some(submitted.at(0)), ..Line::default() };
                self.tell(channel, offset_of!(Status, fault), 0);
                self.complete(channel, line);
            }
            self.take(channel, line, submitted);
        }
    }

    fn take(&self, channel: usize, line: &mut Line, submitted: Position) {
        let Some(session) = line.session else { return };
        let fresh = submitted.index.wrapping_sub(session.index);
        if line.broken || fresh == 0 {
            return;
        }
        if fresh as usize > RING - line.queued.len() {
            return self.fault_line(channel, line);
        }
        for number in 0..fresh {
            let place = session.at(session.index.wrapping_add(number));
            line.queued.push_back(self.read(channel, place));
        }
        line.session = Some(submitted);
    }

    fn read(&self, channel: usize, place: Position) -> Transfer {
        let word = |field| self.get(RINGS + descriptor_at(channel, place.index, field));
        // A descriptor that was never written is refused, as by the real engine.
        let good = word(offset_of!(Descriptor, position)) == place.pack();
        Transfer {
            source: word(offset_of!(Descriptor, source)),
            destination: if good { word(offset_of!(Descriptor, destination)) } else { BAD },
            bytes: word(offset_of!(Descriptor, bytes)),
            flags: word(offset_of!(Descriptor, flags)),
        }
    }

    fn fault_line(&self, channel: usize, line: &mut Line) {
        line.queued.clear();
        line.broken = true;
        self.tell(channel, offset_of!(Status, fault), u64::from(status::QUEUE));
    }

    /// Breaks a channel.
    pub fn fault(&self, channel: usize) {
        self.fault_line(channel, &mut self.lines.borrow_mut()[channel]);
    }

    /// Completes up to `count` transfers of a channel.
    pub fn end(&self, channel: usize, count: usize) {
        let line = &mut self.lines.borrow_mut()[channel];
        for _ in 0..count {
            let Some(transfer) = line.queued.pop_front() else { return };
            let Some(session) = line.session else { return };
            let bad = transfer.destination == BAD;
            let code = if bad { status::ADDRESS } else { status::DONE };
            if !bad {
                assert!(
                    !self.dead.borrow().contains(&transfer.destination),
                    "written after the fence"
                );
                self.done.borrow_mut().push(transfer.destination);
            }
            let at = |field| RINGS + descriptor_at(channel, line.completed, field);
            let word = pack_status(session.at(line.completed), code);
            self.set(at(offset_of!(Descriptor, status)), word);
            self.set(at(offset_of!(Descriptor, time)), transfer.destination);
            line.completed = line.completed.wrapping_add(1);
            self.complete(channel, line);
        }
    }

    /// Fences a dead kernel: drops all its transfers.
    pub fn fence(&self, kernel: usize) {
        self.epochs.borrow_mut()[kernel] = None;
        for channel in 0..CHANNELS {
            if self.get(control_at(channel, offset_of!(Control, holder))) == kernel as u64 {
                self.set(control_at(channel, offset_of!(Control, submitted)), 0);
            }
            let line = &mut self.lines.borrow_mut()[channel];
            if line.holder == kernel {
                line.queued.clear();
                line.session = None;
            }
        }
    }

    pub fn holds(&self, destination: u64) -> bool {
        let lines = self.lines.borrow();
        let queued = lines.iter().flat_map(|line| &line.queued);
        queued.filter(|transfer| transfer.destination == destination).count() > 0
    }

    /// Corrupts one of the engine's words.
    pub fn lie(&self, channel: usize, prng: &mut Prng) {
        let line = &self.lines.borrow()[channel];
        let Some(session) = line.session else { return };
        let completed = offset_of!(Status, completed);
        match prng.below(3) {
            0 => self.tell(channel, completed, prng.next()),
            1 => {
                let beyond = session.index.wrapping_add(17 + prng.below(40) as u32);
                self.tell(channel, completed, session.at(beyond).pack());
            }
            _ => {
                let field = offset_of!(Descriptor, status);
                let at = descriptor_at(channel, prng.below(16) as u32, field);
                self.set(RINGS + at, prng.next());
            }
        }
    }
}

/// One kernel's accesses. The engine may look between any two of them.
pub struct View<'a> {
    pub fake: &'a Fake,
    stores: RefCell<Vec<(usize, u64)>>,
    /// Number of further stores before the kernel dies.
    pub lasts: Cell<u32>,
}

impl<'a> View<'a> {
    pub fn new(fake: &'a Fake) -> View<'a> {
        View { fake, stores: RefCell::default(), lasts: Cell::new(u32::MAX) }
    }

    pub fn device<'b>(&'b self, ring: &'b dyn Fn(u32)) -> Device<'b> {
        let memory_size = CHANNELS * abi::dma::RING_BYTES as usize;
        let (window, registers, memory, parts, kick) = (0, 0, RINGS, u64::MAX, 6);
        Device { words: self, window, registers, memory, memory_size, parts, ring, kick }
    }

    /// Makes a random part of the pending stores visible; stores to the same word stay in order.
    pub fn leak(&self) {
        let mut stores = self.stores.borrow_mut();
        let mut kept: Vec<(usize, u64)> = Vec::new();
        for (at, value) in stores.drain(..) {
            let waits = kept.iter().any(|&(other, _)| other == at);
            if waits || self.fake.prng.borrow_mut().chance(1, 2) {
                kept.push((at, value));
            } else {
                self.fake.set(at, value);
            }
        }
        *stores = kept;
    }

    /// Drops the pending stores, because the kernel has died.
    pub fn die(&self) {
        self.stores.borrow_mut().clear();
        self.lasts.set(u32::MAX);
    }
}

impl Words for View<'_> {
    fn load(&self, at: usize) -> u64 {
        let stores = self.stores.borrow();
        let own = stores.iter().rev().find(|&&(other, _)| other == at);
        own.map_or_else(|| self.fake.get(at), |&(_, value)| value)
    }
    fn store(&self, at: usize, value: u64) {
        if self.lasts.get() == 0 {
            return;
        }
        self.lasts.set(self.lasts.get().saturating_sub(u32::from(self.lasts.get() != u32::MAX)));
        self.stores.borrow_mut().push((at, value));
        if self.fake.eager {
            self.leak();
            self.fake.look();
        }
    }
    fn barrier(&self) {
        let stores = self.stores.take();
        stores.into_iter().for_each(|(at, value)| self.fake.set(at, value));
    }
}
