//! Devices driven through their registers and rings in memory, as a kernel's driver does.

use super::block::Block;
use super::console::Console;
use super::rng::Rng;
use super::*;

mod frames;
mod streams;

use crate::config::{Device as Config, DeviceKind};
use crate::eye::Eye;
use crate::gate::Gate;
use lab::{model::Lab, report, watch::Watch};
use lab_cache::{Access, Domain, Path};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

const BASE: u64 = 0x4000_0000;
const REGISTERS: u64 = BASE + 0x1000;
const QUEUES: u64 = BASE + 0x1_0000;
const BUFFERS: u64 = BASE + 0x2_0000;
const SIZE: u64 = 8;
const VECTOR: usize = 2;
const KICK: usize = 1;

/// A driver and the device it drives.
struct Driver<M: Model> {
    device: Device<M>,
    ram: Ram,
    fabric: Fabric,
    available: [u16; 2],
    folder: tempfile::TempDir,
}

type Buffer = (u64, u32, bool);

impl<M: Model> Driver<M> {
    fn new(make: impl FnOnce(&std::path::Path) -> M) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ram = Ram::create(&folder.path().join("ram"), 1 << 20, BASE).unwrap();
        let fabric = Fabric::new(2, 4, 0, 4096, Gate::open(Instant::now())).unwrap();
        let config = Config {
            name: "under test".into(),
            kind: DeviceKind::Rng,
            vector: VECTOR as u16,
            kick: KICK as u16,
            registers: REGISTERS,
            ..Config::default()
        };
        let model = make(folder.path());
        let device = Device::new(&config, ram.clone(), fabric.clone(), model).unwrap();
        let mut driver = Driver { device, ram, fabric, available: [0; 2], folder };
        driver.start();
        driver
    }

    fn register(&self, field: usize) -> u64 {
        self.ram.load(REGISTERS + field as u64).unwrap()
    }

    fn set(&mut self, field: usize, value: u64) {
        self.ram.store(REGISTERS + field as u64, value).unwrap();
    }

    fn set_status(&mut self, status: u64) -> u64 {
        self.set(offset_of!(DeviceRegisters, status), status);
        let sequence = self.register(offset_of!(DeviceRegisters, sequence)) + 1;
        self.set(offset_of!(DeviceRegisters, sequence), sequence);
        self.device.turn();
        assert_eq!(self.register(offset_of!(DeviceRegisters, acknowledged)), sequence);
        self.register(offset_of!(DeviceRegisters, device_status))
    }

    fn ring_at(queue: usize) -> u64 {
        QUEUES + 0x1000 * queue as u64
    }

    fn start(&mut self) {
        assert_eq!(self.set_status(0), 0);
        for queue in 0..2 {
            self.ram.write(Self::ring_at(queue), &[0; 0x1000]).unwrap();
            let at = Self::ring_at(queue);
            let words = [SIZE, at, at + 0x400, at + 0x800];
            for (i, word) in words.into_iter().enumerate() {
                let field = offset_of!(DeviceRegisters, queues) + queue * 32 + i * 8;
                self.set(field, word);
            }
        }
        self.available = [0; 2];
        let offered = self.register(offset_of!(DeviceRegisters, device_features));
        self.set(offset_of!(DeviceRegisters, driver_features), offered);
        assert_eq!(self.set_status(15), 15);
    }

    /// Makes a chain of buffers available; its descriptors start at `head`.
    fn offer(&mut self, queue: usize, head: u16, buffers: &[Buffer]) {
        let at = Self::ring_at(queue);
        for (i, &(address, size, writable)) in buffers.iter().enumerate() {
            let next = head + i as u16 + 1;
            let more = u16::from(i + 1 < buffers.len());
            let mut bytes = address.to_le_bytes().to_vec();
            bytes.extend(size.to_le_bytes());
            bytes.extend((more | u16::from(writable) << 1).to_le_bytes());
            bytes.extend(next.to_le_bytes());
            self.ram.write(at + 16 * u64::from(next - 1), &bytes).unwrap();
        }
        let index = self.available[queue];
        let slot = u64::from(index) % SIZE;
        self.ram.write(at + 0x400 + 4 + 2 * slot, &head.to_le_bytes()).unwrap();
        self.available[queue] = index.wrapping_add(1);
        self.ram.write(at + 0x402, &self.available[queue].to_le_bytes()).unwrap();
    }

    /// Returns the number of used chains, and head and length of the last one.
    fn used(&self, queue: usize) -> (u16, u32, u32) {
        let read = |offset: u64, size: usize| {
            let mut bytes = [0u8; 4];
            let at = GuestAddress(Self::ring_at(queue) + 0x800 + offset);
            vm_memory::Bytes::read_slice(self.ram.guest(), &mut bytes[..size], at).unwrap();
            u32::from_le_bytes(bytes)
        };
        let index = read(2, 2) as u16;
        let slot = u64::from(index.wrapping_sub(1)) % SIZE;
        (index, read(4 + 8 * slot, 4), read(8 + 8 * slot, 4))
    }

    fn bytes(&self, at: u64, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        let at = GuestAddress(at);
        vm_memory::Bytes::read_slice(self.ram.guest(), &mut bytes, at).unwrap();
        bytes
    }

    /// Returns whether the interrupt was rung at the domain.
    fn interrupted(&self) -> bool {
        self.fabric.take_for_test(1, VECTOR)
    }

    fn needs_reset(&self) -> bool {
        self.register(offset_of!(DeviceRegisters, device_status)) & status::NEEDS_RESET != 0
    }
}

fn disk(folder: &std::path::Path, read_only: bool) -> Block {
    let path = folder.join("disk");
    let content: Vec<u8> = (0..512 * 300).map(|i| (i / 512) as u8).collect();
    std::fs::write(&path, content).unwrap();
    Block::open(&path, "disk", read_only).unwrap()
}

impl Driver<Block> {
    /// Sends a request. Returns its status byte.
    fn request(&mut self, kind: u32, sector: u64, data: &[Buffer]) -> u8 {
        let mut header = u64::from(kind).to_le_bytes().to_vec();
        header.extend(sector.to_le_bytes());
        self.ram.write(BUFFERS, &header).unwrap();
        self.ram.write(BUFFERS + 16, &[0xff]).unwrap();
        let mut chain = vec![(BUFFERS, 16, false)];
        chain.extend(data);
        chain.push((BUFFERS + 16, 1, true));
        self.offer(0, 0, &chain);
        self.device.turn();
        self.bytes(BUFFERS + 16, 1)[0]
    }
}

const DATA: u64 = BUFFERS + 0x1000;
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const ID: u32 = 8;
const OK: u8 = 0;
const IOERR: u8 = 1;
const UNSUPPORTED: u8 = 2;

#[test]
fn rng_fills_what_it_is_given() {
    let mut driver = Driver::new(|_| Rng);
    assert_eq!(driver.register(offset_of!(DeviceRegisters, device_id)), 4);
    driver.offer(0, 3, &[(BUFFERS, 64, true), (BUFFERS + 0x100, 64, true)]);
    driver.device.turn();
    assert_eq!(driver.used(0), (1, 3, 128));
    assert_ne!(driver.bytes(BUFFERS, 64), [0; 64]);
    assert!(driver.interrupted());
    assert_eq!(driver.register(offset_of!(DeviceRegisters, interrupts)), 1);
    driver.device.turn();
    assert!(!driver.interrupted(), "nothing was used");
}

#[test]
fn rings_wrap() {
    let mut driver = Driver::new(|_| Rng);
    for n in 1..=70_000u32 {
        driver.offer(0, (n % 8) as u16, &[(BUFFERS, 8, true)]);
        driver.device.turn();
        assert_eq!(driver.used(0), (n as u16, n % 8, 8));
    }
}

#[test]
fn block_reads_writes_flushes_and_names_itself() {
    let mut driver = Driver::new(|folder| disk(folder, false));
    assert_eq!(driver.register(offset_of!(DeviceRegisters, config)), 300);
    // 257 sectors in two buffers: more than one chunk, and split inside a sector.
    let parts = [(DATA, 1000, true), (DATA + 1000, 257 * 512 - 1000, true)];
    assert_eq!(driver.request(READ, 43, &parts), OK);
    assert_eq!(driver.used(0), (1, 0, 257 * 512 + 1));
    let expected: Vec<u8> = (0..257 * 512).map(|i| (43 + i / 512) as u8).collect();
    assert!(driver.bytes(DATA, 257 * 512) == expected);

    driver.ram.write(DATA, &[0xa5; 1024]).unwrap();
    assert_eq!(driver.request(WRITE, 298, &[(DATA, 1024, false)]), OK);
    assert_eq!(driver.request(FLUSH, 0, &[]), OK);
    let image = std::fs::read(driver.folder.path().join("disk")).unwrap();
    assert!(image[298 * 512..] == [0xa5; 1024] && image.len() == 300 * 512);

    assert_eq!(driver.request(ID, 0, &[(DATA, 20, true)]), OK);
    assert_eq!(&driver.bytes(DATA, 5), b"disk\0");
}

#[test]
fn block_refuses_what_is_outside_or_unknown() {
    let mut driver = Driver::new(|folder| disk(folder, false));
    let table = [
        (READ, 300, 512, IOERR),
        (READ, 299, 1024, IOERR),
        (READ, u64::MAX, 512, IOERR),
        (READ, 0, 100, IOERR),
        (WRITE, 300, 512, IOERR),
        (99, 0, 512, UNSUPPORTED),
        (READ, 299, 512, OK),
    ];
    for (kind, sector, size, expected) in table {
        let status = driver.request(kind, sector, &[(DATA, size, kind != WRITE)]);
        assert_eq!(status, expected, "kind {kind}, sector {sector}, size {size}");
    }
    let mut driver = Driver::new(|folder| disk(folder, true));
    assert_eq!(driver.request(WRITE, 0, &[(DATA, 512, false)]), IOERR);
    assert_eq!(driver.request(READ, 0, &[(DATA, 512, true)]), OK);
}

#[test]
fn a_drivers_mistakes_need_a_reset_and_nothing_worse() {
    type Mistake = fn(&mut Driver<Block>);
    let mistakes: [Mistake; 5] = [
        |d| d.offer(0, 0, &[(BUFFERS, 16, false)]),
        |d| d.offer(0, 0, &[(BUFFERS, 16, false), (0x10, 1, true)]),
        |d| d.offer(0, 200, &[]),
        |d| d.available[0] = 100,
        |d| d.offer(0, 0, &[(u64::MAX - 3, 16, false), (BUFFERS, 1, true)]),
    ];
    let mut driver = Driver::new(|folder| disk(folder, false));
    for (i, make) in mistakes.iter().enumerate() {
        make(&mut driver);
        let index = driver.available[0].to_le_bytes();
        driver.ram.write(QUEUES + 0x402, &index).unwrap();
        driver.device.turn();
        assert!(driver.needs_reset() && driver.interrupted(), "mistake {i}");
        driver.device.turn();
        assert!(!driver.interrupted(), "mistake {i}: a broken device is silent");
        driver.start();
        assert_eq!(driver.request(READ, 1, &[(DATA, 512, true)]), OK, "after mistake {i}");
        assert!(driver.interrupted());
    }
}

#[test]
fn a_bad_queue_and_bad_features_are_refused() {
    for (word, value) in [(0, 3), (0, 1 << 20), (1, BASE + 1), (2, 1), (3, !7)] {
        let mut driver = Driver::new(|_| Rng);
        driver.set_status(0);
        driver.set(offset_of!(DeviceRegisters, queues) + 8 * word, value);
        driver.set_status(11);
        assert_ne!(driver.set_status(15) & status::NEEDS_RESET, 0, "word {word} = {value:#x}");
        driver.start();
    }
    let mut driver = Driver::new(|_| Rng);
    for features in [0, VERSION_1 | 1] {
        driver.set_status(0);
        driver.set(offset_of!(DeviceRegisters, driver_features), features);
        assert_eq!(driver.set_status(11), 3, "FEATURES_OK is withdrawn");
    }
}

fn client(driver: &Driver<Console>) -> UnixStream {
    let stream = UnixStream::connect(driver.folder.path().join("sock")).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    stream
}

fn reads(client: &mut UnixStream, expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    client.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(expected));
}

#[test]
fn console_goes_to_everybody_and_comes_from_anybody() {
    let mut voice = None;
    let mut driver = Driver::new(|folder| {
        let (console, sayer) = Console::open(&folder.join("sock"), &folder.join("log")).unwrap();
        voice = Some(sayer);
        console
    });
    let print = |driver: &mut Driver<Console>, text: &[u8]| {
        driver.ram.write(BUFFERS, text).unwrap();
        driver.offer(1, 0, &[(BUFFERS, text.len() as u32, false)]);
        driver.device.turn();
    };
    let mut first = client(&driver);
    print(&mut driver, b"hello ");
    let mut second = client(&driver);
    print(&mut driver, b"world");
    reads(&mut first, b"hello world");
    reads(&mut second, b"hello world");
    assert_eq!(driver.used(1).0, 2);

    // Input waits until there is a buffer for it.
    second.write_all(b"ls\n").unwrap();
    driver.device.turn();
    assert_eq!(driver.used(0).0, 0);
    driver.offer(0, 5, &[(DATA, 2, true)]);
    driver.offer(0, 6, &[(DATA + 8, 8, true)]);
    driver.device.turn();
    assert_eq!(driver.used(0), (2, 6, 1));
    assert_eq!((driver.bytes(DATA, 2), driver.bytes(DATA + 8, 1)), (b"ls".into(), b"\n".into()));

    drop(first);
    voice.unwrap().say("bye");
    driver.device.turn();
    reads(&mut second, b"\r\n[soc] bye\r\n");
    let log = std::fs::read_to_string(driver.folder.path().join("log")).unwrap();
    assert_eq!(log, "hello world\r\n[soc] bye\r\n");
}

#[test]
fn input_that_no_reader_was_given_comes_again_after_a_reset() {
    let mut driver =
        Driver::new(|folder| Console::open(&folder.join("sock"), &folder.join("log")).unwrap().0);
    let mut user = client(&driver);
    user.write_all(b"abcdef").unwrap();
    driver.offer(0, 0, &[(DATA, 4, true)]);
    driver.device.turn();
    assert_eq!(driver.bytes(DATA, 4), b"abcd");
    // A kernel gives a reader two bytes and prints; then the driver's state is lost with it.
    driver.set(offset_of!(DeviceRegisters, taken), 2);
    driver.ram.write(BUFFERS, b"seen").unwrap();
    driver.offer(1, 0, &[(BUFFERS, 4, false)]);
    driver.start();
    driver.offer(0, 0, &[(DATA, 16, true)]);
    driver.device.turn();
    assert_eq!(driver.bytes(DATA, 4), b"cdef");
    reads(&mut user, b"seen");
    // A count that cannot be is of no use, and does no harm.
    driver.set(offset_of!(DeviceRegisters, taken), u64::MAX);
    driver.start();
    user.write_all(b"g").unwrap();
    driver.offer(0, 0, &[(DATA, 16, true)]);
    driver.device.turn();
    assert_eq!(driver.bytes(DATA, 1), b"g");
}

#[test]
fn input_after_a_wrong_count_comes_again_after_a_reset() {
    let mut driver =
        Driver::new(|folder| Console::open(&folder.join("sock"), &folder.join("log")).unwrap().0);
    let mut user = client(&driver);
    driver.set(offset_of!(DeviceRegisters, taken), 1000);
    driver.start();
    user.write_all(b"gh").unwrap();
    for _ in 0..2 {
        driver.offer(0, 0, &[(DATA, 16, true)]);
        driver.device.turn();
        assert_eq!(driver.bytes(DATA, 2), b"gh");
        driver.ram.write(DATA, b"xx").unwrap();
        driver.start();
    }
}

#[test]
fn console_backlog_is_bounded() {
    let mut driver =
        Driver::new(|folder| Console::open(&folder.join("sock"), &folder.join("log")).unwrap().0);
    driver.ram.write(DATA, &[b'x'; 0x4000]).unwrap();
    for _ in 0..20 {
        driver.offer(1, 0, &[(DATA, 0x4000, false)]);
        driver.device.turn();
    }
    let mut late = client(&driver);
    driver.device.turn();
    driver.device.model.finish();
    reads(&mut late, &[b'x'; console::BACKLOG]);
    late.set_nonblocking(true).unwrap();
    assert!(late.read(&mut [0]).is_err(), "more than the backlog was replayed");
}

#[test]
fn a_device_runs_in_its_thread_until_stopped() {
    let driver = Driver::new(|_| Rng);
    let Driver { device, ram, fabric, folder: _folder, .. } = driver;
    let stop = Arc::new(Doorbell::new().unwrap());
    let thread = std::thread::spawn({
        let stop = stop.clone();
        move || run(device, &stop)
    });
    let sequence = REGISTERS + offset_of!(DeviceRegisters, sequence) as u64;
    let next = ram.load(sequence).unwrap() + 1;
    ram.store(sequence, next).unwrap();
    fabric.ring(0, KICK);
    let acknowledged = REGISTERS + offset_of!(DeviceRegisters, acknowledged) as u64;
    while ram.load(acknowledged).unwrap() != next {
        std::thread::yield_now();
    }
    stop.ring();
    thread.join().unwrap();
}

/// A driver whose accesses the sanitizer checks.
struct Watched {
    watch: Watch,
    folder: PathBuf,
}

impl Watched {
    /// The driver's core changes a line without cleaning it.
    fn change(&self, pa: u64) {
        let domain = Domain::new(0).unwrap();
        self.watch.store(Access { domain, pa, len: 8, pc: 1 }, Path::Cached);
    }

    fn told(&self) -> Vec<(String, u64)> {
        let all = report::read(&self.folder).unwrap();
        all.into_iter().map(|report| (report.kind, report.line)).collect()
    }
}

impl<M: Model> Driver<M> {
    fn watched(&mut self) -> Watched {
        let folder = self.folder.path().to_owned();
        let mut lab = Lab::default();
        (lab.memory.base, lab.memory.bytes) = (BASE, 1 << 20);
        lab.write(&folder).unwrap();
        let watch = Watch::open(&folder, &folder.join("ram"), &lab).unwrap();
        self.device.ram = self.ram.seen_by(Eye::open(&folder, &folder.join("ram")).unwrap());
        Watched { watch, folder }
    }
}

#[test]
fn the_sanitizer_is_told_what_was_moved_and_no_more() {
    let mut driver = Driver::new(|_| Rng);
    let watched = driver.watched();
    let dirty = |pa| watched.change(pa);
    let most = 4096;
    // Not read; written; after what was written.
    [BUFFERS, DATA, DATA + most].into_iter().for_each(dirty);
    let buffers = [(BUFFERS, 0xffff_0000, false), (DATA, 2 * most as u32, true)];
    driver.offer(0, 0, &buffers);
    driver.device.turn();
    assert_eq!(driver.used(0), (1, 0, most as u32));
    let told = [("lost update".to_owned(), DATA)];
    assert_eq!(watched.told(), told);
    // A chain that cannot be served causes no accesses.
    dirty(DATA + 64);
    driver.offer(0, 0, &[(DATA, u32::MAX, true)]);
    driver.device.turn();
    assert!(driver.needs_reset());
    assert_eq!(watched.told(), told);
}

#[test]
fn the_sanitizer_is_told_of_a_status_byte() {
    let mut driver = Driver::new(|folder| disk(folder, false));
    let watched = driver.watched();
    // Header and status share a line; the data buffer is returned without a byte written.
    [BUFFERS, DATA].into_iter().for_each(|pa| watched.change(pa));
    assert_eq!(driver.request(99, 0, &[(DATA, 512, true)]), UNSUPPORTED);
    let told = ["missing clean", "lost update"].map(|kind| (kind.to_owned(), BUFFERS));
    assert_eq!(watched.told(), told);
}
