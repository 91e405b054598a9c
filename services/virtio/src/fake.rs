//! A simulated virtio device, and two kernels' views of its words. The device acknowledges when the
//! test lets it, takes requests, and completes them when and in the order that the test wants.
//! Stores of a kernel become visible late and out of order until a barrier.

use crate::queue::ENTRIES;
use abi::soc::{DeviceRegisters, QueueRegisters};
use base::port::Words;
use base::prng::Prng;
use share::Device;
use std::cell::{Cell, RefCell};
use std::mem::offset_of;

pub const WINDOW: u64 = 0x8020_0000;
pub const MEMORY: usize = 0x2000;
const BYTES: usize = 0x40000;
const VERSION_1: u64 = 1 << 32;
pub const NEEDS_RESET: u64 = 64;

/// What kind of device it is.
pub trait Model {
    /// Handles a request of a queue: gets its readable bytes and the size of its writable part, and
    /// returns what to write, or `None` if it has nothing for it now.
    fn serve(&mut self, queue: usize, input: &[u8], room: usize) -> Option<Vec<u8>>;
    /// It is reset; `taken` is the register of that name.
    fn reset(&mut self, _taken: u64) {}
}

/// A request that the device has taken.
struct Taken {
    queue: usize,
    head: u64,
}

/// The device.
pub struct Fake<M> {
    words: Vec<Cell<u64>>,
    pub model: RefCell<M>,
    /// Places of the queues while the device uses them, and its positions in the two rings.
    queues: RefCell<Vec<[u64; 3]>>,
    seen: [Cell<u16>; 2],
    used: [Cell<u16>; 2],
    taken: RefCell<Vec<Taken>>,
    broken: Cell<bool>,
    /// Whether it acts at once when it is kicked, and may act between any two stores.
    pub eager: Cell<bool>,
    /// Whether a test writes anything to its memory, so that it follows nothing there itself.
    pub is_hostile: Cell<bool>,
    /// Whether it has used buffers without an interrupt until now.
    pub news: Cell<bool>,
    /// Number of resets so far.
    pub resets: Cell<u32>,
    /// When a kernel next loads this word, another one resets the device first.
    pub seized_at: Cell<Option<usize>>,
    pub prng: RefCell<Prng>,
}

impl<M: Model> Fake<M> {
    pub fn new(id: u64, features: u64, config: u64, model: M) -> Fake<M> {
        let fake = Fake {
            words: (0..BYTES / 8).map(|_| Cell::new(0)).collect(),
            model: RefCell::new(model),
            queues: RefCell::default(),
            seen: Default::default(),
            used: Default::default(),
            taken: RefCell::default(),
            broken: Cell::new(false),
            eager: Cell::new(true),
            is_hostile: Cell::new(false),
            news: Cell::new(false),
            resets: Cell::new(0),
            seized_at: Cell::new(None),
            prng: RefCell::new(Prng::new(id)),
        };
        fake.set(offset_of!(DeviceRegisters, device_id), id);
        fake.set(offset_of!(DeviceRegisters, device_features), features | VERSION_1);
        fake.set(offset_of!(DeviceRegisters, queue_max), 64);
        fake.set(offset_of!(DeviceRegisters, config), config);
        fake
    }

    pub fn get(&self, at: usize) -> u64 {
        self.words[at / 8].get()
    }

    pub fn set(&self, at: usize, value: u64) {
        self.words[at / 8].set(value);
    }

    fn byte(&self, pa: u64) -> u8 {
        let at = (pa - WINDOW) as usize;
        self.get(at).to_le_bytes()[at % 8]
    }

    /// Appends `bytes` bytes from the 8-aligned `pa` on.
    fn load(&self, pa: u64, bytes: u64, to: &mut Vec<u8>) {
        let (at, end) = ((pa - WINDOW) as usize / 8, to.len() + bytes as usize);
        for word in &self.words[at..at + bytes.div_ceil(8) as usize] {
            to.extend(word.get().to_le_bytes());
        }
        to.truncate(end);
    }

    /// Stores bytes from the 8-aligned `pa` on.
    fn store(&self, pa: u64, bytes: &[u8]) {
        let at = (pa - WINDOW) as usize / 8;
        for (word, chunk) in self.words[at..].iter().zip(bytes.chunks(8)) {
            let mut whole = word.get().to_le_bytes();
            whole[..chunk.len()].copy_from_slice(chunk);
            word.set(u64::from_le_bytes(whole));
        }
    }

    fn set_byte(&self, pa: u64, value: u8) {
        let at = (pa - WINDOW) as usize;
        let mut word = self.get(at).to_le_bytes();
        word[at % 8] = value;
        self.set(at, u64::from_le_bytes(word));
    }

    fn number(&self, pa: u64, bytes: u64) -> u64 {
        (0..bytes).map(|i| u64::from(self.byte(pa + i)) << (8 * i)).sum()
    }

    fn set_number(&self, pa: u64, bytes: u64, value: u64) {
        (0..bytes).for_each(|i| self.set_byte(pa + i, (value >> (8 * i)) as u8));
    }

    /// Carries out a change of registers.
    pub fn acknowledge(&self) {
        let sequence = self.get(offset_of!(DeviceRegisters, sequence));
        if sequence == self.get(offset_of!(DeviceRegisters, acknowledged)) {
            return;
        }
        let mut status = self.get(offset_of!(DeviceRegisters, status));
        if status == 0 {
            self.queues.borrow_mut().clear();
            self.taken.borrow_mut().clear();
            self.broken.set(false);
            self.resets.set(self.resets.get() + 1);
            self.model.borrow_mut().reset(self.get(offset_of!(DeviceRegisters, taken)));
        }
        if self.get(offset_of!(DeviceRegisters, driver_features)) & VERSION_1 == 0 {
            status &= !12;
        }
        if self.broken.get() {
            status |= NEEDS_RESET;
        }
        if status & 12 == 12 && self.queues.borrow().is_empty() && !self.broken.get() {
            self.find_queues();
        }
        self.set(offset_of!(DeviceRegisters, device_status), status);
        self.set(offset_of!(DeviceRegisters, acknowledged), sequence);
    }

    /// Another kernel resets it.
    fn seize(&self) {
        let field = offset_of!(DeviceRegisters, sequence);
        self.set(field, self.get(field).wrapping_add(1 << 32));
        self.set(offset_of!(DeviceRegisters, status), 0);
        self.acknowledge();
    }

    fn find_queues(&self) {
        for index in 0..2 {
            let at = offset_of!(DeviceRegisters, queues) + index * size_of::<QueueRegisters>();
            let size = self.get(at + offset_of!(QueueRegisters, size));
            let field = |field| if size == 0 { 0 } else { self.get(at + field) };
            let places = [
                field(offset_of!(QueueRegisters, descriptors)),
                field(offset_of!(QueueRegisters, driver)),
                field(offset_of!(QueueRegisters, device)),
            ];
            self.queues.borrow_mut().push(places);
            self.seen[index].set(0);
            self.used[index].set(0);
        }
    }

    /// Takes the requests that are available.
    pub fn take(&self) {
        for (queue, places) in self.queues.borrow().iter().enumerate() {
            if places[1] == 0 {
                continue;
            }
            while self.number(places[1] + 2, 2) as u16 != self.seen[queue].get() {
                let index = u64::from(self.seen[queue].get()) % ENTRIES as u64;
                let head = self.number(places[1] + 4 + 2 * index, 2);
                self.seen[queue].set(self.seen[queue].get().wrapping_add(1));
                self.taken.borrow_mut().push(Taken { queue, head });
            }
        }
    }

    /// Returns how many requests are with the device.
    pub fn in_flight(&self) -> usize {
        self.taken.borrow().len()
    }

    /// Completes the request at index `at` of those that it has taken. Returns false if the device
    /// has nothing for it.
    pub fn complete(&self, at: usize) -> bool {
        let Some(&Taken { queue, head }) = self.taken.borrow().get(at) else { return false };
        let places = self.queues.borrow()[queue];
        let (mut input, mut room, mut slot) = (Vec::new(), Vec::new(), head);
        let mut size = 0;
        loop {
            let at = places[0] + 16 * slot;
            let (pa, bytes) = (self.number(at, 8), self.number(at + 8, 4));
            let flags = self.number(at + 12, 2);
            if flags & 2 == 0 {
                self.load(pa, bytes, &mut input);
            } else {
                room.push((pa, bytes as usize));
                size += bytes as usize;
            }
            if flags & 1 == 0 {
                break;
            }
            slot = self.number(at + 14, 2);
        }
        let answer = self.model.borrow_mut().serve(queue, &input, size);
        let Some(answer) = answer else { return false };
        let mut rest = &answer[..];
        for (pa, bytes) in room {
            let (part, more) = rest.split_at(bytes.min(rest.len()));
            self.store(pa, part);
            rest = more;
        }
        let used = self.used[queue].get();
        let entry = places[2] + 4 + 8 * (u64::from(used) % ENTRIES as u64);
        self.set_number(entry, 4, head);
        self.set_number(entry + 4, 4, answer.len() as u64);
        self.used[queue].set(used.wrapping_add(1));
        self.set_number(places[2] + 2, 2, u64::from(used.wrapping_add(1)));
        self.taken.borrow_mut().remove(at);
        self.news.set(true);
        true
    }

    /// Completes the oldest request of a queue.
    pub fn complete_first(&self, queue: usize) -> bool {
        let first = self.taken.borrow().iter().position(|taken| taken.queue == queue);
        first.is_some_and(|at| self.complete(at))
    }

    /// Does everything that there is to do, in order.
    pub fn turn(&self) {
        self.acknowledge();
        self.take();
        let mut at = 0;
        while at < self.in_flight() {
            at += usize::from(!self.complete(at));
        }
    }

    /// Fails: it needs a reset.
    pub fn fail(&self) {
        let field = offset_of!(DeviceRegisters, device_status);
        if self.queues.borrow().is_empty() {
            return;
        }
        self.queues.borrow_mut().clear();
        self.taken.borrow_mut().clear();
        self.broken.set(true);
        self.set(field, self.get(field) | NEEDS_RESET);
        self.news.set(true);
    }
}

/// One kernel's accesses.
pub struct View<'a, M> {
    pub fake: &'a Fake<M>,
    stores: RefCell<Vec<(usize, u64)>>,
    /// Number of further stores before the kernel dies.
    pub lasts: Cell<u32>,
    /// Number of loads so far.
    pub loads: Cell<u64>,
}

impl<'a, M: Model> View<'a, M> {
    pub fn new(fake: &'a Fake<M>) -> View<'a, M> {
        View { fake, stores: RefCell::default(), lasts: Cell::new(u32::MAX), loads: Cell::new(0) }
    }

    pub fn is_dead(&self) -> bool {
        self.lasts.get() == 0
    }

    pub fn device<'b>(&'b self, memory_size: usize, ring: &'b dyn Fn(u32)) -> Device<'b> {
        let (window, registers, memory, parts, kick) = (WINDOW, 0, MEMORY, u64::MAX, 6);
        Device { words: self, window, registers, memory, memory_size, parts, ring, kick }
    }

    /// Makes a random part of the pending stores visible; stores to the same word stay in order.
    fn leak(&self) {
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

impl<M: Model> Words for View<'_, M> {
    fn load(&self, at: usize) -> u64 {
        self.loads.set(self.loads.get() + 1);
        if self.fake.seized_at.get() == Some(at) {
            self.fake.seized_at.set(None);
            self.fake.seize();
        }
        let stores = self.stores.borrow();
        let own = stores.iter().rev().find(|&&(other, _)| other == at);
        own.map_or_else(|| self.fake.get(at), |&(_, value)| value)
    }
    fn store(&self, at: usize, value: u64) {
        if self.is_dead() {
            return;
        }
        self.lasts.set(self.lasts.get().saturating_sub(u32::from(self.lasts.get() != u32::MAX)));
        self.stores.borrow_mut().push((at, value));
        // The device may look at any time.
        if !self.fake.is_hostile.get() && self.fake.prng.borrow_mut().chance(1, 16) {
            self.leak();
            self.fake.acknowledge();
            self.fake.take();
        }
    }
    fn barrier(&self) {
        if self.is_dead() {
            return self.stores.borrow_mut().clear();
        }
        self.stores.take().into_iter().for_each(|(at, value)| self.fake.set(at, value));
    }
}
