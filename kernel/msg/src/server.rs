//! A peer's calls to us: requests in, replies out.
//!
//! Each request is handed out once, and [`Server::reply`] accepts one reply to it, none after the
//! caller has died. A reply never waits: the caller has allocated its slot. Use one lock per peer;
//! handlers run outside it.
//!
//! ```text
//!              receive                reply
//!   free slot ---------> open request ------> free slot
//!                            |
//!                            +--> peer died: void; a late reply gets Stale
//! ```
//!
//! **Full**: the peer's reply slots bound the requests that are not yet answered, so a table of
//! [`abi::msg::MAX_REPLIES`] entries per peer cannot overflow; a second request in an open slot is
//! a protocol error of the peer, and so is a request in the stream ring. Notices take ring space
//! only.

use abi::msg::{self, Layout, MAX_PAYLOAD, MAX_REPLIES, RING_COUNT};
use base::bytes::store_bytes;
use base::id::{DomainId, Epoch};
use base::port::Words;

use crate::caller::slots_of;
use crate::ring::{Consumer, Front, Header, RingLayout};
use crate::rpc::{Class, Level, LinkPair, PeerFault, Refusal, ReplyTo};

/// A received request or notice. Its payload is `buffer[..bytes]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub from: DomainId,
    pub class: Class,
    /// Nesting level; the handler makes calls at `level.deeper()`.
    pub level: Level,
    pub proc: u16,
    pub bytes: usize,
    /// `None` for a notice.
    pub reply: Option<ReplyTo>,
}

/// Reason why a reply was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyError {
    /// The caller is dead, or has already been answered.
    Stale,
}

/// The serving side of the link to one peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    layout: &'static Layout,
    id: DomainId,
    me: Epoch,
    peer: Option<Epoch>,
    /// The last epoch of the peer; a session with it is not started again.
    last: Epoch,
    rings: [Consumer; RING_COUNT],
    /// Sequence number of the open request per reply slot.
    open: [Option<u32>; MAX_REPLIES],
}

impl Server {
    /// Starts without a session with peer `id`.
    pub const fn new(layout: &'static Layout, id: DomainId, me: Epoch) -> Server {
        let urgent = Consumer::new(RingLayout::new(layout, Class::Urgent), me);
        let blockable = Consumer::new(RingLayout::new(layout, Class::Blockable), me);
        let stream = Consumer::new(RingLayout::new(layout, Class::Stream), me);
        Server {
            layout,
            id,
            me,
            peer: None,
            last: Epoch(0),
            rings: [urgent, blockable, stream],
            open: [None; MAX_REPLIES],
        }
    }

    /// Reports the peer's epoch according to the chip page; `None`: the peer is dead.
    pub fn peer_changed(&mut self, wires: &LinkPair<impl Words>, peer: Option<Epoch>) {
        if peer == self.peer {
            return;
        }
        if peer != Some(self.last) {
            self.end();
        }
        if let Some(epoch) = peer.filter(|epoch| *epoch != self.last) {
            (self.peer, self.last) = (peer, epoch);
            self.rings.iter_mut().for_each(|ring| ring.start(wires, epoch));
        }
    }

    /// The peer broke the protocol in its epoch `epoch`, in a way that only the receiver of a
    /// message can see. Takes nothing from it until its next epoch; use
    /// [`Caller::lose`](crate::Caller::lose) as well. No effect if another epoch has been reported
    /// meanwhile.
    pub fn lose(&mut self, epoch: Epoch) {
        if self.peer == Some(epoch) {
            self.end();
        }
    }

    /// The peer is dead or broke the protocol: its open requests are void until its next epoch.
    fn end(&mut self) {
        self.peer = None;
        self.rings.iter_mut().for_each(Consumer::close);
        self.open = [None; MAX_REPLIES];
    }

    /// Takes the next message of `class`, if there is one. After a fault the peer counts as lost
    /// here; pass the epoch that [`Server::peer`] returned before to
    /// [`Caller::lose`](crate::Caller::lose) as well.
    pub fn receive(
        &mut self,
        wires: &LinkPair<impl Words>,
        class: Class,
        buffer: &mut [u8; MAX_PAYLOAD],
    ) -> Result<Option<Request>, PeerFault> {
        let Some(epoch) = self.peer else { return Ok(None) };
        let popped = self.rings[class as usize].pop(wires, buffer).inspect_err(|_| self.end())?;
        let Some((header, bytes)) = popped else { return Ok(None) };
        let Header { kind, proc, slot, level, sequence } = header;
        let mut reply = None;
        if kind == msg::kind::CALL {
            self.open_slot(class, header)?;
            reply = Some(ReplyTo { peer: self.id, epoch, slot, sequence });
        }
        Ok(Some(Request { from: self.id, class, level: Level(level), proc, bytes, reply }))
    }

    /// Returns the next message of the stream, and its first words, if it has so many. It is not
    /// taken. `word` is the [`producer_word`](crate::ring::producer_word) that the caller has
    /// loaded; another core may have taken the message since. What is against the protocol is left
    /// to [`Server::receive`].
    #[inline]
    pub fn front<const N: usize>(
        &self,
        wires: &LinkPair<impl Words>,
        word: u64,
    ) -> Option<(Front, [u64; N])> {
        let stream = &self.rings[Class::Stream as usize];
        let front = stream.front(wires, word).ok()??;
        let is_notice = front.header.kind == msg::kind::NOTICE;
        let has_words = is_notice && front.length >= size_of::<[u64; N]>();
        has_words.then(|| (front, stream.load_words(wires)))
    }

    /// Takes the message that [`Server::front`] has returned. The bytes after its `N` words go to
    /// `into`, which has as many.
    #[inline]
    pub fn take<const N: usize>(
        &mut self,
        wires: &LinkPair<impl Words>,
        front: &Front,
        into: &mut [u8],
    ) {
        let stream = &mut self.rings[Class::Stream as usize];
        stream.load(wires, size_of::<[u64; N]>(), into);
        stream.free(wires, front);
    }

    /// Returns whether a message of `class` is waiting. One load, for the check before sleep.
    pub fn is_waiting(&self, wires: &LinkPair<impl Words>, class: Class) -> bool {
        self.rings[class as usize].is_waiting(wires)
    }

    /// Returns the [`producer_word`](crate::ring::producer_word) with which no message of `class`
    /// is waiting. While that word is the same, no lock is needed to know that.
    pub fn empty_word(&self, class: Class) -> u64 {
        self.rings[class as usize].empty_word()
    }

    /// Returns whether the peer's stream has stalled, and there is room since the last call: ring
    /// its doorbell if `notify::must_ring`. Call it after each look at the stream ring in which
    /// something was received, and after [`Server::peer_changed`], which may open the session.
    pub fn must_notify(&mut self, wires: &LinkPair<impl Words>) -> bool {
        self.rings[Class::Stream as usize].must_notify(wires)
    }

    /// Answers a request. The reply is visible to the caller on return; ring its doorbell if
    /// `notify::must_ring`. A payload that does not fit is answered with `TooLarge`.
    pub fn reply(
        &mut self,
        wires: &LinkPair<impl Words>,
        to: ReplyTo,
        result: Result<&[u8], Refusal>,
    ) -> Result<(), ReplyError> {
        let index = to.slot as usize;
        let open = self.open.get_mut(index).ok_or(ReplyError::Stale)?;
        if self.peer != Some(to.epoch) || *open != Some(to.sequence) {
            return Err(ReplyError::Stale);
        }
        *open = None;
        let fits = |payload: &&[u8]| payload.len() <= self.layout.reply_bytes as usize;
        let result = match result {
            Ok(payload) => Some(payload).filter(fits).ok_or(Refusal::TooLarge),
            refused => refused,
        };
        let status = match result {
            Ok(payload) => {
                store_bytes(&wires.mine, self.layout.reply_payload(index), payload);
                msg::pack_status(payload.len() as u16, msg::status::OK)
            }
            Err(refusal) => msg::pack_status(0, refusal.code()),
        };
        let header = self.layout.reply_header(index);
        wires.mine.store(header + msg::REPLY_STATUS, status);
        // The reply is visible before the word that publishes it, and that word before the load of
        // the attending words.
        wires.mine.barrier();
        let done = msg::pack_session(self.me.0, to.epoch.0, to.sequence);
        wires.mine.store(header + msg::REPLY_DONE, done);
        wires.mine.barrier();
        Ok(())
    }

    /// Returns the number of requests that are not yet answered.
    pub fn open(&self) -> usize {
        self.open.iter().flatten().count()
    }

    /// Returns the peer's epoch while it lives.
    pub fn peer(&self) -> Option<Epoch> {
        self.peer
    }

    fn open_slot(&mut self, class: Class, header: Header) -> Result<(), PeerFault> {
        let index = header.slot as usize;
        let range = slots_of(self.layout, class, Level(header.level));
        let fitting = range.is_some_and(|range| range.contains(&index));
        match self.open.get_mut(index).filter(|open| fitting && open.is_none()) {
            Some(open) => {
                *open = Some(header.sequence);
                Ok(())
            }
            None => {
                self.end();
                Err(PeerFault::Slot(header.slot))
            }
        }
    }
}
