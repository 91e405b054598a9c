//! The self-test: datagrams and streams over loopback, every byte compared.
//!
//! Contract: one asker at both ends, which never waits. What it does depends on the seed and on
//! the replies; nothing that it opened is left. Others may use the service meanwhile.

use crate::client::{Ask, Client, Result};
use abi::net::{DATAGRAM, Errno};
use alloc::vec;
use alloc::vec::Vec;
use base::prng::Prng;

/// Most connections at a time.
const AT_ONCE: u64 = 4;
/// Most bytes of one direction of a connection.
const BYTES: u64 = 8 * 1024;
/// Most bytes of one send or receive, so that a message carries it.
const PIECE: u64 = 3000;
/// Datagrams under way, at most.
const UNDER_WAY: u64 = 4;
/// Requests in vain after which something is stuck.
const PATIENCE: u32 = 1000;

/// What was exchanged, all of it as it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes of streams.
    pub bytes: u64,
    /// Connections.
    pub connections: u64,
    /// Datagrams.
    pub datagrams: u64,
}

/// Why the check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A request was refused that should not be.
    Refused(Errno),
    /// Bytes are not what was sent.
    Content,
    /// Nothing moves any more.
    Stuck,
}

impl From<Errno> for Wrong {
    fn from(why: Errno) -> Wrong {
        Wrong::Refused(why)
    }
}

/// One direction of a connection: byte `at` of pattern `seed` is known to both ends.
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

    /// Sends or receives a piece; has anything moved?
    fn go_on(
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

/// `None`: not yet.
fn quick<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::Again) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Everything that is open, so that it is closed in the end whatever happens.
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

    /// Until all ways are at their end.
    fn exchange(&mut self, ways: &mut [Way]) -> core::result::Result<(), Wrong> {
        let mut in_vain = 0;
        while ways.iter().any(|way| !way.ended) {
            let at = self.random.below(ways.len() as u64) as usize;
            let moved = ways[at].go_on(&mut self.client, &mut self.random)?;
            in_vain = if moved { 0 } else { in_vain + 1 };
            if in_vain > PATIENCE {
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

/// `rounds` rounds of both.
pub fn check(seed: u64, rounds: u64, ask: Ask<'_>) -> core::result::Result<Tally, Wrong> {
    let client = Client::hasty(ask);
    let (random, open) = (Prng::new(seed), Vec::new());
    let mut check = Check { client, random, open, tally: Tally::default() };
    for _ in 0..rounds {
        let result = check.datagrams().and_then(|()| check.streams());
        if result.is_err() {
            // The first thing that is wrong is what counts.
            let _ = check.close_all();
            return result.map(|()| check.tally);
        }
    }
    Ok(check.tally)
}
