//! A single-producer, single-consumer ring between two domains, with sessions.
//!
//! All accesses are aligned 64-bit loads and stores, with one writer per word. A full barrier
//! separates a message from the producer word that publishes it, that word from the loads of the
//! message, and those loads from the consumer word that frees the slots. Methods neither wait nor
//! allocate.
//!
//! ```text
//! P = [producer's epoch | consumer's epoch as seen | tail], in link (producer, consumer)
//! C = [consumer's epoch | producer's epoch as seen | head], in link (consumer, producer)
//!
//!            peer's new epoch: rewrite own word with index 0
//!    +--------+ ---------------------------> +---------+  other word has the  +------+
//!    | closed |                              | waiting | -------------------> | open |--+ use
//!    +--------+ <--------------------------- +---------+   same epoch pair    +------+<-+
//!        ^          peer died                     ^                               |
//!        |                                        |   peer's new epoch            |
//!        +----------------------------------------+-------------------------------+
//!                    peer died, or broke the protocol (closed until its next epoch)
//! ```
//! A session is a pair of epochs. Epochs are never reused, so a word with the same pair was written
//! in this session, and leftovers of an earlier session are ignored by construction.
//!
//! **Full**: `push` returns [`PushError::Full`] and stores nothing. The sender waits with attend,
//! serving its own rings meanwhile, or gives up. The consumer makes room with every `pop`, which
//! never waits.
//!
//! The sender of a stream does not wait and does not poll: it *stalls*, and the consumer rings its
//! doorbell when there is room. The stalled word names the session and the head at which there was
//! no room, so a word of an earlier session or of an earlier stall rings no bell.
//!
//! ```text
//! producer: load head -> no room; stalled = head; barrier; load head -> moved: again, else stalled
//! consumer: load slots; barrier; head += n; barrier; load stalled  -> one of the n heads: ring
//! ```
//! At least one of the two sees the other's store.

use abi::msg::{self, CONSUMER, HEADER, PRODUCER, SLOT, STALLED};
use base::bytes::{load_bytes, store_bytes};
use base::id::Epoch;
use base::port::Words;

use crate::rpc::{Class, LinkPair, PeerFault};

/// Location of a ring in its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingLayout {
    producer: usize,
    consumer: usize,
    slots: usize,
    count: u32,
}

impl RingLayout {
    /// Returns the ring of `class` in a link of `layout`.
    pub const fn new(layout: &msg::Layout, class: Class) -> RingLayout {
        let (slots, count) = match class {
            Class::Urgent => (msg::RINGS, layout.urgent_slots),
            Class::Blockable => (layout.blockable_ring(), layout.blockable_slots),
            Class::Stream => (layout.stream_ring(), layout.stream_slots),
        };
        let line = class as usize * SLOT;
        RingLayout { producer: PRODUCER + line, consumer: CONSUMER + line, slots, count }
    }

    /// Returns the offset of byte `byte` of the slots from `index` on, wrapping at the end of the
    /// ring.
    const fn at(&self, index: u32, byte: usize) -> usize {
        let bytes = self.count as usize * SLOT;
        self.slots + (index as usize % self.count as usize * SLOT + byte) % bytes
    }

    /// Returns the offset of the end of the slots.
    const fn end(&self) -> usize {
        self.slots + self.count as usize * SLOT
    }
}

/// A pair of epochs; `peer` is 0 while there is no session.
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
    /// Returns our word for `index`.
    fn mine(self, index: u32) -> u64 {
        msg::pack_session(self.me, self.peer, index)
    }
    /// Returns the index in the peer's word, if it is of this session.
    fn theirs(self, word: u64) -> Option<u32> {
        let (writer, reader, index) = msg::unpack_session(word);
        (!self.is_closed() && writer == self.peer && reader == self.me).then_some(index)
    }
}

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// One of [`abi::msg::kind`].
    pub kind: u8,
    pub proc: u16,
    pub slot: u8,
    pub level: u8,
    /// Sequence number of the call in that reply slot.
    pub sequence: u32,
}

/// Words that are in the first slot of a message.
pub const WORDS: usize = (SLOT - HEADER) / 8;

/// The payload of a message: first words, at most [`WORDS`], then bytes.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    pub words: &'a [u64],
    pub bytes: &'a [u8],
}

impl<'a> Payload<'a> {
    /// Returns a payload without words.
    pub fn of(bytes: &'a [u8]) -> Payload<'a> {
        Payload { words: &[], bytes }
    }

    pub(crate) fn len(&self) -> usize {
        size_of_val(self.words) + self.bytes.len()
    }
}

/// The message at the front of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Front {
    pub header: Header,
    /// Bytes of its payload.
    pub length: usize,
}

/// Reason why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PushError {
    /// The ring has no room now.
    Full,
    /// There is no session with this peer (yet).
    NoSession,
    /// The message exceeds the maximum size.
    TooLarge,
    /// The peer's consumer word is invalid.
    Fault(PeerFault),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Producer {
    layout: RingLayout,
    session: Session,
    open: bool,
    tail: u32,
    head: u32,
    /// The consumer's index at which there was no room, until [`Producer::take_room`].
    stalled: Option<u32>,
}

/// The index of a consumer before it has opened the session with index 0.
const UNOPENED: u32 = u32::MAX;

impl Producer {
    /// Makes a closed ring for a kernel of epoch `me`.
    pub const fn new(layout: RingLayout, me: Epoch) -> Producer {
        let session = Session { me: me.0, peer: Session::CLOSED };
        Producer { layout, session, open: false, tail: 0, head: 0, stalled: None }
    }

    /// Starts a session with the peer's epoch. Earlier contents of the ring are void.
    pub fn start(&mut self, wires: &LinkPair<impl Words>, peer: Epoch) {
        self.session.peer = peer.0;
        (self.open, self.tail, self.head, self.stalled) = (false, 0, 0, None);
        wires.mine.store(self.layout.producer, self.session.mine(0));
        wires.mine.barrier();
    }

    /// Ends the session. Nothing is stored: the peer learns of it elsewhere.
    pub fn close(&mut self) {
        self.session.peer = Session::CLOSED;
        (self.open, self.stalled) = (false, None);
    }

    /// Sends a message: these words, then these bytes. It is visible to the consumer on return.
    pub fn push(
        &mut self,
        wires: &LinkPair<impl Words>,
        header: Header,
        payload @ Payload { words, bytes }: Payload<'_>,
    ) -> Result<(), PushError> {
        if words.len() > WORDS {
            return Err(PushError::TooLarge);
        }
        let length = payload.len();
        self.has_room(wires, length)?;
        let Header { kind, proc, slot, level, sequence } = header;
        // The first slot, which does not wrap.
        let at = self.layout.at(self.tail, 0);
        wires.mine.store(at, msg::pack_header(kind, proc, length as u16, slot, level));
        wires.mine.store(at + 8, msg::pack_tag(self.tail, sequence));
        if !words.is_empty() {
            wires.mine.store_all(at + HEADER, words);
        }
        let first = at + HEADER + size_of_val(words);
        let (one, other) = bytes.split_at((self.layout.end() - first).min(bytes.len()));
        store_bytes(&wires.mine, first, one);
        if !other.is_empty() {
            store_bytes(&wires.mine, self.layout.slots, other);
        }
        self.tail = self.tail.wrapping_add(msg::slots_for(length));
        // The message is visible before the word that publishes it ...
        wires.mine.barrier();
        wires.mine.store(self.layout.producer, self.session.mine(self.tail));
        // ... and that word before the load of the attending words (see `notify`).
        wires.mine.barrier();
        Ok(())
    }

    /// Returns whether the consumer has taken every message; false without a session.
    pub fn is_drained(&self, wires: &LinkPair<impl Words>) -> bool {
        self.session.theirs(wires.theirs.load(self.layout.consumer)) == Some(self.tail)
    }

    /// Returns whether a payload of `bytes` fits now.
    #[inline]
    pub fn has_room(
        &mut self,
        wires: &LinkPair<impl Words>,
        bytes: usize,
    ) -> Result<(), PushError> {
        if bytes > msg::MAX_PAYLOAD || msg::slots_for(bytes) > self.layout.count {
            return Err(PushError::TooLarge);
        }
        self.make_room(wires, msg::slots_for(bytes))
    }

    /// Returns whether a payload of `bytes` fits now, in the stream ring. If not, but later in this
    /// session, [`Producer::take_room`] returns true once the consumer has made room, and the
    /// consumer rings for it.
    pub fn has_room_or_stalls(
        &mut self,
        wires: &LinkPair<impl Words>,
        bytes: usize,
    ) -> Result<(), PushError> {
        let mut room = self.has_room(wires, bytes);
        // A sender that has stalled before will be notified of any room since then; no second word
        // is needed. A closed session has no consumer that could ring.
        if self.stalled.is_some() || self.session.is_closed() {
            return room;
        }
        // In each round but the last, the consumer has opened the session or has taken a message.
        for _ in 0..self.layout.count + 2 {
            if !matches!(room, Err(PushError::Full | PushError::NoSession)) {
                return room;
            }
            let at = self.known_head();
            wires.mine.store(STALLED, self.session.mine(at));
            // The store comes before the second look; pairs with `Consumer::must_notify`.
            wires.mine.barrier();
            room = self.has_room(wires, bytes);
            if room.is_err() && self.known_head() == at {
                break;
            }
        }
        if matches!(room, Err(PushError::Full | PushError::NoSession)) {
            self.stalled = Some(self.known_head());
        }
        room
    }

    fn known_head(&self) -> u32 {
        if self.open { self.head } else { UNOPENED }
    }

    /// Returns whether the sender has stalled and was not notified of room since.
    pub fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    /// Returns whether [`Producer::take_room`] would return true. One load if stalled, else none.
    pub fn is_room_made(&self, wires: &LinkPair<impl Words>) -> bool {
        self.stalled.is_some_and(|at| {
            let head = self.session.theirs(wires.theirs.load(self.layout.consumer));
            head.is_some_and(|head| head != at)
        })
    }

    /// Returns whether the consumer has made room since the sender stalled; true once per stall.
    pub fn take_room(&mut self, wires: &LinkPair<impl Words>) -> bool {
        let is_made = self.is_room_made(wires);
        if is_made {
            self.stalled = None;
        }
        is_made
    }

    /// Loads the consumer word only if the last known value leaves too little room. Sending into a
    /// session that the peer has just left is harmless: its calls end with the peer's death.
    fn make_room(&mut self, wires: &LinkPair<impl Words>, need: u32) -> Result<(), PushError> {
        let fits = |head: u32, tail: u32| tail.wrapping_sub(head) <= self.layout.count - need;
        if self.open && fits(self.head, self.tail) {
            return Ok(());
        }
        let word = wires.theirs.load(self.layout.consumer);
        let head = self.session.theirs(word).ok_or(PushError::NoSession)?;
        if self.tail.wrapping_sub(head) > self.layout.count {
            self.close();
            return Err(PushError::Fault(PeerFault::Index(head)));
        }
        (self.open, self.head) = (true, head);
        // The consumer loaded the slots before it stored its head; our stores come after this load.
        wires.mine.barrier();
        if fits(head, self.tail) { Ok(()) } else { Err(PushError::Full) }
    }
}

/// Returns the producer word of the peer's ring of `class`. One load.
pub fn producer_word(wires: &LinkPair<impl Words>, class: Class) -> u64 {
    wires.theirs.load(PRODUCER + class as usize * SLOT)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Consumer {
    layout: RingLayout,
    session: Session,
    head: u32,
    /// The head up to which [`Consumer::must_notify`] has looked for a stalled sender.
    checked: u32,
}

impl Consumer {
    /// Makes a closed ring for a kernel of epoch `me`.
    pub const fn new(layout: RingLayout, me: Epoch) -> Consumer {
        let session = Session { me: me.0, peer: Session::CLOSED };
        Consumer { layout, session, head: 0, checked: UNOPENED }
    }

    /// Starts a session with the peer's epoch. Earlier contents of the ring are void.
    pub fn start(&mut self, wires: &LinkPair<impl Words>, peer: Epoch) {
        self.session.peer = peer.0;
        (self.head, self.checked) = (0, UNOPENED);
        wires.mine.store(self.layout.consumer, self.session.mine(0));
        wires.mine.barrier();
    }

    pub fn close(&mut self) {
        self.session.peer = Session::CLOSED;
    }

    /// Returns the producer word with which the ring is empty; without a session, no producer has
    /// it.
    pub fn empty_word(&self) -> u64 {
        msg::pack_session(self.session.peer, self.session.me, self.head)
    }

    /// Returns whether there is a message to pop. One load.
    pub fn is_waiting(&self, wires: &LinkPair<impl Words>) -> bool {
        let tail = self.session.theirs(wires.theirs.load(self.layout.producer));
        tail.is_some_and(|tail| tail != self.head)
    }

    /// Returns whether the sender of the stream ring has stalled at a head that this consumer has
    /// left since the last call: ring its doorbell if `notify::must_ring`. Call it after `start`,
    /// and after the last `pop` of a look at the ring.
    pub fn must_notify(&mut self, wires: &LinkPair<impl Words>) -> bool {
        let (from, passed) = (self.checked, self.head.wrapping_sub(self.checked));
        if passed == 0 {
            return false;
        }
        self.checked = self.head;
        // The store of the head comes before the look at the stalled word, and before the load of
        // the attending words.
        wires.mine.barrier();
        let at = self.session.theirs(wires.theirs.load(STALLED));
        at.is_some_and(|at| at.wrapping_sub(from) < passed)
    }

    /// Takes a message off the ring; its payload is `buffer[..bytes]`. A fault closes the ring.
    pub fn pop(
        &mut self,
        wires: &LinkPair<impl Words>,
        buffer: &mut [u8; msg::MAX_PAYLOAD],
    ) -> Result<Option<(Header, usize)>, PeerFault> {
        let word = wires.theirs.load(self.layout.producer);
        let Some(front) = self.front(wires, word).inspect_err(|_| self.close())? else {
            return Ok(None);
        };
        self.load(wires, 0, &mut buffer[..front.length]);
        self.free(wires, &front);
        Ok(Some((front.header, front.length)))
    }

    /// Returns the message at the front of the ring, if there is one, and leaves it there. `word`
    /// is the producer word. If that is an older one, an error says nothing about the peer.
    #[inline]
    pub fn front(
        &self,
        wires: &LinkPair<impl Words>,
        word: u64,
    ) -> Result<Option<Front>, PeerFault> {
        let Some(tail) = self.session.theirs(word).filter(|tail| *tail != self.head) else {
            return Ok(None);
        };
        // The load of the producer word comes before the loads of the message.
        wires.mine.barrier();
        let published = tail.wrapping_sub(self.head);
        if published > self.layout.count {
            return Err(PeerFault::Index(tail));
        }
        let at = self.layout.at(self.head, 0);
        let word = wires.theirs.load(at);
        let (kind, proc, bytes, slot, level) = msg::unpack_header(word);
        let (index, sequence) = msg::unpack_tag(wires.theirs.load(at + 8));
        let length = bytes as usize;
        if length > msg::MAX_PAYLOAD || msg::slots_for(length) > published {
            return Err(PeerFault::Length(bytes));
        }
        if index != self.head || !(kind == msg::kind::CALL || kind == msg::kind::NOTICE) {
            return Err(PeerFault::Header(word));
        }
        Ok(Some(Front { header: Header { kind, proc, slot, level, sequence }, length }))
    }

    /// Loads the first words of the payload of the message at the front, which has so many.
    #[inline]
    pub fn load_words<const N: usize>(&self, wires: &LinkPair<impl Words>) -> [u64; N] {
        const { assert!(N <= WORDS, "the others may be past the end of the ring") };
        let mut words = [0; N];
        wires.theirs.load_all(self.layout.at(self.head, HEADER), &mut words);
        words
    }

    /// Loads bytes of the payload of the message at the front, from the 8-aligned offset `from` on.
    #[inline]
    pub fn load(&self, wires: &LinkPair<impl Words>, from: usize, into: &mut [u8]) {
        let at = self.layout.at(self.head, HEADER + from);
        let (one, other) = into.split_at_mut((self.layout.end() - at).min(into.len()));
        load_bytes(&wires.theirs, at, one);
        if !other.is_empty() {
            load_bytes(&wires.theirs, self.layout.slots, other);
        }
    }

    /// Takes the message at the front off the ring.
    #[inline]
    pub fn free(&mut self, wires: &LinkPair<impl Words>, front: &Front) {
        self.head = self.head.wrapping_add(msg::slots_for(front.length));
        // The loads of the slots come before the store that frees them.
        wires.mine.barrier();
        wires.mine.store(self.layout.consumer, self.session.mine(self.head));
    }
}
