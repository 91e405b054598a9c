//! The soc's vsock device, between clients of its socket and a driver that writes anything to its
//! registers, rings and packets. Rules:
//! - nothing panics or hangs;
//! - a client gets no byte before its stream is open;
//! - the device offers its driver a way out: after a reset, a driver that keeps to the protocol
//!   serves a new client, whose bytes arrive in both directions.

use crate::bytes::Bytes;
use crate::{Target, mutate};
use abi::soc::{DeviceRegisters, MAX_QUEUES, QueueRegisters};
use abi::vsock::{BOARD, Consumed, HOST, Header, Op, RECEIVE, TRANSMIT};
use base::prng::Prng;
use soc::config::Device as Config;
use soc::fabric::Fabric;
use soc::gate::Gate;
use soc::memory::Ram;
use soc::virtio::Device;
use soc::virtio::vsock::Vsock;
use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::mem::offset_of;
use std::os::unix::net::UnixStream;
use std::time::Instant;
use zerocopy::{FromBytes, IntoBytes};

pub const TARGET: Target = Target {
    name: "vsock",
    about: "the soc's vsock device, under a driver that writes anything",
    daily: 600,
    nightly: 50_000,
    run: |bytes| BENCH.with_borrow_mut(|bench| bench.run(Bytes::new(bytes, LONGEST))),
    seed: |seed| mutate::noise(&mut Prng::new(seed), 50, 1200),
    outcomes: || {
        vec![(0, "a broken driver"), (1, "a packet to the driver"), (2, "a client disconnected")]
    },
};

/// Bytes of an input that is used.
const LONGEST: usize = 4096;
const BASE: u64 = 0x4000_0000;
const REGISTERS: u64 = BASE + 0x1000;
const QUEUES: u64 = BASE + 0x1_0000;
const BUFFERS: u64 = BASE + 0x2_0000;
const SIZE: u64 = 8;
const NEEDS_RESET: u64 = 64;
/// Where packets to the driver are written.
const PACKET: u64 = BUFFERS + 0x4000;
/// Room for a packet.
const ROOM: u32 = 0x2000;

thread_local! {
    static BENCH: RefCell<Bench> = RefCell::new(Bench::new());
}

/// The device, and the memory of the chip.
struct Bench {
    device: Device<Vsock>,
    ram: Ram,
    folder: tempfile::TempDir,
    available: [u16; 2],
    /// Whether a buffer waits for a packet.
    offered: bool,
    /// The index of the used ring after the last packet.
    seen: u16,
}

fn ring(queue: usize) -> u64 {
    QUEUES + 0x1000 * queue as u64
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let ram = Ram::create(&folder.path().join("ram"), 1 << 20, BASE).unwrap();
        let fabric = Fabric::new(2, 4, 0, 4096, Gate::open(Instant::now())).unwrap();
        let config = Config {
            name: "it".into(),
            vector: 2,
            kick: 1,
            registers: REGISTERS,
            ..Config::default()
        };
        let model = Vsock::open(&folder.path().join("vsock.sock")).unwrap();
        let device = Device::new(&config, ram.clone(), fabric, model).unwrap();
        Bench { device, ram, folder, available: [0; 2], offered: false, seen: 0 }
    }

    fn client(&self) -> UnixStream {
        let client = UnixStream::connect(self.folder.path().join("vsock.sock")).unwrap();
        client.set_nonblocking(true).unwrap();
        client
    }

    fn set(&self, field: usize, value: u64) {
        self.ram.store(REGISTERS + field as u64, value).unwrap();
    }

    fn register(&self, field: usize) -> u64 {
        self.ram.load(REGISTERS + field as u64).unwrap()
    }

    fn status(&mut self, status: u64) -> u64 {
        self.set(offset_of!(DeviceRegisters, status), status);
        let sequence = self.register(offset_of!(DeviceRegisters, sequence)).wrapping_add(1);
        self.set(offset_of!(DeviceRegisters, sequence), sequence);
        self.device.turn();
        assert_eq!(self.register(offset_of!(DeviceRegisters, acknowledged)), sequence);
        self.register(offset_of!(DeviceRegisters, device_status))
    }

    /// Initializes the device as a driver that keeps to the protocol.
    fn start(&mut self) {
        assert_eq!(self.status(0), 0);
        for queue in 0..MAX_QUEUES {
            let size = queue * size_of::<QueueRegisters>() + offset_of!(QueueRegisters, size);
            self.set(offset_of!(DeviceRegisters, queues) + size, 0);
        }
        for queue in 0..2 {
            let at = ring(queue);
            self.ram.write(at, &[0; 0x1000]).unwrap();
            let words = [SIZE, at, at + 0x400, at + 0x800];
            for (index, word) in words.into_iter().enumerate() {
                let field = queue * size_of::<QueueRegisters>() + 8 * index;
                self.set(offset_of!(DeviceRegisters, queues) + field, word);
            }
        }
        (self.available, self.offered, self.seen) = ([0; 2], false, 0);
        let offered = self.register(offset_of!(DeviceRegisters, device_features));
        self.set(offset_of!(DeviceRegisters, driver_features), offered);
        assert_eq!(self.status(15), 15);
    }

    /// Makes a buffer available.
    fn offer(&mut self, queue: usize, slot: u16, address: u64, bytes: u32) {
        let at = ring(queue);
        let flags = if queue == RECEIVE { 2u16 } else { 0 };
        let mut descriptor = address.to_le_bytes().to_vec();
        descriptor.extend(bytes.to_le_bytes());
        descriptor.extend([flags.to_le_bytes(), [0; 2]].concat());
        self.ram.write(at + 16 * u64::from(slot), &descriptor).unwrap();
        let index = self.available[queue];
        self.ram.write(at + 0x404 + 2 * (u64::from(index) % SIZE), &slot.to_le_bytes()).unwrap();
        self.available[queue] = index.wrapping_add(1);
        self.ram.write(at + 0x402, &self.available[queue].to_le_bytes()).unwrap();
    }

    fn send(&mut self, header: &Header, data: &[u8]) {
        let bytes = [header.as_bytes(), data].concat();
        self.ram.write(BUFFERS, &bytes).unwrap();
        self.offer(TRANSMIT, 0, BUFFERS, bytes.len() as u32);
        self.device.turn();
    }

    fn packet(&mut self, client: u32, op: Op, data: &[u8]) {
        let said = (op, data.len(), 0);
        let header = Header::new((BOARD, HOST), (1, client), said, &mut Consumed::default());
        self.send(&header, data);
    }

    /// Receives a packet as a driver that keeps to the protocol.
    fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        if !std::mem::replace(&mut self.offered, true) {
            self.offer(RECEIVE, 0, PACKET, ROOM);
        }
        self.device.turn();
        // The index is the second half-word of the used ring.
        let now = (self.ram.load(ring(RECEIVE) + 0x800).unwrap() >> 16) as u16;
        if std::mem::replace(&mut self.seen, now) == now {
            return None;
        }
        self.offered = false;
        let words = (0..u64::from(ROOM)).step_by(8).map(|at| self.ram.load(PACKET + at).unwrap());
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let (header, data) = Header::read_from_prefix(&bytes).unwrap();
        Some((header, data[..header.bytes.get() as usize].to_vec()))
    }

    /// Receives packets up to one of this kind.
    fn next_of(&mut self, op: Op) -> (Header, Vec<u8>) {
        let found =
            (0..300).find_map(|_| self.receive().filter(|(header, _)| header.op == op as u16));
        found.unwrap_or_else(|| panic!("{op:?} does not come"))
    }

    fn run(&mut self, mut input: Bytes<'_>) -> u64 {
        self.start();
        let mut clients = vec![self.client(), self.client()];
        clients[0].write_all(b"CONNECT 1\n").unwrap();
        clients[1].write_all(input.take(20)).unwrap();
        let mut outcomes = 0;
        while !input.is_empty() {
            match input.below(8) {
                0 => self.scribble(&mut input),
                1 => self.registers(&mut input),
                2 => {
                    let at = input.below(clients.len());
                    outcomes |= u64::from(clients[at].write_all(input.take(30)).is_err()) << 2;
                    outcomes |= u64::from(closed(&mut clients[at])) << 2;
                }
                3 => outcomes |= u64::from(self.receive().is_some()) << 1,
                _ => self.forged(&mut input),
            }
            self.device.turn();
            let status = self.register(offset_of!(DeviceRegisters, device_status));
            if status & NEEDS_RESET != 0 {
                outcomes |= 1;
                self.start();
            }
        }
        drop(clients);
        self.recover();
        outcomes
    }

    /// Writes to the rings or the registers.
    fn scribble(&mut self, input: &mut Bytes<'_>) {
        let queue = ring(input.below(2));
        let at = queue + [0, 0x400, 0x800][input.below(3)] + 2 * input.below(40) as u64;
        self.ram.write(at, &(input.number(16) as u16).to_le_bytes()).unwrap();
    }

    fn registers(&mut self, input: &mut Bytes<'_>) {
        let field = 8 * input.below(40);
        let value = match input.below(3) {
            0 => input.number(64),
            1 => BASE + input.number(20),
            _ => input.number(9),
        };
        if field != offset_of!(DeviceRegisters, sequence) {
            self.set(field, value);
        }
        self.status(u64::from(input.byte() & 0x4f));
    }

    /// Sends a packet that is almost valid.
    fn forged(&mut self, input: &mut Bytes<'_>) {
        // The device numbers clients from here on; it has had many.
        let client = self.receive().map_or(1 << 16, |(header, _)| header.from_port.get());
        let op = if input.once_in(2) { Op::Response as u16 } else { u16::from(input.byte() % 9) };
        let mut header = Header::reset((BOARD, HOST), (1, client));
        header.op = op.into();
        header.bytes = (input.number(16) as u32).into();
        header.window = (input.number(32) as u32).into();
        header.consumed = (input.number(32) as u32).into();
        header.flags = (input.number(3) as u32).into();
        let bits = input.byte();
        if bits.is_multiple_of(16) {
            header.to_port = input.u32().into();
        }
        let count = input.below(if bits.is_multiple_of(8) { 5000 } else { 50 });
        self.send(&header, &vec![b'!'; count]);
    }

    /// A driver that keeps to the protocol serves a new client.
    fn recover(&mut self) {
        self.start();
        // Clients before that were not accepted ask again.
        while let Some((header, _)) = self.receive() {
            self.packet(header.from_port.get(), Op::Reset, &[]);
        }
        let mut client = self.client();
        client.write_all(b"CONNECT 1\nhello").unwrap();
        self.device.turn();
        let (request, _) = self.next_of(Op::Request);
        let port = request.from_port.get();
        self.packet(port, Op::Response, &[]);
        self.packet(port, Op::Data, b"good day");
        let (header, data) = self.next_of(Op::Data);
        assert_eq!((header.from_port.get(), data), (port, b"hello".to_vec()));
        let mut answer = [0; 100];
        let count = client.read(&mut answer).expect("it is open");
        let text = str::from_utf8(&answer[..count]).unwrap();
        assert!(text.starts_with("OK ") && text.ends_with("\ngood day"), "{text}");
        self.packet(port, Op::Reset, &[]);
    }
}

/// Reads what a client got, and returns whether the device has closed its stream.
fn closed(client: &mut UnixStream) -> bool {
    let mut bytes = [0; 4096];
    match client.read(&mut bytes) {
        Ok(0) => true,
        Ok(count) => {
            assert!(bytes[..count].iter().all(|it| b"OK 0123456789\n!".contains(it)));
            false
        }
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}
