//! A simulated device: acknowledges register writes and serves queues when it is kicked. Tests of
//! the drivers.

use crate::block::{self, Block, BlockError, Request};
use crate::console::{self, Console};
use crate::queue::{ENTRIES, Piece, Queue};
use crate::rng::{self, Rng};
use crate::transport::{Bus, InitError};
use abi::boot::Device;
use abi::soc::{DeviceRegisters, QueueRegisters};
use base::port::{Attend, Words};
use std::cell::{Cell, RefCell};
use std::mem::offset_of;

const WINDOW: u64 = 0x8020_0000;
const MEMORY: u64 = 0x2000;

pub struct Ram(pub Vec<Cell<u64>>);

impl Words for Ram {
    fn load(&self, at: usize) -> u64 {
        self.0[at / 8].get()
    }
    fn store(&self, at: usize, value: u64) {
        self.0[at / 8].set(value);
    }
    fn barrier(&self) {}
}

pub struct Once;

impl Attend for Once {
    fn until(&self, ready: &mut dyn FnMut() -> bool) {
        for _ in 0..3 {
            if ready() {
                return;
            }
        }
        while !ready() {}
    }
}

/// Handles a request: gets its readable bytes and the size of its writable part, returns what to
/// write.
type Serve<'a> = dyn FnMut(&[u8], usize) -> Vec<u8> + 'a;

struct Device0 {
    ram: Ram,
    seen: [Cell<u16>; 2],
    hold: Cell<bool>,
}

impl Device0 {
    fn new(id: u64, features: u64, config: u64) -> Self {
        let ram = Ram((0..0x40000 / 8).map(|_| Cell::new(0)).collect());
        let set = |field, value| ram.store(field, value);
        set(offset_of!(DeviceRegisters, device_id), id);
        set(offset_of!(DeviceRegisters, device_features), features | crate::transport::VERSION_1);
        set(offset_of!(DeviceRegisters, queue_max), 64);
        set(offset_of!(DeviceRegisters, config), config);
        Device0 { ram, seen: Default::default(), hold: Cell::new(false) }
    }

    fn byte(&self, pa: u64) -> u8 {
        let at = (pa - WINDOW) as usize;
        self.ram.load(at / 8 * 8).to_le_bytes()[at % 8]
    }

    fn set_byte(&self, pa: u64, value: u8) {
        let at = (pa - WINDOW) as usize;
        let mut word = self.ram.load(at / 8 * 8).to_le_bytes();
        word[at % 8] = value;
        self.ram.store(at / 8 * 8, u64::from_le_bytes(word));
    }

    fn number(&self, pa: u64, bytes: u64) -> u64 {
        (0..bytes).map(|i| u64::from(self.byte(pa + i)) << (8 * i)).sum()
    }

    fn set_number(&self, pa: u64, bytes: u64, value: u64) {
        (0..bytes).for_each(|i| self.set_byte(pa + i, (value >> (8 * i)) as u8));
    }

    fn register(&self, field: usize) -> u64 {
        self.ram.load(field)
    }

    fn kick(&self, queue: usize, serve: &mut Serve) {
        let status = self.register(offset_of!(DeviceRegisters, status));
        self.ram.store(offset_of!(DeviceRegisters, device_status), status);
        let sequence = self.register(offset_of!(DeviceRegisters, sequence));
        self.ram.store(offset_of!(DeviceRegisters, acknowledged), sequence);
        if status & 4 == 0 || self.hold.get() {
            return;
        }
        let at = offset_of!(DeviceRegisters, queues) + queue * size_of::<QueueRegisters>();
        let place = [8, 16, 24].map(|field| self.register(at + field));
        while self.number(place[1] + 2, 2) as u16 != self.seen[queue].get() {
            let index = u64::from(self.seen[queue].get());
            let head = self.number(place[1] + 4 + 2 * (index % ENTRIES as u64), 2);
            let written = self.serve(place[0], head, serve);
            let entry = place[2] + 4 + 8 * (index % ENTRIES as u64);
            self.set_number(entry, 4, head);
            self.set_number(entry + 4, 4, written);
            self.seen[queue].set(index as u16 + 1);
            self.set_number(place[2] + 2, 2, index + 1);
        }
    }

    fn serve(&self, table: u64, head: u64, serve: &mut Serve) -> u64 {
        let (mut input, mut room, mut slot) = (Vec::new(), Vec::new(), head);
        loop {
            let at = table + 16 * slot;
            let (pa, bytes, flags) =
                (self.number(at, 8), self.number(at + 8, 4), self.number(at + 12, 2));
            if flags & 2 == 0 {
                input.extend((pa..pa + bytes).map(|a| self.byte(a)));
            } else {
                room.extend(pa..pa + bytes);
            }
            if flags & 1 == 0 {
                break;
            }
            slot = self.number(at + 14, 2);
        }
        let answer = serve(&input, room.len());
        answer.iter().zip(&room).for_each(|(&byte, &pa)| self.set_byte(pa, byte));
        answer.len() as u64
    }
}

fn device(memory: usize) -> Device {
    Device {
        registers: WINDOW,
        memory: WINDOW + MEMORY,
        memory_size: memory as u64,
        ..Device::default()
    }
}

fn bus<'a>(fake: &'a Device0, kick: &'a dyn Fn(u32)) -> Bus<'a, &'a Ram> {
    Bus { words: &fake.ram, window: WINDOW, attend: &Once, kick }
}

#[test]
fn block_reads_what_it_wrote_and_flushes() {
    let fake = Device0::new(2, 1 << 9, 64);
    let disk = RefCell::new(vec![0u8; 64 * 512]);
    let flushes = Cell::new(0);
    let kick = |_| {
        fake.kick(0, &mut |input, room| {
            let sector = u64::from_le_bytes(input[8..16].try_into().unwrap()) as usize * 512;
            match input[0] {
                0 => {
                    let mut out = disk.borrow()[sector..sector + room - 1].to_vec();
                    out.push(0);
                    out
                }
                1 => {
                    let data = &input[16..];
                    disk.borrow_mut()[sector..sector + data.len()].copy_from_slice(data);
                    vec![0]
                }
                _ => {
                    flushes.set(flushes.get() + 1);
                    vec![0]
                }
            }
        });
    };
    let bus = bus(&fake, &kick);
    let mut block = Block::start(&bus, &device(block::MEMORY)).unwrap();
    assert_eq!(block.sectors(), 64);
    for round in 0..50u8 {
        let data = [round; 1024];
        let token = block.submit(&bus, 3, Request::Write(&data)).unwrap();
        assert_eq!(block.finish(&bus, &token, &mut []), Some(Ok(())));
        let token = block.submit(&bus, 3, Request::Read(1024)).unwrap();
        let mut back = [0; 1024];
        assert_eq!(block.finish(&bus, &token, &mut back), Some(Ok(())));
        assert_eq!(back, data);
    }
    let token = block.submit(&bus, 0, Request::Flush).unwrap();
    assert_eq!(block.finish(&bus, &token, &mut []), Some(Ok(())));
    assert_eq!(flushes.get(), 1);
    assert_eq!(block.submit(&bus, 64, Request::Read(512)), Err(BlockError::Range));
    assert_eq!(block.submit(&bus, 0, Request::Read(100)), Err(BlockError::Range));
    assert_eq!(block.submit(&bus, u64::MAX, Request::Read(512)), Err(BlockError::Range));
}

#[test]
fn block_is_busy_when_all_slots_are_in_flight() {
    let fake = Device0::new(2, 0, 64);
    let kick = |_| fake.kick(0, &mut |_, room| vec![0; room]);
    let bus = bus(&fake, &kick);
    let mut block = Block::start(&bus, &device(block::MEMORY)).unwrap();
    fake.hold.set(true);
    let tokens: Vec<_> =
        (0..4).map(|_| block.submit(&bus, 0, Request::Read(512)).unwrap()).collect();
    assert_eq!(block.submit(&bus, 0, Request::Read(512)), Err(BlockError::Busy));
    assert_eq!(block.finish(&bus, &tokens[0], &mut []), None);
    fake.hold.set(false);
    kick(0);
    // Completions are kept, so requests can be finished in any order.
    for token in tokens.iter().rev() {
        assert_eq!(block.finish(&bus, token, &mut []), Some(Ok(())));
    }
    assert!(block.submit(&bus, 0, Request::Read(512)).is_ok());
}

#[test]
fn console_carries_both_directions() {
    let fake = Device0::new(3, 0, 0);
    let (said, typed) = (RefCell::new(Vec::new()), RefCell::new(vec![b"hello".to_vec()]));
    let kick = |_| {
        fake.kick(1, &mut |input, _| {
            said.borrow_mut().extend_from_slice(input);
            Vec::new()
        });
        if !typed.borrow().is_empty() {
            fake.kick(0, &mut |_, _| typed.borrow_mut().pop().unwrap_or_default());
        }
    };
    let bus = bus(&fake, &kick);
    let mut console = Console::start(&bus, &device(console::MEMORY)).unwrap();
    let long: Vec<u8> = (0..3000u32).map(|i| i as u8).collect();
    let mut sent = 0;
    while sent < long.len() {
        sent += console.write(&bus, &long[sent..]);
    }
    assert_eq!(*said.borrow(), long);
    let mut input = [0; 3];
    assert_eq!(console.read(&bus, &mut input), 3);
    assert_eq!(&input, b"hel");
    assert_eq!(console.read(&bus, &mut input), 2);
    assert_eq!(&input[..2], b"lo");
    assert_eq!(console.read(&bus, &mut input), 0);
}

#[test]
fn rng_answers_each_request_once() {
    let fake = Device0::new(4, 0, 0);
    let kick = |_| fake.kick(0, &mut |_, room| vec![7; room]);
    let bus = bus(&fake, &kick);
    let mut rng = Rng::start(&bus, &device(rng::MEMORY)).unwrap();
    assert!(rng.request(&bus, 16));
    let mut into = [0; 32];
    assert_eq!(rng.take(&bus, &mut into), Some(16));
    assert_eq!(into[..16], [7; 16]);
    assert_eq!(rng.take(&bus, &mut into), None);
}

#[test]
fn the_wrong_device_is_refused() {
    let fake = Device0::new(9, 0, 0);
    let kick = |_| fake.kick(0, &mut |_, _| Vec::new());
    let bus = bus(&fake, &kick);
    assert_eq!(Rng::start(&bus, &device(rng::MEMORY)).err(), Some(InitError::WrongDevice(9)));
    assert_eq!(Rng::start(&bus, &device(8)).err(), Some(InitError::Memory));
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
