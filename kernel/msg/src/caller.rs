//! Our calls to a peer: reply slots, sequence numbers, and what the peer's death does to them.
//!
//! Every call accepted by [`Caller::begin`] ends exactly once, in [`Caller::finish`], with its own
//! reply or an error, whatever the peer does. No method waits or allocates. Use one lock per peer;
//! a thread holds it while it copies its request, and while it copies its reply.
//!
//! ```text
//!            begin                    reply seen             finish
//!   free ------------> pending ------------------> arrived ---------> free
//!                         |                            ^
//!                         |  peer died, restarted      | finish (PeerLost)
//!                         +--------------------------> lost
//! ```
//!
//! **Full**: if all reply slots of the class and level are in use, or the ring is full, `begin`
//! sends nothing and returns `Busy`. Replies never queue: each has its slot. The sender of a stream
//! that found no room is notified when there is room ([`Caller::take_room`]; see [`crate::ring`]).

use abi::msg::{self, Layout, MAX_REPLIES, RING_COUNT};
use base::bytes::load_bytes;
use base::id::Epoch;
use base::port::Words;

use crate::ring::{Header, Payload, Producer, PushError, RingLayout};
use crate::rpc::{Busy, CallError, CallId, Class, Level, LinkPair, Refusal};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Free,
    Pending,
    Arrived,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slot {
    state: State,
    /// The caller has given up: free the slot when the call ends.
    abandoned: bool,
    sequence: u32,
    epoch: Epoch,
    token: u64,
}

const FREE: Slot =
    Slot { state: State::Free, abandoned: false, sequence: 0, epoch: Epoch(0), token: 0 };

/// The calling side of the link to one peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    layout: &'static Layout,
    me: Epoch,
    /// `None`: dead, or not seen yet.
    peer: Option<Epoch>,
    /// The last epoch of the peer; a session with it is not started again.
    last: Epoch,
    rings: [Producer; RING_COUNT],
    slots: [Slot; MAX_REPLIES],
    /// Bit mask of the slots that `poll` checks, so that an idle poll loads nothing.
    watched: u32,
}

impl Caller {
    pub const fn new(layout: &'static Layout, me: Epoch) -> Caller {
        let urgent = Producer::new(RingLayout::new(layout, Class::Urgent), me);
        let blockable = Producer::new(RingLayout::new(layout, Class::Blockable), me);
        let stream = Producer::new(RingLayout::new(layout, Class::Stream), me);
        let slots = [FREE; MAX_REPLIES];
        Caller {
            layout,
            me,
            peer: None,
            last: Epoch(0),
            rings: [urgent, blockable, stream],
            slots,
            watched: 0,
        }
    }

    /// Reports the peer's epoch according to the chip page; `None`: the peer is dead. Death or a
    /// new epoch ends all calls to the old one. Reporting the same epoch again changes nothing,
    /// even after `lose`.
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

    /// The peer broke the protocol in its epoch `epoch`: ends all calls to it and refuses new ones
    /// until its next epoch. No effect if another epoch has been reported meanwhile.
    pub fn lose(&mut self, epoch: Epoch) {
        if self.peer == Some(epoch) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.peer = None;
        self.rings.iter_mut().for_each(Producer::close);
        for (i, slot) in self.slots.iter_mut().enumerate() {
            if slot.state == State::Pending {
                slot.state = State::Lost;
                self.watched |= 1 << i;
            }
        }
    }

    /// Sends a request. It is visible to the peer on return; ring its doorbell if
    /// `notify::must_ring`. The stream class has no calls; they are [`CallError::TooDeep`].
    pub fn begin(
        &mut self,
        wires: &LinkPair<impl Words>,
        class: Class,
        level: Level,
        proc: u16,
        payload: &[u8],
        token: u64,
    ) -> Result<CallId, CallError> {
        let epoch = self.peer.ok_or(CallError::PeerLost)?;
        let range = slots_of(self.layout, class, level).ok_or(CallError::TooDeep)?;
        let free = |i: &usize| self.slots[*i].state == State::Free;
        let index = range.clone().find(free).ok_or(CallError::Busy(Busy::NoSlot))?;
        let sequence = self.slots[index].sequence.wrapping_add(1);
        let (slot, kind) = (index as u8, msg::kind::CALL);
        let header = Header { kind, proc, slot, level: level.0, sequence };
        self.push(wires, class, header, Payload::of(payload))?;
        self.slots[index] =
            Slot { state: State::Pending, abandoned: false, sequence, epoch, token };
        self.watched |= 1 << index;
        Ok(CallId { slot, epoch, sequence })
    }

    /// Sends a one-way message, which is delivered at most once. A live peer takes it off the ring,
    /// but may have no handler for it; it then drops and counts the notice, and the sender does not
    /// learn of it.
    ///
    /// In the stream class it is delivered exactly once unless one of both dies, after those sent
    /// before it. If there is no room, the sender stalls, as in [`Caller::has_room`].
    pub fn notice(
        &mut self,
        wires: &LinkPair<impl Words>,
        class: Class,
        proc: u16,
        payload: Payload<'_>,
    ) -> Result<(), CallError> {
        self.peer.ok_or(CallError::PeerLost)?;
        let header = Header { kind: msg::kind::NOTICE, proc, slot: 0, level: 0, sequence: 0 };
        let sent = self.push(wires, class, header, payload);
        if !matches!(sent, Err(CallError::Busy(_))) {
            return sent;
        }
        // A stream stalls, or there is room by now.
        self.check_room(wires, class, payload.len())?;
        self.push(wires, class, header, payload)
    }

    /// Returns whether a notice with `bytes` of payload can be sent now. If not, but later in this
    /// session, the sender of a stream stalls: [`Caller::take_room`] returns true once there may be
    /// room, and the peer rings for it.
    pub fn has_room(&mut self, wires: &LinkPair<impl Words>, class: Class, bytes: usize) -> bool {
        self.check_room(wires, class, bytes).is_ok()
    }

    /// Returns whether a stream has stalled and was not notified of room since.
    pub fn is_stalled(&self) -> bool {
        self.rings[Class::Stream as usize].is_stalled()
    }

    /// Returns whether a stalled stream may continue: the peer has taken messages since, or has
    /// opened the session. True once per stall; the sender then tries again, and may stall again.
    pub fn take_room(&mut self, wires: &LinkPair<impl Words>) -> bool {
        self.rings[Class::Stream as usize].take_room(wires)
    }

    /// Returns whether a call is in progress.
    pub fn is_calling(&self) -> bool {
        self.watched != 0
    }

    /// Reports each call that has ended since the last poll, with the `token` of its caller, to be
    /// woken.
    pub fn poll(&mut self, wires: &LinkPair<impl Words>, ended: &mut impl FnMut(CallId, u64)) {
        let mut rest = self.watched;
        while rest != 0 {
            let index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if self.slots[index].state == State::Pending && !self.has_reply(wires, index) {
                continue;
            }
            self.watched &= !(1 << index);
            let slot = &mut self.slots[index];
            if slot.state == State::Pending {
                slot.state = State::Arrived;
            }
            if slot.abandoned {
                slot.state = State::Free;
                continue;
            }
            let call = CallId { slot: index as u8, epoch: slot.epoch, sequence: slot.sequence };
            ended(call, slot.token);
        }
    }

    /// Returns whether [`Caller::poll`] would report a call, or [`Caller::take_room`] would return
    /// true; for the check before sleep.
    pub fn is_waiting(&self, wires: &LinkPair<impl Words>) -> bool {
        if self.rings[Class::Stream as usize].is_room_made(wires) {
            return true;
        }
        if self.watched == 0 {
            return false;
        }
        let mut watched = (0..MAX_REPLIES).filter(|i| self.watched & 1 << i != 0);
        watched.any(|i| self.slots[i].state != State::Pending || self.has_reply(wires, i))
    }

    /// Returns `None` while `call` is pending; otherwise ends it and returns its error or its reply
    /// in `buffer[..bytes]`. The id is stale afterwards. Needs no `poll` before.
    pub fn finish(
        &mut self,
        wires: &LinkPair<impl Words>,
        call: CallId,
        buffer: &mut [u8],
    ) -> Option<Result<usize, CallError>> {
        let Some(index) = self.find(call) else { return Some(Err(CallError::PeerLost)) };
        let result = match self.slots[index].state {
            State::Pending if !self.has_reply(wires, index) => return None,
            State::Lost | State::Free => Err(CallError::PeerLost),
            State::Pending | State::Arrived => self.read_reply(wires, index, buffer),
        };
        self.slots[index].state = State::Free;
        self.watched &= !(1 << index);
        Some(result)
    }

    /// Gives up on `call`. Its slot stays in use until the peer has answered, so that a late reply
    /// has a place to go; the reply is dropped.
    pub fn abandon(&mut self, call: CallId) {
        let Some(index) = self.find(call) else { return };
        match self.slots[index].state {
            State::Pending => self.slots[index].abandoned = true,
            State::Arrived | State::Lost | State::Free => {
                self.slots[index].state = State::Free;
                self.watched &= !(1 << index);
            }
        }
    }

    /// Returns the number of calls that have not ended.
    pub fn pending(&self) -> usize {
        self.slots.iter().filter(|slot| slot.state == State::Pending).count()
    }

    /// Returns the peer's epoch while it lives.
    pub fn peer(&self) -> Option<Epoch> {
        self.peer
    }

    /// Returns whether the peer has taken everything that was sent. If that takes long, ring again:
    /// an edge is lost while the peer's interrupt controller is being set up.
    pub fn is_drained(&self, wires: &LinkPair<impl Words>) -> bool {
        self.rings.iter().all(|ring| ring.is_drained(wires))
    }

    fn push(
        &mut self,
        wires: &LinkPair<impl Words>,
        class: Class,
        header: Header,
        payload: Payload<'_>,
    ) -> Result<(), CallError> {
        let pushed = self.rings[class as usize].push(wires, header, payload);
        pushed.map_err(|error| self.explain(error))
    }

    fn check_room(
        &mut self,
        wires: &LinkPair<impl Words>,
        class: Class,
        bytes: usize,
    ) -> Result<(), CallError> {
        self.peer.ok_or(CallError::PeerLost)?;
        let ring = &mut self.rings[class as usize];
        let room = match class {
            Class::Stream => ring.has_room_or_stalls(wires, bytes),
            Class::Urgent | Class::Blockable => ring.has_room(wires, bytes),
        };
        room.map_err(|error| self.explain(error))
    }

    fn explain(&mut self, error: PushError) -> CallError {
        match error {
            PushError::TooLarge => CallError::TooLarge,
            PushError::Full => CallError::Busy(Busy::RingFull),
            PushError::NoSession => CallError::Busy(Busy::NoSession),
            PushError::Fault(_) => {
                self.end();
                CallError::PeerLost
            }
        }
    }

    fn find(&self, call: CallId) -> Option<usize> {
        let index = call.slot as usize;
        let slot = self.slots.get(index)?;
        let same = slot.sequence == call.sequence && slot.epoch == call.epoch;
        (same && slot.state != State::Free).then_some(index)
    }

    /// Returns whether the slot's done word names this call of this session.
    fn has_reply(&self, wires: &LinkPair<impl Words>, index: usize) -> bool {
        let slot = &self.slots[index];
        let done = wires.theirs.load(self.layout.reply_header(index) + msg::REPLY_DONE);
        done == msg::pack_session(slot.epoch.0, self.me.0, slot.sequence)
    }

    fn read_reply(
        &self,
        wires: &LinkPair<impl Words>,
        index: usize,
        buffer: &mut [u8],
    ) -> Result<usize, CallError> {
        // The load of the done word comes before the loads of what that word publishes.
        wires.mine.barrier();
        let word = wires.theirs.load(self.layout.reply_header(index) + msg::REPLY_STATUS);
        let (bytes, status) = msg::unpack_status(word);
        if status != msg::status::OK {
            return Err(CallError::Refused(Refusal::from_code(status)));
        }
        let bytes = bytes as usize;
        if bytes > self.layout.reply_bytes as usize || bytes > buffer.len() {
            return Err(CallError::TooLarge);
        }
        load_bytes(&wires.theirs, self.layout.reply_payload(index), &mut buffer[..bytes]);
        Ok(bytes)
    }
}

/// Returns the reply slots of a class and level, or `None` if the level does not exist. Streams
/// have none.
pub(crate) fn slots_of(
    layout: &Layout,
    class: Class,
    level: Level,
) -> Option<core::ops::Range<usize>> {
    let urgent = layout.urgent_replies as usize;
    match class {
        Class::Stream => None,
        Class::Urgent => Some(0..urgent),
        Class::Blockable => {
            let deep = layout.level_replies.get(..level.0 as usize)?;
            let own = *layout.level_replies.get(level.0 as usize)? as usize;
            let start = urgent + deep.iter().map(|n| *n as usize).sum::<usize>();
            Some(start..start + own)
        }
    }
}
