//! Random operations by both families against a model: one queue of bytes for each direction
//! predicts what is received.

use crate::common::Solo;
use abi::net::{DATAGRAM, Errno};
use base::prng::Prng;
use net::budget::LARGEST;
use net::check::check;
use std::collections::VecDeque;

/// One direction of a connection.
struct Way {
    from: u64,
    to: u64,
    under_way: VecDeque<u8>,
    shut: bool,
}

/// Maximum number of datagrams under way at a socket; so many always fit its buffer.
const UNDER_WAY: usize = 4;

struct Pair {
    from: u64,
    to: u64,
    port: u16,
    own: u16,
    under_way: VecDeque<Vec<u8>>,
    is_v6: bool,
}

struct Trial {
    solo: Solo,
    random: Prng,
    ways: Vec<Way>,
    pairs: Vec<Pair>,
    bytes: usize,
}

impl Trial {
    fn open(&mut self) {
        self.solo.is_v6 = self.random.chance(1, 2);
        if self.ways.len() < 16 && self.random.chance(1, 2) {
            let (listener, _, near, far) = self.solo.connection();
            self.solo.with(|c| c.close(listener)).unwrap();
            for (from, to) in [(near, far), (far, near)] {
                self.ways.push(Way { from, to, under_way: VecDeque::new(), shut: false });
            }
        } else if self.pairs.len() < 4 {
            let (from, to) = self.solo.with(|c| (c.udp(0).unwrap(), c.udp(0).unwrap()));
            let (own, port) = self.solo.with(|c| (c.port(from).unwrap(), c.port(to).unwrap()));
            let (under_way, is_v6) = (VecDeque::new(), self.solo.is_v6);
            self.pairs.push(Pair { from, to, port, own, under_way, is_v6 });
        }
    }

    fn piece(&mut self, most: u64) -> Vec<u8> {
        let length = self.random.below(most + 1);
        (0..length).map(|_| self.random.next() as u8).collect()
    }

    fn send(&mut self, at: usize) {
        let mut bytes = self.piece(6000);
        let way = &mut self.ways[at];
        let sent = self.solo.with(|c| c.send(way.from, &mut bytes));
        match sent {
            Ok(sent) => {
                assert!(!way.shut && (sent > 0 || bytes.is_empty()));
                way.under_way.extend(&bytes[..sent]);
                self.bytes += sent;
            }
            Err(Errno::Pipe) => assert!(way.shut),
            Err(Errno::Again) => assert!(!way.shut && way.under_way.len() >= LARGEST),
            Err(why) => panic!("{why:?}"),
        }
        assert!(way.under_way.len() <= 2 * LARGEST);
    }

    /// Everything that was sent is received at once and in order, followed by the end if it was
    /// shut.
    fn receive(&mut self, at: usize) {
        let mut bytes = vec![0; 1 + self.random.below(6000) as usize];
        let way = &mut self.ways[at];
        match self.solo.with(|c| c.receive(way.to, &mut bytes)) {
            Ok(0) => assert!(way.shut && way.under_way.is_empty()),
            Ok(some) => {
                let expected: Vec<u8> = way.under_way.drain(..some).collect();
                assert_eq!(bytes[..some], expected);
            }
            Err(Errno::Again) => assert!(
                !way.shut && way.under_way.is_empty(),
                "shut {} under way {} {:?} {:?} timer {} now {}",
                way.shut,
                way.under_way.len(),
                self.solo.state(way.from),
                self.solo.state(way.to),
                self.solo.timer,
                self.solo.now
            ),
            Err(why) => panic!("{why:?}"),
        }
    }

    fn datagram(&mut self, at: usize) {
        let mut bytes = self.piece(DATAGRAM as u64);
        let most = self.random.below(DATAGRAM as u64 + 1) as usize;
        let pair = &mut self.pairs[at];
        self.solo.is_v6 = pair.is_v6;
        if pair.under_way.len() < UNDER_WAY && self.random.chance(1, 2) {
            self.solo.with(|c| c.send_to(pair.from, pair.port, &mut bytes)).unwrap();
            pair.under_way.push_back(bytes);
            return;
        }
        let mut into = vec![0; most];
        let received = self.solo.with(|c| c.receive_from(pair.to, &mut into));
        let Some(expected) = pair.under_way.pop_front() else {
            return assert_eq!(received, Err(Errno::Again));
        };
        assert_eq!(received, Ok((expected.len(), pair.own)));
        let some = most.min(expected.len());
        assert_eq!(into[..some], expected[..some]);
    }

    /// Closes a connection if both of its directions have ended.
    fn close(&mut self) {
        let over = |way: &Way| way.shut && way.under_way.is_empty();
        let ended = self.ways.chunks(2).position(|both| both.iter().all(over));
        let Some(at) = ended else { return };
        for way in self.ways.drain(2 * at..2 * at + 2) {
            self.solo.with(|c| c.close(way.from)).unwrap();
        }
    }

    fn turn(&mut self) {
        match self.random.below(40) {
            0 => self.open(),
            1 => self.close(),
            2 if !self.ways.is_empty() => {
                let at = self.random.below(self.ways.len() as u64) as usize;
                self.ways[at].shut = true;
                self.solo.with(|c| c.shut(self.ways[at].from)).unwrap();
            }
            3..8 if !self.pairs.is_empty() => {
                let at = self.random.below(self.pairs.len() as u64) as usize;
                self.datagram(at);
            }
            8..24 if !self.ways.is_empty() => {
                let at = self.random.below(self.ways.len() as u64) as usize;
                self.send(at);
            }
            _ if !self.ways.is_empty() => {
                let at = self.random.below(self.ways.len() as u64) as usize;
                self.receive(at);
            }
            _ => {}
        }
    }
}

#[test]
fn sent_data_arrive_at_once_in_order_and_complete() {
    let mut bytes = 0;
    for seed in 0..20 {
        let (ways, pairs) = (Vec::new(), Vec::new());
        let random = Prng::new(seed);
        let mut trial = Trial { solo: Solo::new(), random, ways, pairs, bytes: 0 };
        (0..2_000).for_each(|_| trial.turn());
        bytes += trial.bytes;
    }
    println!("{bytes} bytes of streams");
    assert!(bytes > 1_000_000);
}

#[test]
fn the_self_test_passes_and_closes_everything() {
    let mut solo = Solo::new();
    let mut all = net::check::Tally::default();
    for seed in 0..20 {
        let mut ask = |request, bulk: &mut [u8]| {
            solo.ask(crate::common::token(0, 0), request, bulk).expect("it never waits")
        };
        let tally = check(seed, 5, &mut ask).expect("all as sent");
        all.bytes += tally.bytes;
        all.connections += tally.connections;
        all.datagrams += tally.datagrams;
        assert_eq!(solo.net.census(), [0, 0, 0, 0], "seed {seed}");
        assert_eq!(solo.timer, u64::MAX, "seed {seed}: no timer is pending");
    }
    println!("{all:?}");
    assert!(all.bytes > 1_000_000 && all.connections > 200 && all.datagrams > 200);
}

#[test]
fn the_self_test_detects_corrupted_data() {
    for (nth, change) in [(40, 1u8), (200, 0x80)] {
        let (mut solo, mut received) = (Solo::new(), 0);
        let mut ask = |request: abi::net::Request, bulk: &mut [u8]| {
            let reply = solo.ask(crate::common::token(0, 0), request, bulk).unwrap();
            if reply.filled > 0 {
                received += 1;
                let hit = if received == nth { change } else { 0 };
                bulk[reply.filled as usize / 2] ^= hit;
            }
            reply
        };
        assert_eq!(check(3, 100, &mut ask), Err(net::check::Wrong::Content));
        assert_eq!(solo.net.census()[0], 0, "it closes what it opened");
    }
}
