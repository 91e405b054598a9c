//! One peer's calls to us: requests in, replies out.
//!
//! Contract: a request is handed out once; [`Server::reply`] accepts one answer for it, and none
//! after its caller died. A reply never waits: its slot was allocated by the caller. Run under one
//! lock per peer; handlers run outside of it.
//!
//! ```text
//!              receive                reply
//!   free slot ---------> open request ------> free slot       peer died: all open requests are
//!   void,
//!                                                             a late reply gets Stale
//! ```
//!
//! **Full**: requests taken and not answered yet are bounded by the peer's reply slots, so a table
//! of [`abi::msg::MAX_REPLIES`] entries a peer can never overflow; a second request in a slot
//! that is still open is the peer's fault. Notices take ring space only.

use abi::msg::{self, Layout, MAX_PAYLOAD, MAX_REPLIES};
use base::bytes::store_bytes;
use base::id::{DomainId, Epoch};
use base::port::Words;

use crate::caller::slots_of;
use crate::ring::{Consumer, Header, Place};
use crate::rpc::{Class, Level, PeerFault, Refusal, ReplyTo, Wires};

/// A request or a notice, as received; its payload is `buffer[..bytes]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The caller.
    pub from: DomainId,
    /// How it may be run.
    pub class: Class,
    /// Its level; a handler calls on at `level.deeper()`.
    pub level: Level,
    /// Procedure.
    pub proc: u16,
    /// Bytes of payload.
    pub bytes: usize,
    /// Where the answer goes; `None` for a notice.
    pub reply: Option<ReplyTo>,
}

/// Why a reply went nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyError {
    /// Its caller is dead, or has been answered already.
    Stale,
}

/// The serving side towards one peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    layout: &'static Layout,
    id: DomainId,
    me: Epoch,
    peer: Option<Epoch>,
    /// The last one that lived; a session with it never starts twice.
    last: Epoch,
    rings: [Consumer; 2],
    /// Sequence number of the open request in each reply slot.
    open: [Option<u32>; MAX_REPLIES],
}

impl Server {
    /// Knows no epoch of peer `id` yet.
    pub const fn new(layout: &'static Layout, id: DomainId, me: Epoch) -> Server {
        let urgent = Consumer::new(Place::new(layout, Class::Urgent), me);
        let blockable = Consumer::new(Place::new(layout, Class::Blockable), me);
        Server {
            layout,
            id,
            me,
            peer: None,
            last: Epoch(0),
            rings: [urgent, blockable],
            open: [None; MAX_REPLIES],
        }
    }

    /// What the chip page says about the peer: `None` when it is dead.
    pub fn peer_changed(&mut self, wires: &Wires<impl Words>, peer: Option<Epoch>) {
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

    /// The peer is dead or not to be believed: its open requests are void until its next epoch.
    fn end(&mut self) {
        self.peer = None;
        self.rings.iter_mut().for_each(Consumer::close);
        self.open = [None; MAX_REPLIES];
    }

    /// The next message of `class`, if there is one. A fault has lost the peer here; tell its
    /// [`Caller`](crate::Caller) with `lose` as well, by the epoch that [`Server::peer`] named
    /// before.
    pub fn receive(
        &mut self,
        wires: &Wires<impl Words>,
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

    /// Is a message of `class` waiting? One load; for the recheck before sleep.
    pub fn is_waiting(&self, wires: &Wires<impl Words>, class: Class) -> bool {
        self.rings[class as usize].is_waiting(wires)
    }

    /// Answers a request. Visible to the caller when this returns; ring it if `notify::must_ring`
    /// says so. A payload that does not fit is answered with `TooLarge`.
    pub fn reply(
        &mut self,
        wires: &Wires<impl Words>,
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
        // The reply before the word that says it is there, that word before the look at who
        // attends.
        wires.mine.barrier();
        let done = msg::pack_session(self.me.0, to.epoch.0, to.sequence);
        wires.mine.store(header + msg::REPLY_DONE, done);
        wires.mine.barrier();
        Ok(())
    }

    /// Requests taken and not answered.
    pub fn open(&self) -> usize {
        self.open.iter().flatten().count()
    }

    /// The peer's epoch while it lives.
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
