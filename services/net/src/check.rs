//! The self-test: datagrams and streams over loopback, with every byte compared.
//!
//! Contract: one caller uses both ends and never waits. The requests depend only on the seed and
//! the replies. Everything opened is closed. Others may use the service at the same time.

use crate::client::{Ask, Client, Result};
use abi::net::{DATAGRAM, Errno};
use alloc::vec;
use alloc::vec::Vec;
use base::prng::Prng;

/// Maximum number of connections at a time.
const AT_ONCE: u64 = 4;
/// Maximum bytes in one direction of a connection.
const BYTES: u64 = 8 * 1024;
/// Maximum bytes of one send or receive, so that it fits a message.
const PIECE: u64 = 3000;
/// Maximum number of datagrams under way.
const UNDER_WAY: u64 = 4;
/// Number of requests without progress after which the test fails.
const PATIENCE: u32 = 1000;

/// What was transferred correctly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub bytes: u64,
    pub connections: u64,
    pub datagrams: u64,
}

/// Why the test failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A request failed that should not.
    Refused(Errno),
    /// Received bytes differ from those sent.
    Content,
    /// No progress.
    Stuck,
}

impl From<Errno> for Wrong {
    fn from(why: Errno) -> Wrong {
        Wrong::Refused(why)
    }
}

/// One direction of a connection. Both ends can compute byte `at` of pattern `seed`.
struct Way {
    from: u64,
    to: u64,
    seed: u64,
    length: u64,
    sent: u64,
    received: u64,
    ended: bool,
}

fn pattern(seed: u64, at: u64) -> u8 {
    let mixed = (seed + at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

fn fill(seed: u64, from: u64, length: u64) -> Vec<u8> {
    (from..from + length).map(|at| pattern(seed, at)).collect()
}

impl Way {
    fn new(from: u64, to: u64, random: &mut Prng) -> Way {
        let (seed, length) = (random.next() >> 1, random.below(BYTES + 1));
        Way { from, to, seed, length, sent: 0, received: 0, ended: false }
    }

    /// Sends or receives a piece. Returns whether anything moved.
    fn transfer(
        &mut self,
        client: &mut Client<'_>,
        random: &mut Prng,
    ) -> core::result::Result<bool, Wrong> {
        let piece = 1 + random.below(PIECE);
        if random.chance(1, 2) { self.send(client, piece) } else { self.receive(client, piece) }
    }

    fn send(&mut self, client: &mut Client<'_>, piece: u64) -> core::result::Result<bool, Wrong> {
        if self.sent > self.length {
            return Ok(false);
        }
        if self.sent == self.length {
            client.shut(self.from)?;
            self.sent += 1;
            return Ok(true);
        }
        let mut bytes = fill(self.seed, self.sent, piece.min(self.length - self.sent));
        let sent = quick(client.send(self.from, &mut bytes))?;
        self.sent += sent.unwrap_or(0) as u64;
        Ok(sent.is_some())
    }

    fn receive(
        &mut self,
        client: &mut Client<'_>,
        piece: u64,
    ) -> core::result::Result<bool, Wrong> {
        if self.ended {
            return Ok(false);
        }
        let mut bytes = vec![0; piece as usize];
        let Some(some) = quick(client.receive(self.to, &mut bytes))? else { return Ok(false) };
        if bytes[..some] != fill(self.seed, self.received, some as u64) {
            return Err(Wrong::Content);
        }
        self.received += some as u64;
        self.ended = some == 0;
        if self.ended && self.received != self.length { Err(Wrong::Content) } else { Ok(true) }
    }
}

/// Returns `None` if the request would have waited.
fn quick<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::Again) => Ok(None),
        Err(why) => Err(why),
    }
}

/// The state of a test, with all open handles, which are closed even after a failure.
struct Check<'a> {
    client: Client<'a>,
    random: Prng,
    open: Vec<u64>,
    tally: Tally,
}

impl Check<'_> {
    fn opened(&mut self, handle: Result<u64>) -> core::result::Result<u64, Wrong> {
        let handle = handle?;
        self.open.push(handle);
        Ok(handle)
    }

    fn close_all(&mut self) -> core::result::Result<(), Wrong> {
        let mut result = Ok(());
        for handle in self.open.drain(..) {
            result = result.and(self.client.close(handle));
        }
        Ok(result?)
    }

    fn streams(&mut self) -> core::result::Result<(), Wrong> {
        let count = 1 + self.random.below(AT_ONCE);
        let listener = self.client.listen(0, AT_ONCE as u16);
        let listener = self.opened(listener)?;
        let port = self.client.port(listener)?;
        let mut ways = Vec::new();
        for _ in 0..count {
            let connected = self.client.connect(port);
            let near = self.opened(connected)?;
            let accepted = self.client.accept(listener);
            let far = self.opened(accepted)?;
            ways.push(Way::new(near, far, &mut self.random));
            ways.push(Way::new(far, near, &mut self.random));
        }
        self.exchange(&mut ways)?;
        self.tally.connections += count;
        self.tally.bytes += ways.iter().map(|way| way.received).sum::<u64>();
        self.close_all()
    }

    /// Transfers data until every direction has ended.
    fn exchange(&mut self, ways: &mut [Way]) -> core::result::Result<(), Wrong> {
        let mut idle_rounds = 0;
        while ways.iter().any(|way| !way.ended) {
            let at = self.random.below(ways.len() as u64) as usize;
            let moved = ways[at].transfer(&mut self.client, &mut self.random)?;
            idle_rounds = if moved { 0 } else { idle_rounds + 1 };
            if idle_rounds > PATIENCE {
                return Err(Wrong::Stuck);
            }
        }
        Ok(())
    }

    fn datagrams(&mut self) -> core::result::Result<(), Wrong> {
        let (near, far) = (self.client.udp(0), self.client.udp(0));
        let (near, far) = (self.opened(near)?, self.opened(far)?);
        let (from, to) = (self.client.port(near)?, self.client.port(far)?);
        let count = 1 + self.random.below(UNDER_WAY);
        let mut sent = Vec::new();
        for _ in 0..count {
            let length = self.random.below(DATAGRAM as u64 + 1);
            let mut bytes = fill(self.random.next() >> 1, 0, length);
            self.client.send_to(near, to, &mut bytes)?;
            sent.push(bytes);
        }
        for bytes in sent {
            let mut piece = [0; DATAGRAM];
            let (length, port) = self.client.receive_from(far, &mut piece)?;
            if port != from || piece[..length.min(DATAGRAM)] != bytes {
                return Err(Wrong::Content);
            }
        }
        self.tally.datagrams += count;
        self.close_all()
    }
}

/// Runs `rounds` rounds of datagrams and streams, by IPv4 and IPv6 in turn.
pub fn check(seed: u64, rounds: u64, ask: Ask<'_>) -> core::result::Result<Tally, Wrong> {
    let client = Client::hasty(ask);
    let (random, open) = (Prng::new(seed), Vec::new());
    let mut check = Check { client, random, open, tally: Tally::default() };
    for round in 0..rounds {
        check.client.is_v6 = round % 2 != 0;
        let result = check.datagrams().and_then(|()| check.streams());
        if result.is_err() {
            // The first error is returned.
            let _ = check.close_all();
            return result.map(|()| check.tally);
        }
    }
    Ok(check.tally)
}
