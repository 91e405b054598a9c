//! A simulated host that keeps to the protocol or violates it.

use super::*;
use base::prng::Prng;
use std::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

const PORT: u32 = 1;
const THEIRS: u32 = 70_000;

/// The host's end of a stream.
#[derive(Default)]
struct Host {
    credit: Credit,
    received: Vec<u8>,
    consumed: u32,
    ops: Vec<Op>,
}

impl Host {
    fn packet(&self, op: Op, bytes: usize, flags: u32) -> Header {
        let said = (op, bytes, flags);
        let header = Header::new((HOST, BOARD), (THEIRS, PORT), said, &mut Consumed::default());
        Header { consumed: self.consumed.into(), ..header }
    }

    fn tell(&mut self, streams: &mut Streams, op: Op, data: &[u8]) {
        self.credit.sent(data.len() as u32);
        streams.received(&self.packet(op, data.len(), 0), data);
    }

    /// Receives all packets that the board sends.
    fn take(&mut self, streams: &mut Streams) {
        let mut data = [0; DATA];
        while let Some((header, bytes)) = streams.next(&mut data) {
            self.credit.told(&header);
            self.ops.push(Op::from_code(header.op.get()).unwrap());
            self.received.extend(&data[..bytes]);
        }
    }
}

fn open() -> (Streams, Host, Id) {
    let (mut streams, mut host) = (Streams::new(PORT, 1), Host::default());
    host.tell(&mut streams, Op::Request, &[]);
    host.take(&mut streams);
    assert!(host.ops.is_empty(), "it is not accepted yet");
    let id = streams.accept().unwrap();
    host.take(&mut streams);
    assert_eq!((host.ops.as_slice(), streams.accept()), (&[Op::Response][..], None));
    assert_eq!(host.credit.room(), WINDOW);
    (streams, host, id)
}

#[test]
fn bytes_go_both_ways_in_order_within_the_credit() {
    let (mut streams, mut host, id) = open();
    let mut random = Prng::new(1);
    let (mut sent, mut read, mut wrote) = (Vec::<u8>::new(), Vec::<u8>::new(), Vec::new());
    for _ in 0..20_000 {
        match random.below(4) {
            0 => {
                let bytes = random.below(DATA as u64).min(u64::from(host.credit.room()));
                let data: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
                sent.extend(&data);
                host.tell(&mut streams, Op::Data, &data);
            }
            1 => {
                let mut into = vec![0; random.below(6000) as usize];
                if let Read::Bytes(bytes) = streams.read(id, &mut into) {
                    read.extend(&into[..bytes]);
                }
            }
            2 => {
                let data: Vec<u8> = (0..random.below(6000)).map(|_| random.next() as u8).collect();
                let taken = streams.write(id, &data).unwrap();
                wrote.extend(&data[..taken]);
            }
            _ => {
                host.take(&mut streams);
                if random.chance(1, 3) {
                    host.consumed = host.received.len() as u32;
                    host.tell(&mut streams, Op::Credit, &[]);
                }
                let ahead = host.received.len() as u32 - host.consumed;
                assert!(ahead <= WINDOW, "the board sent {ahead} bytes ahead");
            }
        }
    }
    assert!(read.len() > 1 << 20 && host.received.len() > 1 << 20);
    assert_eq!(read, sent[..read.len()]);
    assert_eq!(host.received, wrote[..host.received.len()]);
    assert!(!host.ops.contains(&Op::Reset));
}

#[test]
fn data_written_before_a_close_arrive_and_the_slot_becomes_free() {
    let (mut streams, mut host, id) = open();
    assert_eq!(streams.write(id, b"last words"), Some(10));
    streams.close(id);
    host.take(&mut streams);
    assert_eq!(
        (host.received.as_slice(), host.ops.last()),
        (&b"last words"[..], Some(&Op::Shutdown))
    );
    assert_eq!(streams.count(), 1, "until the host resets it");
    host.tell(&mut streams, Op::Reset, &[]);
    assert_eq!(streams.count(), 0);
    // The host's end of stream is read after its data.
    let (mut streams, mut host, id) = open();
    host.tell(&mut streams, Op::Data, b"abc");
    let end = host.packet(Op::Shutdown, 0, NO_SEND);
    streams.received(&end, &[]);
    let mut into = [0; 8];
    assert_eq!(streams.read(id, &mut into), Read::Bytes(3));
    assert_eq!(streams.read(id, &mut into), Read::End);
    assert_eq!(streams.write(id, b"still"), Some(5));
}

#[test]
fn a_protocol_violation_resets_that_stream_only() {
    let (mut streams, mut host, id) = open();
    for _ in 0..WINDOW as usize / DATA {
        host.tell(&mut streams, Op::Data, &[1; DATA]);
    }
    host.take(&mut streams);
    assert!(!host.ops.contains(&Op::Reset));
    host.tell(&mut streams, Op::Data, &[1]);
    host.take(&mut streams);
    assert_eq!(host.ops.last(), Some(&Op::Reset));
    assert_eq!(streams.write(id, b"x"), None);
    streams.close(id);
    assert_eq!(streams.count(), 0);
    // Another port, an unknown stream, or too many streams: a reset.
    let mut stray = host.packet(Op::Request, 0, 0);
    stray.to_port = 99.into();
    streams.received(&stray, &[]);
    host.take(&mut streams);
    assert_eq!(host.ops.last(), Some(&Op::Reset));
    for port in 0..STREAMS as u32 + 1 {
        let mut request = host.packet(Op::Request, 0, 0);
        request.from_port = port.into();
        streams.received(&request, &[]);
    }
    assert_eq!(streams.count(), STREAMS);
    host.ops.clear();
    host.take(&mut streams);
    assert_eq!(host.ops, [Op::Reset]);
}

#[test]
fn no_packets_cause_a_panic_or_too_many_streams() {
    let mut random = Prng::new(7);
    let mut streams = Streams::new(PORT, 1);
    let (mut data, mut ids) = ([0; DATA], Vec::new());
    for _ in 0..100_000 {
        let mut header = Header::read_from_bytes(&[0; 44]).unwrap();
        header.as_mut_bytes().iter_mut().for_each(|byte| *byte = random.next() as u8);
        if random.chance(15, 16) {
            (header.from, header.to, header.kind) = (HOST.into(), BOARD.into(), STREAM.into());
            header.op = (random.below(9) as u16).into();
            header.from_port = (random.below(20) as u32).into();
            header.to_port = PORT.into();
        }
        streams.received(&header, &data[..random.below(DATA as u64) as usize]);
        match random.below(5) {
            0 => ids.extend(streams.accept()),
            1 => {
                streams.next(&mut data);
            }
            2 if !ids.is_empty() => {
                let id = ids.swap_remove(random.below(ids.len() as u64) as usize);
                streams.close(id);
            }
            3 if !ids.is_empty() => {
                streams.read(ids[0], &mut [0; 100]);
                streams.write(ids[0], &[0; 100]);
            }
            _ => {}
        }
        assert!(streams.count() <= STREAMS);
    }
}

#[test]
fn the_id_of_an_ended_stream_refers_to_no_other() {
    let (mut streams, mut host, first) = open();
    streams.close(first);
    assert_eq!(streams.read(first, &mut [0; 4]), Read::End, "it is closed");
    host.take(&mut streams);
    assert_eq!(Id::from_number(first.number()), first);
    let other = Id { life: first.life + 1, ..first };
    assert_eq!(streams.read(other, &mut [0; 4]), Read::End);
    assert_eq!(streams.write(other, b"x"), None);
}
