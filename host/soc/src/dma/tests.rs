//! The engine driven through memory, as by correct and faulty kernels; the tests control time.

use super::engine::{Engine, Holder};
use super::limits::Limits;
use super::*;
use crate::config;
use crate::gate::Gate;
use crate::memory::Ram;
use abi::boot::{NOBODY, Region, kind};
use abi::dma::*;
use base::prng::Prng;
use std::mem::offset_of;
use std::time::Instant;

const BASE: u64 = 0x4000_0000;
const REGISTERS: u64 = BASE + 0x1000;
const RINGS: u64 = BASE + 0x4000;
/// Memory that transfers of all domains may access.
const OPEN: u64 = BASE + 0x10_0000;
const OPEN_BYTES: u64 = 0x10_0000;
/// Local memory of both domains.
const LOCAL: [u64; 2] = [BASE + 0x30_0000, BASE + 0x38_0000];
const LOCAL_BYTES: u64 = 0x8_0000;
const VECTOR: usize = 2;
const KICK: usize = 1;
/// 1 us, and 25 ns per byte.
const SETUP: u64 = 1000;
const MBPS: u64 = 40;

/// An engine with two domains (0 has channels 0 and 2), and the memory they share.
struct Rig {
    engine: Engine,
    ram: Ram,
    fabric: Fabric,
    device: config::Device,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let ram = Ram::create(&folder.path().join("ram"), 4 << 20, BASE).unwrap();
        let fabric = Fabric::new(3, 4, 0, 4096, Gate::open(Instant::now())).unwrap();
        let dma = config::Dma {
            channels: 4,
            home: 0,
            rings: RINGS,
            setup_ns: SETUP,
            bandwidth_mbps: MBPS,
            home_weight: 1,
            home_first_ns: 0,
        };
        let device = config::Device {
            name: "dma".into(),
            vector: VECTOR as u16,
            kick: KICK as u16,
            registers: REGISTERS,
            ..Default::default()
        };
        let region = |base, size, kind, owner| Region { base, size, kind, owner };
        let regions = [
            region(BASE, 0x10_0000, kind::UNCACHED, NOBODY),
            region(OPEN, OPEN_BYTES, kind::GLOBAL, NOBODY),
            region(OPEN + OPEN_BYTES, 0x10_0000, kind::RESERVED, NOBODY),
            region(LOCAL[0], LOCAL_BYTES, kind::LOCAL, 0),
            region(LOCAL[1], LOCAL_BYTES, kind::LOCAL, 1),
        ];
        let limits = Limits::new(BASE..BASE + (4 << 20), &regions, 2);
        let holders = vec![Holder::new("main", 1), Holder::new("shadow", 2)];
        let engine =
            Engine::new(&device, &dma, holders, limits, ram.clone(), fabric.clone()).unwrap();
        let rig = Rig { engine, ram, fabric, device, _folder: folder };
        (0..4).for_each(|channel| rig.held(channel, channel as u64 % 2));
        rig
    }

    /// Starts both domains under epoch 1 and opens their channels.
    fn open() -> Rig {
        let mut rig = Rig::new();
        rig.engine.powered(0, 1);
        rig.engine.powered(1, 1);
        (0..4).for_each(|channel| rig.submitted(channel, at(1, 0)));
        rig.turn(0);
        assert_eq!(rig.interrupted(), [true, true]);
        rig
    }

    fn turn(&mut self, now: u64) -> Option<u64> {
        self.engine.turn(now).unwrap()
    }

    fn load(&self, pa: u64) -> u64 {
        self.ram.load(pa).unwrap()
    }

    fn status(&self, channel: usize, field: usize) -> u64 {
        self.load(REGISTERS + status_at(channel, field) as u64)
    }

    fn completed(&self, channel: usize) -> Position {
        Position::unpack(self.status(channel, offset_of!(Status, completed)))
    }

    fn fault(&self, channel: usize) -> u64 {
        self.status(channel, offset_of!(Status, fault))
    }

    /// Sets the holder of a channel from its next session on.
    fn held(&self, channel: usize, holder: u64) {
        let field = control_at(channel, offset_of!(Control, holder));
        self.ram.store(REGISTERS + field as u64, holder).unwrap();
    }

    fn submitted(&self, channel: usize, position: Position) {
        let field = control_at(channel, offset_of!(Control, submitted));
        self.ram.store(REGISTERS + field as u64, position.pack()).unwrap();
    }

    /// Writes a descriptor: source, destination, bytes, flags.
    fn describe(&self, channel: usize, position: Position, words: [u64; 4]) {
        let at = RINGS + descriptor_at(channel, position.index, 0) as u64;
        for (i, word) in words.into_iter().chain([position.pack()]).enumerate() {
            self.ram.store(at + 8 * i as u64, word).unwrap();
        }
    }

    /// Writes a descriptor and submits it.
    fn submit(&mut self, channel: usize, position: Position, words: [u64; 4]) {
        self.describe(channel, position, words);
        self.submitted(channel, position.at(position.index + 1));
    }

    /// Returns the status and the time of a descriptor that has ended.
    fn ended(&self, channel: usize, index: u32) -> (u16, u64) {
        let word = |field| self.load(RINGS + descriptor_at(channel, index, field) as u64);
        let position = self.completed(channel).at(index);
        let status = unpack_status(word(offset_of!(Descriptor, status)), position);
        (status.unwrap(), word(offset_of!(Descriptor, time)))
    }

    fn bytes(&self, pa: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let at = vm_memory::GuestAddress(pa);
        vm_memory::Bytes::read_slice(self.ram.guest(), &mut bytes, at).unwrap();
        bytes
    }

    /// Returns which domains got an interrupt.
    fn interrupted(&self) -> [bool; 2] {
        [1, 2].map(|slot| self.fabric.take_for_test(slot, VECTOR))
    }
}

fn at(epoch: u16, index: u32) -> Position {
    Position { epoch, generation: 0, index }
}

fn copy(from: u64, to: u64, bytes: u64) -> [u64; 4] {
    [OPEN + from, OPEN + to, bytes, flag::COPY]
}

#[test]
fn it_tells_what_it_is_and_whose_its_channels_are() {
    let rig = Rig::open();
    let word = |field| rig.load(REGISTERS + field as u64);
    assert_eq!(word(offset_of!(abi::dma::Engine, magic)), MAGIC);
    assert_eq!(word(offset_of!(abi::dma::Engine, channels)), 4);
    assert_eq!(word(offset_of!(abi::dma::Engine, setup_ns)), SETUP);
    assert_eq!(word(offset_of!(abi::dma::Engine, bandwidth_mbps)), MBPS);
    assert_eq!(word(offset_of!(abi::dma::Engine, interrupts)), 1);
    let owners = [0, 1, 2, 3].map(|channel| rig.status(channel, offset_of!(Status, owner)));
    assert_eq!(owners, [0, 1, 0, 1]);
}

#[test]
fn bytes_move_when_the_transfer_is_due_and_not_before() {
    let mut rig = Rig::open();
    let data: Vec<u8> = (0..1001u32).map(|i| (i * 7) as u8).collect();
    rig.ram.write(OPEN + 3, &data).unwrap();
    rig.submit(0, at(1, 0), copy(3, 0x2001, 1001));
    let due = 500 + SETUP + 1001 * 25;
    assert_eq!(rig.turn(500), Some(500 + SETUP), "the set-up first");
    assert_eq!(rig.turn(500 + SETUP), Some(due));
    rig.turn(due - 1);
    assert_eq!((rig.bytes(OPEN + 0x2000, 1010), rig.completed(0)), (vec![0; 1010], at(1, 0)));
    assert_eq!(rig.interrupted(), [false, false]);
    assert_eq!(rig.turn(due + 12_345), None);
    assert_eq!(rig.bytes(OPEN + 0x2001, 1001), data);
    assert_eq!(rig.bytes(OPEN + 0x2001 + 1001, 8), [0; 8]);
    assert_eq!((rig.completed(0), rig.ended(0, 0)), (at(1, 1), (status::DONE, due)));
    assert_eq!(rig.interrupted(), [true, false], "only the domain that waits for it");
    rig.turn(due + 20_000);
    assert_eq!(rig.interrupted(), [false, false], "nothing ended");
}

#[test]
fn a_pattern_fills_and_is_cut() {
    let mut rig = Rig::open();
    rig.submit(0, at(1, 0), [0x0807_0605_0403_0201, OPEN + 5, 5003, flag::FILL]);
    rig.turn(0);
    rig.turn(1 << 40);
    let expected: Vec<u8> = (0..5003).map(|i| i as u8 % 8 + 1).collect();
    assert_eq!(rig.bytes(OPEN + 5, 5003), expected);
    assert_eq!((rig.bytes(OPEN, 5), rig.bytes(OPEN + 5008, 8)), (vec![0; 5], vec![0; 8]));
}

#[test]
fn a_bad_descriptor_ends_with_its_status_and_the_next_goes_on() {
    let mut rig = Rig::open();
    let table = [
        ([OPEN, 0, 8, flag::COPY], status::ADDRESS),
        ([u64::MAX, OPEN, 8, flag::COPY], status::ADDRESS),
        ([OPEN, REGISTERS, 8, flag::COPY], status::PROTECTED),
        ([7, OPEN + OPEN_BYTES, 8, flag::FILL], status::PROTECTED),
        (copy(0, 64, 0), status::LENGTH),
        (copy(0, 64, MAX_BYTES + 1), status::LENGTH),
        (copy(0, 8, 64), status::OVERLAP),
        ([OPEN, OPEN + 64, 8, 0], status::FLAGS),
        (copy(0, 64, 8), status::DONE),
    ];
    for (index, (words, _)) in table.iter().enumerate() {
        rig.describe(0, at(1, index as u32), *words);
    }
    // A descriptor that was submitted but never written: the slot still has its initial contents.
    rig.submitted(0, at(1, table.len() as u32 + 1));
    rig.turn(0);
    rig.turn(1 << 40);
    for (index, (_, why)) in table.iter().enumerate() {
        assert_eq!(rig.ended(0, index as u32).0, *why, "row {index}");
    }
    assert_eq!(rig.ended(0, table.len() as u32).0, status::QUEUE);
    assert_eq!((rig.completed(0), rig.fault(0)), (at(1, table.len() as u32 + 1), 0));
}

/// Neither domain reads or writes the other's local memory; a channel
/// that changes hands takes the rights of its new holder.
#[test]
fn local_memory_is_its_domains_own() {
    let mut rig = Rig::open();
    let secret = [0x5e; 64];
    for memory in LOCAL {
        rig.ram.write(memory, &secret).unwrap();
    }
    for (channel, own, other) in [(0, LOCAL[0], LOCAL[1]), (1, LOCAL[1], LOCAL[0])] {
        let table = [
            ([OPEN, other, 8, flag::COPY], status::FOREIGN),
            ([7, other, 8, flag::FILL], status::FOREIGN),
            ([other, OPEN, 64, flag::COPY], status::FOREIGN),
            ([other, own + 128, 64, flag::COPY], status::FOREIGN),
            ([own, other + 128, 64, flag::COPY], status::FOREIGN),
            ([own, OPEN + 128, 64, flag::COPY], status::DONE),
        ];
        for (index, (words, _)) in table.iter().enumerate() {
            rig.describe(channel, at(1, index as u32), *words);
        }
        rig.submitted(channel, at(1, table.len() as u32));
        rig.turn((channel as u64) << 41);
        rig.turn((channel as u64) << 41 | 1 << 40);
        for (index, (_, why)) in table.iter().enumerate() {
            assert_eq!(rig.ended(channel, index as u32).0, *why, "channel {channel}, row {index}");
        }
        assert_eq!(
            (rig.bytes(other, 64), rig.bytes(other + 128, 64)),
            (secret.into(), vec![0; 64])
        );
        assert_eq!((rig.bytes(OPEN, 64), rig.bytes(OPEN + 128, 64)), (vec![0; 64], secret.into()));
    }
    // Domain 1 takes over channel 2.
    rig.held(2, 1);
    let next = Position { generation: 2, ..at(1, 0) };
    rig.submit(2, next, [LOCAL[1], OPEN + 256, 64, flag::COPY]);
    rig.describe(2, next.at(1), [LOCAL[0], OPEN + 256, 64, flag::COPY]);
    rig.submitted(2, next.at(2));
    rig.turn(1 << 43);
    rig.turn(1 << 44);
    assert_eq!((rig.ended(2, 0).0, rig.ended(2, 1).0), (status::DONE, status::FOREIGN));
}

#[test]
fn rings_wrap_and_so_do_indices() {
    let mut rig = Rig::open();
    let mut now = 0;
    for index in 0..100 {
        rig.submit(1, at(1, index), copy(0, 64 + u64::from(index), 8));
        rig.turn(now);
        now += 10_000;
        rig.turn(now);
        assert_eq!((rig.completed(1), rig.ended(1, index).0), (at(1, index + 1), status::DONE));
    }
}

#[test]
fn more_than_the_ring_holds_ends_the_session_until_a_new_one() {
    let mut rig = Rig::open();
    rig.submit(0, at(1, 0), copy(0, 64, 8));
    rig.turn(0);
    rig.submitted(0, at(1, RING as u32 + 1));
    rig.turn(0);
    assert_eq!((rig.fault(0), rig.completed(0)), (u64::from(status::QUEUE), at(1, 0)));
    assert_eq!(rig.interrupted(), [true, false]);
    rig.submitted(0, at(1, 2));
    assert_eq!(rig.turn(1 << 30), None, "a broken session takes nothing");
    assert_eq!(rig.bytes(OPEN + 64, 8), [0; 8]);
    let again = Position { epoch: 1, generation: 1, index: 0 };
    rig.submitted(0, again);
    rig.turn(1 << 30);
    assert_eq!((rig.fault(0), rig.completed(0)), (0, again));
    rig.submit(0, again, copy(0, 64, 8));
    rig.turn(1 << 31);
    rig.turn(1 << 32);
    assert_eq!((rig.completed(0), rig.ended(0, 0).0), (again.at(1), status::DONE));
    // A session that begins with more than the ring holds is opened, so that its driver sees the
    // fault.
    let late = Position { epoch: 1, generation: 2, index: RING as u32 + 1 };
    rig.submitted(0, late);
    rig.turn(1 << 33);
    assert_eq!((rig.fault(0), rig.completed(0)), (u64::from(status::QUEUE), late.at(0)));
}

#[test]
fn words_of_another_epoch_are_not_believed() {
    let mut rig = Rig::new();
    rig.engine.powered(0, 5);
    for position in [at(0, 0), at(4, 0), at(6, 3), at(4, 1)] {
        rig.describe(0, at(position.epoch, 0), copy(0, 64, 8));
        rig.submitted(0, position);
        assert_eq!(rig.turn(0), None);
    }
    assert_eq!((rig.completed(0), rig.interrupted()), (at(0, 0), [false, false]));
    rig.submitted(0, at(5, 0));
    rig.submitted(1, at(5, 0));
    rig.turn(0);
    assert_eq!((rig.completed(0), rig.completed(1)), (at(5, 0), at(0, 0)), "1 has no power");
}

#[test]
fn a_fenced_domain_moves_nothing_more_and_the_other_goes_on() {
    let mut rig = Rig::open();
    rig.ram.write(OPEN, &[0xa5; 4000]).unwrap();
    rig.submit(1, at(1, 0), copy(0, 0x4000, 4000));
    rig.describe(1, at(1, 1), copy(0, 0x6000, 4000));
    rig.submitted(1, at(1, 2));
    rig.submit(0, at(1, 0), copy(0, 0x8000, 4000));
    rig.turn(0);
    rig.turn(SETUP);
    // Half of what both would take at half the speed; both are overdue when the fence comes.
    rig.engine.fence(1, SETUP + 100_000).unwrap();
    assert_eq!(rig.turn(SETUP + 100_000), Some(SETUP + 150_000), "the other has all bandwidth");
    assert_eq!(rig.turn(1 << 40), None);
    assert_eq!(rig.bytes(OPEN + 0x4000, 0x4000), [0; 0x4000]);
    assert_eq!(rig.ended(0, 0), (status::DONE, SETUP + 150_000));
    assert_eq!(rig.completed(1), at(1, 0), "nothing of it ended");
    // Its next life starts without anything from the previous one.
    rig.engine.powered(1, 2);
    assert_eq!(rig.turn(1 << 41), None);
    rig.submitted(1, at(1, 2));
    assert_eq!(rig.turn(1 << 41), None);
    rig.submitted(1, at(2, 0));
    rig.turn(1 << 41);
    rig.submit(1, at(2, 0), copy(0, 0x4000, 4000));
    rig.turn(1 << 41);
    rig.turn(1 << 42);
    assert_eq!((rig.completed(1), rig.ended(1, 0).0), (at(2, 1), status::DONE));
    assert_eq!(rig.bytes(OPEN + 0x4000, 4000), [0xa5; 4000]);
}

#[test]
fn due_but_fenced_is_dropped_too() {
    let mut rig = Rig::open();
    rig.submit(1, at(1, 0), [1, OPEN, 8, flag::FILL]);
    rig.turn(0);
    rig.engine.fence(1, 1 << 40).unwrap();
    assert_eq!((rig.turn(1 << 41), rig.bytes(OPEN, 8)), (None, vec![0; 8]));
}

#[test]
fn a_channel_changes_hands_with_its_next_session() {
    let mut rig = Rig::open();
    let next = |generation| Position { epoch: 1, generation, index: 0 };
    rig.ram.write(OPEN, &[0xa5; 64]).unwrap();
    // The new holder is set while the old session's word is still there.
    rig.held(1, 0);
    rig.turn(0);
    assert_eq!((rig.completed(1), rig.interrupted()), (at(1, 0), [false, false]));
    // A session opens and begins with what its first word submits.
    rig.submit(1, next(1), copy(0, 0x4000, 64));
    rig.turn(0);
    assert_eq!((rig.completed(1), rig.bytes(OPEN + 0x4000, 1)), (next(1), vec![0]));
    rig.interrupted();
    rig.turn(1 << 40);
    assert_eq!((rig.completed(1), rig.ended(1, 0).0), (next(1).at(1), status::DONE));
    assert_eq!(rig.interrupted(), [true, false], "it works for domain 0 now");
    // The death of the old holder does not affect it; what the new one has submitted meanwhile
    // continues.
    rig.submit(1, next(1).at(1), copy(0, 0x5000, 64));
    rig.engine.fence(1, 1 << 40).unwrap();
    rig.turn(1 << 40);
    rig.turn(1 << 41);
    assert_eq!((rig.completed(1), rig.bytes(OPEN + 0x5000, 1)), (next(1).at(2), vec![0xa5]));
    // Taken over and submitted, but not seen when the old holder is fenced.
    rig.engine.powered(1, 2);
    rig.held(1, 1);
    rig.submit(1, Position { epoch: 2, generation: 2, index: 0 }, copy(0, 0x6000, 64));
    rig.turn(1 << 41);
    rig.held(1, 0);
    rig.submit(1, next(3), copy(0, 0x7000, 64));
    rig.engine.fence(1, 1 << 41).unwrap();
    rig.turn(1 << 41);
    rig.turn(1 << 42);
    assert_eq!((rig.completed(1), rig.bytes(OPEN + 0x7000, 1)), (next(3).at(1), vec![0xa5]));
    assert_eq!(rig.bytes(OPEN + 0x6000, 1), [0]);
    // An invalid domain index is ignored.
    rig.held(1, 2);
    rig.submit(1, next(4), copy(0, 0x8000, 64));
    assert_eq!(rig.turn(1 << 43), None);
}

/// Random words in domain 0's memory: the soc survives, protected memory is unchanged, and domain 1
/// notices only a delay.
#[test]
fn whatever_a_domain_writes_harms_itself_only() {
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let mut rig = Rig::open();
        let guard =
            |rig: &Rig| (rig.bytes(BASE + 0x8000, 0x1000), rig.bytes(OPEN + OPEN_BYTES, 0x1000));
        rig.ram.write(BASE + 0x8000, &[1; 0x1000]).unwrap();
        rig.ram.write(OPEN + OPEN_BYTES, &[2; 0x1000]).unwrap();
        let before = guard(&rig);
        let mut now = 0;
        for index in 0..20 {
            for _ in 0..prng.below(30) {
                scribble(&mut rig, &mut prng);
            }
            rig.turn(now);
            let to = OPEN + prng.below(OPEN_BYTES - 16) / 8 * 8;
            rig.submit(1, at(1, index), [seed, to, 8, flag::FILL]);
            rig.turn(now);
            now += 1 << 40;
            rig.turn(now);
            assert_eq!(rig.completed(1), at(1, index + 1), "seed {seed}");
            assert_eq!(rig.ended(1, index).0, status::DONE, "seed {seed}");
        }
        assert!(guard(&rig) == before, "seed {seed}: protected memory was written");
    }
}

fn scribble(rig: &mut Rig, prng: &mut Prng) {
    let channel = 2 * prng.below(2) as usize;
    let value = match prng.below(6) {
        0 => prng.next(),
        1 => OPEN + prng.below(OPEN_BYTES),
        2 => prng.below(4096),
        3 => BASE + prng.below(4 << 20),
        _ => Position { epoch: 1, generation: prng.below(2) as u16, index: prng.below(40) as u32 }
            .pack(),
    };
    let at = if prng.chance(1, 3) {
        REGISTERS + control_at(channel, 8 * prng.below(3) as usize) as u64
    } else {
        let slot = prng.below(RING as u64) as u32;
        RINGS + descriptor_at(channel, slot, 8 * prng.below(8) as usize) as u64
    };
    rig.ram.store(at, value).unwrap();
}

#[test]
fn the_thread_keeps_host_time() {
    let rig = Rig::open();
    let Rig { engine, ram, fabric, device, _folder } = rig;
    let gate = fabric.gate().clone();
    let handle = Handle::new(engine, &device, fabric.clone());
    let stop = Arc::new(Doorbell::new().unwrap());
    let thread = std::thread::spawn({
        let (handle, stop) = (handle.clone(), stop.clone());
        move || run(&handle, &stop)
    });
    let rings = |word: usize| RINGS + 8 * word as u64;
    let words = [0x55, OPEN, 40_000, flag::FILL, at(1, 0).pack()];
    words.iter().enumerate().for_each(|(i, &word)| ram.store(rings(i), word).unwrap());
    let submitted = REGISTERS + control_at(0, offset_of!(Control, submitted)) as u64;
    let before = gate.now();
    ram.store(submitted, at(1, 1).pack()).unwrap();
    fabric.ring(0, KICK);
    let completed = REGISTERS + status_at(0, offset_of!(Status, completed)) as u64;
    while ram.load(completed).unwrap() != at(1, 1).pack() {
        std::thread::yield_now();
    }
    let after = gate.now();
    let time = ram.load(rings(6)).unwrap();
    assert!(time >= before + SETUP + 1_000_000 && after >= time, "{before} {time} {after}");
    // A fence also wakes the thread; one that drops nothing has no effect.
    handle.fence(0);
    stop.ring();
    thread.join().unwrap();
}
