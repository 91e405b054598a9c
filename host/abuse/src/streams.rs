//! The board's end of streams with the host: the driver of the vsock device and the state machine
//! of streams. The device writes anything. Rules:
//! - nothing panics or hangs, and no access is outside the window;
//! - a received packet has at most the data that fits a buffer;
//! - the table has a bounded number of streams, and sends no more than its peer's credit;
//! - a stream whose peer keeps to the protocol carries all bytes in order, in both directions,
//!   whatever other packets come.

use crate::bytes::Bytes;
use crate::words::Flat;
use crate::{Target, mutate};
use abi::vsock::{BOARD, Consumed, Credit, DATA, HOST, Header, Op, STREAM, WINDOW};
use base::port::Words;
use base::prng::Prng;
use drivers::streams::{Id, Read, STREAMS, Streams};
use drivers::vsock::{self, Vsock};
use share::Device;

pub const TARGET: Target = Target {
    name: "streams",
    about: "the board's end of streams with the host, under a device that writes anything",
    daily: 1500,
    nightly: 200_000,
    run: |bytes| {
        let mut input = Bytes::new(bytes, LONGEST);
        if input.once_in(4) { driver(input) } else { Host::new(input).run() }
    },
    seed: |seed| mutate::noise(&mut Prng::new(seed), 50, 2000),
    outcomes: || {
        vec![
            (0, "a forged packet"),
            (1, "a refused packet"),
            (2, "a forged stream"),
            (3, "bytes to the board"),
            (4, "bytes to the host"),
            (5, "no room"),
        ]
    },
};

/// Bytes of an input that is used.
const LONGEST: usize = 8192;
const WINDOW_AT: u64 = 0x8020_0000;
const WINDOW_BYTES: usize = 0x40000;
/// Offset of the device's memory in the window.
const MEMORY: usize = 0x2000;
/// The board's port, and the honest client's.
const PORT: u32 = 1;
const OURS: u32 = 70_000;

/// Drives the device while it writes to its memory.
fn driver(mut input: Bytes<'_>) -> u64 {
    let words = Flat::new(WINDOW_BYTES);
    let device = Device {
        words: &words,
        window: WINDOW_AT,
        registers: 0,
        memory: MEMORY,
        memory_size: vsock::MEMORY,
        parts: u64::MAX,
        ring: &|_| (),
        kick: 0,
    };
    let mut vsock = Vsock::new(&device);
    vsock.opened(&device);
    let (mut data, mut outcomes) = ([0; DATA], 0);
    while !input.is_empty() {
        match input.below(4) {
            0 => {
                if let Some((header, length)) = vsock.receive(&device, &mut data) {
                    assert!(length <= DATA && length <= header.bytes.get() as usize);
                    outcomes |= 1;
                }
            }
            1 => {
                let header = Header::reset((BOARD, HOST), (1, 2));
                let length = input.below(DATA + 2);
                let sent = vsock.send(&device, &header, &vec![7; length]);
                outcomes |= u64::from(!sent) << 5;
            }
            2 => {
                // The used ring of a queue: an index, or an entry.
                let queue = MEMORY + input.below(2) * drivers::queue::BYTES + 320;
                let head = u64::from(input.byte() % 20);
                let (index, bytes) = (u64::from(input.byte()), input.number(32));
                let place = queue + 8 * input.below(17);
                let word = if place == queue { index << 16 | head << 32 } else { head << 32 };
                words.store(place, word | bytes << (32 * u64::from(place != queue && index > 99)));
            }
            _ => {
                let at = MEMORY + 8 * input.below(vsock::MEMORY / 8);
                words.store(at, input.number(64));
            }
        }
    }
    outcomes
}

/// The host: an honest client on one stream, and an attacker on all other ports.
struct Host<'a> {
    input: Bytes<'a>,
    streams: Streams,
    ids: Vec<Id>,
    honest: Id,
    /// What the honest client may send, and what it has consumed.
    credit: Credit,
    consumed: u32,
    /// Numbers of bytes: the n-th byte of a direction is `n as u8`.
    sent: u64,
    read: u64,
    wrote: u64,
    came: u64,
    outcomes: u64,
}

fn numbered(from: u64, count: usize) -> Vec<u8> {
    (0..count as u64).map(|at| (from + at) as u8).collect()
}

impl<'a> Host<'a> {
    fn new(input: Bytes<'a>) -> Host<'a> {
        let mut streams = Streams::new(PORT, 1);
        let said = (Op::Request, 0, 0);
        let first = Header::new((HOST, BOARD), (OURS, PORT), said, &mut Consumed::default());
        streams.received(&first, &[]);
        let honest = streams.accept().expect("it was offered");
        let credit = Credit::default();
        let (sent, read, wrote, came, outcomes) = (0, 0, 0, 0, 0);
        let ids = vec![honest];
        Host { input, streams, ids, honest, credit, consumed: 0, sent, read, wrote, came, outcomes }
    }

    fn run(mut self) -> u64 {
        while !self.input.is_empty() {
            match self.input.below(8) {
                0 => self.honest_sends(),
                1 => self.honest_reads(),
                2 => self.board(),
                3 => drop(self.drain(1)),
                _ => self.forged(),
            }
            assert!(self.streams.count() <= STREAMS);
        }
        self.finish()
    }

    fn tell(&mut self, op: Op, data: &[u8]) {
        let said = (op, data.len(), 0);
        let header = Header::new((HOST, BOARD), (OURS, PORT), said, &mut Consumed::default());
        let header = Header { consumed: self.consumed.into(), ..header };
        self.streams.received(&header, data);
    }

    fn honest_sends(&mut self) {
        let count = self.input.below(DATA + 1).min(self.credit.room() as usize);
        self.credit.sent(count as u32);
        self.tell(Op::Data, &numbered(self.sent, count));
        self.sent += count as u64;
    }

    /// The board reads from the honest stream, and writes to it.
    fn honest_reads(&mut self) {
        let mut bytes = vec![0; self.input.below(5000)];
        if let Read::Bytes(count) = self.streams.read(self.honest, &mut bytes) {
            assert_eq!(bytes[..count], numbered(self.read, count), "to the board");
            self.read += count as u64;
            self.outcomes |= 1 << 3;
        }
        let bytes = numbered(self.wrote, self.input.below(5000));
        let count = self.streams.write(self.honest, &bytes).expect("the stream is open");
        self.wrote += count as u64;
    }

    /// The board uses other streams.
    fn board(&mut self) {
        if let Some(id) = self.streams.accept() {
            self.ids.push(id);
            self.outcomes |= 4;
        }
        let id = self.ids[self.input.below(self.ids.len())];
        if id == self.honest {
            return;
        }
        match self.input.below(3) {
            0 => drop(self.streams.read(id, &mut [0; 700])),
            1 => drop(self.streams.write(id, &[1; 700])),
            _ => self.streams.close(id),
        }
    }

    /// Takes packets from the board.
    fn drain(&mut self, most: usize) -> bool {
        let mut data = [0; DATA];
        for _ in 0..most {
            let Some((header, length)) = self.streams.next(&mut data) else { return false };
            assert!(length <= DATA && header.bytes.get() as usize == length);
            assert_eq!((header.from.get(), header.to.get()), (BOARD, HOST));
            if header.to_port.get() != OURS || header.from_port.get() != PORT {
                self.outcomes |= u64::from(header.op.get() == Op::Reset as u16) << 1;
                continue;
            }
            assert_ne!(header.op.get(), Op::Reset as u16, "the honest stream was reset");
            self.credit.told(&header);
            assert_eq!(data[..length], numbered(self.came, length), "to the host");
            self.came += length as u64;
            self.consumed = self.consumed.wrapping_add(length as u32);
            assert!(self.came <= self.wrote);
            self.outcomes |= u64::from(length > 0) << 4;
        }
        true
    }

    /// The attacker sends a packet on another port.
    fn forged(&mut self) {
        let input = &mut self.input;
        let port = 100 + u32::from(input.byte() % 24);
        let op = if input.once_in(3) { Op::Request as u16 } else { u16::from(input.byte() % 9) };
        let most = if input.once_in(4) { DATA + 1 } else { 60 };
        let count = input.below(most);
        let mut header = Header::reset((HOST, BOARD), (port, PORT));
        header.op = op.into();
        header.bytes = (input.number(16) as u32).into();
        header.window = (input.number(32) as u32).into();
        header.consumed = (input.number(32) as u32).into();
        header.flags = (input.number(32) as u32).into();
        match input.byte() % 16 {
            0 => header.from = input.u64().into(),
            1 => header.kind = (input.byte() as u16).into(),
            2 => header.to_port = input.u32().into(),
            3 => header.to = input.u64().into(),
            _ => header.kind = STREAM.into(),
        }
        self.streams.received(&header, &vec![9; count]);
        self.outcomes |= 1;
    }

    /// Everything that was sent arrives.
    fn finish(mut self) -> u64 {
        for _ in 0..100 {
            let mut bytes = vec![0; WINDOW as usize];
            if let Read::Bytes(count) = self.streams.read(self.honest, &mut bytes) {
                assert_eq!(bytes[..count], numbered(self.read, count), "to the board");
                self.read += count as u64;
            }
            self.tell(Op::Credit, &[]);
            while self.drain(1) && self.came < self.wrote {}
            if (self.read, self.came) == (self.sent, self.wrote) {
                return self.outcomes;
            }
        }
        panic!("{} of {} and {} of {} bytes", self.read, self.sent, self.came, self.wrote);
    }
}
