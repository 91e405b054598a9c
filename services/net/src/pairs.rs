//! Connections on loopback: pairs of ends, each with a queue of the bytes it has received.
//!
//! Contract: what an end sends has arrived when the request returns, so nothing is under way
//! between two steps, and no packets are needed. An end that closes without having read everything
//! resets the other, as TCP does. A pair lasts until both ends are closed.

use crate::addresses::Peer;
use crate::inbox::copy_first;
use abi::net::Errno;
use alloc::collections::VecDeque;
use share::Table;

/// One end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pair: u32,
    /// 0: it has connected; 1: it has accepted.
    half: u8,
}

impl End {
    /// Returns the end that it is connected with.
    pub fn other(self) -> End {
        End { half: 1 - self.half, ..self }
    }
}

/// What is known of an end.
#[derive(Debug)]
pub struct Half {
    /// Its own address and port.
    pub name: Peer,
    /// The place of its socket; `None`: it waits to be accepted.
    pub socket: Option<u32>,
    /// What it has received and not read.
    pub inbox: VecDeque<u8>,
    /// Maximum number of bytes in the inbox.
    pub room: usize,
    pub is_open: bool,
    /// Whether it sends nothing more.
    pub has_ended: bool,
    /// Whether it was reset by the other end: it neither sends nor gets anything more.
    pub is_reset: bool,
}

impl Half {
    fn new(name: Peer, room: usize) -> Result<Half, Errno> {
        let mut inbox = VecDeque::new();
        inbox.try_reserve_exact(room).map_err(|_| Errno::Nomem)?;
        let (is_open, has_ended, is_reset) = (true, false, false);
        Ok(Half { name, socket: None, inbox, room, is_open, has_ended, is_reset })
    }
}

/// What an end sees of its pair.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub own: &'a Half,
    pub other: &'a Half,
}

impl Seen<'_> {
    /// Returns whether a receive would not wait.
    pub fn is_readable(self) -> bool {
        !self.own.inbox.is_empty() || self.other.has_ended || self.own.is_reset
    }

    /// Returns whether it sends nothing more, by its own decision or because of a reset.
    pub fn has_sent_all(self) -> bool {
        self.own.has_ended || self.own.is_reset
    }

    /// Returns whether no direction is left.
    pub fn is_over(self) -> bool {
        self.own.is_reset || self.own.has_ended && self.other.has_ended
    }

    /// Returns how many bytes can be sent.
    pub fn space(self) -> usize {
        match self.has_sent_all() {
            true => 0,
            false => self.other.room - self.other.inbox.len(),
        }
    }
}

#[derive(Debug)]
pub struct Pairs(Table<[Half; 2]>);

impl Pairs {
    /// There are at most `most` pairs.
    pub fn new(most: u32) -> Pairs {
        Pairs(Table::new(most))
    }

    /// Adds a connection between two ends with these names, whose inboxes have `room` bytes each.
    /// Returns the first one.
    pub fn add(&mut self, names: [Peer; 2], room: [usize; 2]) -> Result<End, Errno> {
        self.0.room(1).ok_or(Errno::Nobufs)?;
        let pair = [Half::new(names[0], room[0])?, Half::new(names[1], room[1])?];
        let pair = self.0.insert(pair).ok_or(Errno::Nobufs)?;
        Ok(End { pair, half: 0 })
    }

    /// Returns both ends, that of `end` first.
    pub fn see(&self, end: End) -> Option<Seen<'_>> {
        let [first, second] = self.0.get(end.pair)?;
        Some(match end.half {
            0 => Seen { own: first, other: second },
            _ => Seen { own: second, other: first },
        })
    }

    fn both(&mut self, end: End) -> Option<(&mut Half, &mut Half)> {
        let [first, second] = self.0.get_mut(end.pair)?;
        Some(if end.half == 0 { (first, second) } else { (second, first) })
    }

    /// The end has a socket, at this place.
    pub fn place(&mut self, end: End, socket: u32) {
        if let Some((own, _)) = self.both(end) {
            own.socket = Some(socket);
        }
    }

    /// Sends as many bytes as the other end has room for. Returns their number. If that is closed,
    /// they are lost, and nothing more can be sent.
    pub fn send(&mut self, end: End, bytes: &[u8]) -> usize {
        let Some((own, other)) = self.both(end) else { return 0 };
        if !other.is_open {
            own.has_ended |= !bytes.is_empty();
            return bytes.len();
        }
        let count = bytes.len().min(other.room - other.inbox.len());
        other.inbox.extend(&bytes[..count]);
        count
    }

    /// Copies what was received. Unless it `peeks`, that is removed. Returns the number of bytes.
    pub fn receive(&mut self, end: End, into: &mut [u8], peeks: bool) -> usize {
        let Some((own, _)) = self.both(end) else { return 0 };
        let count = copy_first(&own.inbox, into);
        if !peeks {
            own.inbox.drain(..count);
        }
        count
    }

    /// Ends the sending direction.
    pub fn shut(&mut self, end: End) {
        if let Some((own, _)) = self.both(end) {
            own.has_ended = true;
        }
    }

    /// Closes an end; `lost`: with the kernel that had it. Returns the size of its inbox, and the
    /// place of the other end's socket if this resets it.
    pub fn close(&mut self, end: End, lost: bool) -> Option<(usize, Option<u32>)> {
        let (own, other) = self.both(end)?;
        let resets = lost || !own.inbox.is_empty();
        // After the end of a stream its reader learns of no reset.
        let is_reset = resets && !own.has_ended && other.is_open;
        other.is_reset |= is_reset;
        other.has_ended |= resets;
        (own.is_open, own.has_ended, own.inbox) = (false, true, VecDeque::new());
        own.socket = None;
        let (room, reset, last) = (own.room, other.socket.filter(|_| is_reset), !other.is_open);
        if last {
            self.0.remove(end.pair);
        }
        Some((room, reset))
    }

    /// Returns whether an open end at this port is connected with `peer`.
    pub fn has(&self, port: u16, peer: Peer) -> bool {
        self.any(|it| it.own.name.1 == port && it.own.is_open && it.other.name == peer)
    }

    /// Returns whether an end has this port.
    pub fn has_port(&self, port: u16) -> bool {
        self.any(|it| it.own.name.1 == port)
    }

    fn any(&self, is: impl Fn(Seen<'_>) -> bool) -> bool {
        let ends = |pair| [0, 1].map(|half| self.see(End { pair, half }));
        (0..self.0.places()).any(|pair| ends(pair).into_iter().flatten().any(&is))
    }
}
