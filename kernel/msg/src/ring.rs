//! A single-producer single-consumer ring between two domains, with sessions.
//!
//! Contract: aligned 64-bit loads and stores only, one writer a word, a full barrier between a
//! message and the producer word that publishes it, between that word and the message's loads, and
//! between those and the consumer word that frees the slots. Methods neither wait nor allocate.
//!
//! ```text
//! P = [producer's epoch | consumer's epoch as seen | tail], in link (producer, consumer)
//! C = [consumer's epoch | producer's epoch as seen | head], in link (consumer, producer)
//!
//!            peer's new epoch: rewrite own word with index 0
//!    +--------+ ---------------------------> +---------+   other word names   +------+
//!    | closed |                              | waiting | -------------------> | open |--+ use
//!    +--------+ <--------------------------- +---------+   the same pair      +------+<-+
//!        ^          peer died                     ^                               |
//!        |                                        |   peer's new epoch            |
//!        +----------------------------------------+-------------------------------+
//!                    peer died, or wrote nonsense (closed until its next epoch)
//! ```
//! A session is a pair of epochs. Epochs never come back, so a word that names the same pair was
//! written in this session: what an earlier life left in the ring is dropped by construction.
//!
//! **Full**: `push` returns [`PushError::Full`] and has stored nothing. The sender waits through
//! attend (serving its own rings meanwhile) or gives up; the consumer makes room with each `pop`
//! and never waits for anybody to do so.

use abi::msg::{self, CONSUMER, HEADER, PRODUCER, SLOT};
use base::bytes::{load_bytes, store_bytes};
use base::id::Epoch;
use base::port::Words;

use crate::rpc::{Class, PeerFault, Wires};

/// Where a ring is in its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    producer: usize,
    consumer: usize,
    slots: usize,
    count: u32,
}

impl Place {
    /// The ring of `class` in a link of `layout`.
    pub const fn new(layout: &msg::Layout, class: Class) -> Place {
        let (slots, count) = match class {
            Class::Urgent => (msg::RINGS, layout.urgent_slots),
            Class::Blockable => (layout.blockable_ring(), layout.blockable_slots),
        };
        let line = class as usize * SLOT;
        Place { producer: PRODUCER + line, consumer: CONSUMER + line, slots, count }
    }

    /// Offset of byte `byte` behind ring index `index`, wrapping at the ring's end.
    const fn at(&self, index: u32, byte: usize) -> usize {
        let bytes = self.count as usize * SLOT;
        self.slots + (index as usize % self.count as usize * SLOT + byte) % bytes
    }

    /// Bytes before the ring's end when starting at `index`.
    const fn straight(&self, index: u32) -> usize {
        (self.count - index % self.count) as usize * SLOT
    }
}

/// A pair of epochs; 0 stands for "nobody".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Session {
    me: u16,
    peer: u16,
}

impl Session {
    const CLOSED: u16 = 0;

    fn is_closed(self) -> bool {
        self.peer == Self::CLOSED
    }
    /// What my word says at `index`.
    fn mine(self, index: u32) -> u64 {
        msg::pack_session(self.me, self.peer, index)
    }
    /// The index in the peer's word, if it is of this session.
    fn theirs(self, word: u64) -> Option<u32> {
        let (writer, reader, index) = msg::unpack_session(word);
        (!self.is_closed() && writer == self.peer && reader == self.me).then_some(index)
    }
}

/// A message's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// One of [`abi::msg::kind`].
    pub kind: u8,
    /// Procedure.
    pub proc: u16,
    /// Reply slot.
    pub slot: u8,
    /// Nesting level.
    pub level: u8,
    /// Sequence number of the call in that slot.
    pub sequence: u32,
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PushError {
    /// No room now.
    Full,
    /// No session with this peer (yet).
    NoSession,
    /// Larger than a message can be; it would never fit.
    TooLarge,
    /// The peer's consumer word makes no sense.
    Fault(PeerFault),
}

/// The sending end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Producer {
    place: Place,
    session: Session,
    open: bool,
    tail: u32,
    head: u32,
}

impl Producer {
    /// Closed, for a kernel of epoch `me`.
    pub const fn new(place: Place, me: Epoch) -> Producer {
        let session = Session { me: me.0, peer: Session::CLOSED };
        Producer { place, session, open: false, tail: 0, head: 0 }
    }

    /// Starts a session with epoch `peer`; what was in the ring is void.
    pub fn start(&mut self, wires: &Wires<impl Words>, peer: Epoch) {
        self.session.peer = peer.0;
        (self.open, self.tail, self.head) = (false, 0, 0);
        wires.mine.store(self.place.producer, self.session.mine(0));
        wires.mine.barrier();
    }

    /// Ends the session; nothing is stored, the peer finds out from its own sources.
    pub fn close(&mut self) {
        self.session.peer = Session::CLOSED;
        self.open = false;
    }

    /// Sends one message: visible to the consumer when this returns.
    pub fn push(
        &mut self,
        wires: &Wires<impl Words>,
        header: Header,
        payload: &[u8],
    ) -> Result<(), PushError> {
        let need = msg::slots_for(payload.len());
        if payload.len() > msg::MAX_PAYLOAD || need > self.place.count {
            return Err(PushError::TooLarge);
        }
        self.make_room(wires, need)?;
        let Header { kind, proc, slot, level, sequence } = header;
        let bytes = payload.len() as u16;
        let at = |byte| self.place.at(self.tail, byte);
        wires.mine.store(at(0), msg::pack_header(kind, proc, bytes, slot, level));
        wires.mine.store(at(8), msg::pack_tag(self.tail, sequence));
        let straight = (self.place.straight(self.tail) - HEADER).min(payload.len());
        store_bytes(&wires.mine, at(HEADER), &payload[..straight]);
        store_bytes(&wires.mine, self.place.slots, &payload[straight..]);
        self.tail = self.tail.wrapping_add(need);
        // The message before the word that publishes it ...
        wires.mine.barrier();
        wires.mine.store(self.place.producer, self.session.mine(self.tail));
        // ... and that word before the look at who is attending (see `notify`).
        wires.mine.barrier();
        Ok(())
    }

    /// Has the consumer taken everything? False as well without a session.
    pub fn is_drained(&self, wires: &Wires<impl Words>) -> bool {
        self.session.theirs(wires.theirs.load(self.place.consumer)) == Some(self.tail)
    }

    /// Looks at the consumer word only when what it said last is not enough: to send into a
    /// session that the peer has just left is harmless, its call ends with the peer's death.
    fn make_room(&mut self, wires: &Wires<impl Words>, need: u32) -> Result<(), PushError> {
        let fits = |head: u32, tail: u32| tail.wrapping_sub(head) <= self.place.count - need;
        if self.open && fits(self.head, self.tail) {
            return Ok(());
        }
        let word = wires.theirs.load(self.place.consumer);
        let head = self.session.theirs(word).ok_or(PushError::NoSession)?;
        if self.tail.wrapping_sub(head) > self.place.count {
            self.close();
            return Err(PushError::Fault(PeerFault::Index(head)));
        }
        (self.open, self.head) = (true, head);
        // The consumer's loads of a slot came before its head; our stores come after it.
        wires.mine.barrier();
        if fits(head, self.tail) { Ok(()) } else { Err(PushError::Full) }
    }
}

/// The receiving end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Consumer {
    place: Place,
    session: Session,
    head: u32,
}

impl Consumer {
    /// Closed, for a kernel of epoch `me`.
    pub const fn new(place: Place, me: Epoch) -> Consumer {
        Consumer { place, session: Session { me: me.0, peer: Session::CLOSED }, head: 0 }
    }

    /// Starts a session with epoch `peer`; what was in the ring is void.
    pub fn start(&mut self, wires: &Wires<impl Words>, peer: Epoch) {
        self.session.peer = peer.0;
        self.head = 0;
        wires.mine.store(self.place.consumer, self.session.mine(0));
        wires.mine.barrier();
    }

    /// Ends the session.
    pub fn close(&mut self) {
        self.session.peer = Session::CLOSED;
    }

    /// Is there something to pop? One load.
    pub fn is_waiting(&self, wires: &Wires<impl Words>) -> bool {
        let tail = self.session.theirs(wires.theirs.load(self.place.producer));
        tail.is_some_and(|tail| tail != self.head)
    }

    /// Takes one message out: its payload is `buffer[..bytes]`. A fault shuts the ring.
    pub fn pop(
        &mut self,
        wires: &Wires<impl Words>,
        buffer: &mut [u8; msg::MAX_PAYLOAD],
    ) -> Result<Option<(Header, usize)>, PeerFault> {
        let word = wires.theirs.load(self.place.producer);
        let Some(tail) = self.session.theirs(word).filter(|tail| *tail != self.head) else {
            return Ok(None);
        };
        // The word that published before what it published.
        wires.mine.barrier();
        match self.take(wires, tail, buffer) {
            Ok(taken) => Ok(Some(taken)),
            Err(fault) => {
                self.close();
                Err(fault)
            }
        }
    }

    fn take(
        &mut self,
        wires: &Wires<impl Words>,
        tail: u32,
        buffer: &mut [u8; msg::MAX_PAYLOAD],
    ) -> Result<(Header, usize), PeerFault> {
        let published = tail.wrapping_sub(self.head);
        if published > self.place.count {
            return Err(PeerFault::Index(tail));
        }
        let at = |byte| self.place.at(self.head, byte);
        let word = wires.theirs.load(at(0));
        let (kind, proc, bytes, slot, level) = msg::unpack_header(word);
        let (index, sequence) = msg::unpack_tag(wires.theirs.load(at(8)));
        let length = bytes as usize;
        if length > msg::MAX_PAYLOAD || msg::slots_for(length) > published {
            return Err(PeerFault::Length(bytes));
        }
        if index != self.head || !(kind == msg::kind::CALL || kind == msg::kind::NOTICE) {
            return Err(PeerFault::Header(word));
        }
        let straight = (self.place.straight(self.head) - HEADER).min(length);
        load_bytes(&wires.theirs, at(HEADER), &mut buffer[..straight]);
        load_bytes(&wires.theirs, self.place.slots, &mut buffer[straight..length]);
        self.head = self.head.wrapping_add(msg::slots_for(length));
        // Our loads of the slots before the word that gives them back.
        wires.mine.barrier();
        wires.mine.store(self.place.consumer, self.session.mine(self.head));
        Ok((Header { kind, proc, slot, level, sequence }, length))
    }
}
