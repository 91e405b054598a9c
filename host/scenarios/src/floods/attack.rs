//! Hosts that attack a server: with SYNs, with connections that they hold, or by reading slowly.

use abuse::net::packets::{Segment, packet, tcp, told_mac};
use std::collections::{BTreeMap, VecDeque};

/// What they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attack {
    /// They reset the connections that they have, and answer everything with a reset.
    #[default]
    Rest,
    /// SYNs without pause, from addresses that answer nothing.
    Syns,
    /// Connections that ask for much and take a few bytes at a time.
    TinyWindows,
    /// Connections that ask for much, take a little, and then nothing.
    SlowReaders,
    /// Connections from one address, without pause, that ask for nothing.
    Crowd,
    /// Connections that ask for much, and whose hosts are gone then.
    HalfOpen,
}

/// The server's port.
pub const PORT: u16 = 80;
/// Connections of an attack, besides SYNs.
const MOST: usize = 200;
/// Interval of their frames, in ns: an attack need not fill the network.
const EVERY: u64 = 1_000_000;
/// Window of those that read little.
const TINY: u16 = 7;
/// Bytes that they take before they stop.
const LITTLE: u16 = 3000;
const REQUEST: &[u8] = b"1000000\n";

/// An address and a port.
type End = ([u8; 4], u16);

/// A connection as an attacker knows it: the numbers of its next byte, and of the chip's.
#[derive(Clone, Copy, Debug)]
struct Connection {
    next: u32,
    theirs: u32,
}

#[derive(Debug, Default)]
pub struct Attackers {
    attack: Attack,
    connections: BTreeMap<End, Connection>,
    /// Frames that answer the chip's.
    answers: VecDeque<Vec<u8>>,
    begun: usize,
    due: u64,
    /// Frames so far.
    pub sent: u64,
}

fn segment(from: End, numbers: [u32; 2], flags: u8, window: u16, payload: &[u8]) -> Vec<u8> {
    let (ports, options) = ([from.1, PORT], &[][..]);
    let segment = Segment { ports, numbers, flags, window, options, payload };
    packet(from.0, 6, &segment.bytes())
}

impl Attackers {
    /// Ends what they do, and begins another attack.
    pub fn begin(&mut self, attack: Attack) {
        for (end, it) in std::mem::take(&mut self.connections) {
            self.answers.push_back(segment(end, [it.next, it.theirs], tcp::RST | tcp::ACK, 0, &[]));
        }
        (self.attack, self.begun) = (attack, 0);
    }

    /// Returns the frames that they send now.
    pub fn act(&mut self, now: u64) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        if now >= self.due {
            self.due = now + EVERY;
            frames.extend(self.answers.pop_front());
            let begins = self.attack == Attack::Syns || self.begun < MOST;
            if begins && self.attack != Attack::Rest {
                frames.push(self.syn());
            }
        }
        self.sent += frames.len() as u64;
        frames
    }

    /// Returns the SYN of another connection.
    fn syn(&mut self) -> Vec<u8> {
        let number = self.begun;
        self.begun += 1;
        let host = (number % 40) as u8;
        let address = match self.attack {
            Attack::Crowd => [10, 0, 2, 50],
            // Neighbours that do not exist, and hosts far away.
            Attack::Syns if number.is_multiple_of(2) => [10, 0, 2, 100 + host],
            Attack::Syns => [203, 0, 113, host],
            _ => [10, 0, 2, 50 + host],
        };
        let end = (address, 2000 + (number % 60_000) as u16);
        if self.attack != Attack::Syns {
            self.connections.insert(end, Connection { next: 1, theirs: 0 });
        }
        segment(end, [0, 0], tcp::SYN, 4000, &[])
    }

    /// The chip has sent a frame.
    pub fn hear(&mut self, frame: &[u8]) {
        if frame.len() >= 42 && frame[12..14] == [8, 6] && frame[21] == 1 {
            // Those that hold connections tell where they are.
            if frame[38..41] == [10, 0, 2] && (50..90).contains(&frame[41]) {
                self.answers.push_back(told_mac(frame));
            }
        } else if frame.len() >= 54 && frame[12..15] == [8, 0, 0x45] && frame[23] == 6 {
            self.hear_segment(frame);
        }
    }

    fn hear_segment(&mut self, frame: &[u8]) {
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let number = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
        let end = ([frame[30], frame[31], frame[32], frame[33]], word(36));
        let (flags, header) = (frame[47], usize::from(frame[46] >> 4) * 4);
        let length = (frame.len() - 34).saturating_sub(header) as u32;
        let is_mine = end.0[..3] == [10, 0, 2] && (50..90).contains(&end.0[3]);
        if !is_mine || flags & tcp::RST != 0 {
            self.connections.remove(&end);
            return;
        }
        let Some(it) = self.connections.get_mut(&end) else {
            let numbers = [number(42), number(38).wrapping_add(length)];
            self.answers.push_back(segment(end, numbers, tcp::RST | tcp::ACK, 0, &[]));
            return;
        };
        if flags & tcp::SYN != 0 {
            let is_first = it.theirs == 0;
            it.theirs = number(38).wrapping_add(1);
            let asks = self.attack != Attack::Crowd && is_first;
            let payload = if asks { REQUEST } else { &[] };
            let window = if self.attack == Attack::TinyWindows { TINY } else { LITTLE };
            let numbers = [it.next, it.theirs];
            self.answers.push_back(segment(end, numbers, tcp::ACK | tcp::PUSH, window, payload));
            it.next = it.next.wrapping_add(payload.len() as u32);
            return;
        }
        if self.attack == Attack::HalfOpen {
            return;
        }
        if number(38) == it.theirs {
            it.theirs = it.theirs.wrapping_add(length);
        }
        let window = if self.attack == Attack::TinyWindows { TINY } else { 0 };
        if length > 0 || flags & tcp::FIN != 0 {
            let numbers = [it.next, it.theirs];
            self.answers.push_back(segment(end, numbers, tcp::ACK, window, &[]));
        }
    }
}
