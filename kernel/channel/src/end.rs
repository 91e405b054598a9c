//! One end in the table: what travels with it ([`Record`]), its queues, and what is to be said.
//!
//! ```text
//!   create, receive      send                     transmit to another kernel
//!  --------------> Held ------> Carried (in one queue) ----------------> Away (a stand-in)
//!                   | ^------------+  |                                   |         |
//!    last close     |    receive      | queue discarded     Retire, death |         | it comes
//!                   v                 v                                   v         v back
//!                 Closed <------------+-------------------------------- Closed    Carried
//!                   |
//!                   v all said: the slot is free
//! ```

use alloc::collections::VecDeque;
use base::id::DomainId;

use crate::bounds::CARRIED;
use crate::message::{News, Record, Status};
use crate::name::{ContractId, EndName, Life, Lives, Side};
use crate::permit::Permit;

/// Where an end is, as this kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Descriptors of programs refer to it.
    Held { descriptors: u16 },
    /// It is in one entry of one queue of this table.
    Carried,
    /// It waits for the ring to this kernel, where a new program gets it.
    Handed { to: Life, ticket: u64 },
    /// It has moved to this kernel, perhaps further. The stand-in passes on what still arrives.
    Away(Life),
    /// It is gone; something is still to be said.
    Closed,
}

/// A message in a queue. The ends that it carries are in the table, in [`Place::Carried`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry<B> {
    pub sequence: u64,
    pub tag: u16,
    pub state: u16,
    pub payload: B,
    pub carried: [Slot; CARRIED],
    /// A kernel on which room is reserved for the ends.
    pub room: Option<Life>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    Nothing,
    Lost,
    End(u16),
}

impl<B> Entry<B> {
    pub fn ends(&self) -> u16 {
        self.carried.iter().filter(|slot| matches!(slot, Slot::End(_))).count() as u16
    }
}

/// What is remembered to find something in fewer steps. It is no part of what an end is: all hints
/// are equal.
#[derive(Clone, Copy, Debug)]
pub struct Hint<T>(pub T);

impl<T> PartialEq for Hint<T> {
    fn eq(&self, _: &Hint<T>) -> bool {
        true
    }
}

impl<T> Eq for Hint<T> {}

impl<T> core::hash::Hash for Hint<T> {
    fn hash<H: core::hash::Hasher>(&self, _: &mut H) {}
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct End<B> {
    pub generation: u32,
    pub place: Place,
    pub record: Record,
    /// The owner that is charged for the slot; 0: none.
    pub owner: u32,
    /// Bytes that it has sent from this kernel.
    pub bytes: u64,
    /// A program waits for it.
    pub is_watched: bool,
    /// The slot in which its peer was, if that is here.
    pub twin: Hint<u16>,
    /// The same number in both ends of a pair ([`crate::pairs`]), and in no others; 0: it is in
    /// none.
    pub pair: Hint<u64>,
    pub permit: Hint<Permit>,
    /// Messages to this end: unread ones, or (Away) those to be passed on. Sorted.
    pub queue: VecDeque<Entry<B>>,
    /// Messages to the peer that wait for the ring to its kernel.
    pub outgoing: VecDeque<Entry<B>>,
    /// News of this end waits to be sent to the peer.
    pub has_news: bool,
    /// The News of an end that is closed or broken, also in its stand-ins once they are retired.
    pub last: Option<News>,
    /// Kernels that still have to retire their stand-ins of this end.
    pub to_retire: Lives,
    /// News to be passed on to this end, which is away.
    pub relay: Option<News>,
    /// Kernels whose ready list has this end, a bit each.
    pub listed: u8,
}

impl<B> End<B> {
    pub fn is_live(&self) -> bool {
        matches!(self.place, Place::Held { .. } | Place::Handed { .. } | Place::Carried)
    }

    /// Returns whether it is here, its peer too (as far as it knows), no move is unsettled, and
    /// nothing waits to be said.
    pub fn is_quiet(&self, here: Life) -> bool {
        self.record.peer.at == here && self.is_settled()
    }

    /// Returns whether no move of this end or of its peer is under way, and it has nothing to say.
    #[inline]
    pub fn is_settled(&self) -> bool {
        let Record { trail, peer, .. } = &self.record;
        matches!(self.place, Place::Held { .. } | Place::Carried)
            && !self.has_news
            && self.outgoing.is_empty()
            && trail.is_empty()
            && peer.awaited.is_empty()
            && self.to_retire.is_empty()
            && self.relay.is_none()
    }

    pub fn name(&self) -> EndName {
        self.record.name
    }

    /// Bound on the messages to this end.
    pub fn bound(&self) -> usize {
        self.record.bounds.messages[self.record.name.side.index()].into()
    }

    /// Messages to this end without a gap, read ones included.
    pub fn received(&self) -> u64 {
        let mut next = self.record.read;
        for entry in &self.queue {
            if entry.sequence != next {
                break;
            }
            next = next.saturating_add(1);
        }
        next
    }

    /// Returns the state of the contract after a message of this end with this tag and so many
    /// bytes, if it may send it. `ask` is called unless that is known: with the contract, the state
    /// and the side.
    #[inline]
    pub fn permit(
        &mut self,
        message @ (_, bytes): (u16, u32),
        ask: impl FnOnce(ContractId, u16, Side) -> Option<u16>,
    ) -> Option<u16> {
        self.permit_sized(message, bytes, ask)
    }

    /// The same for a message of so many bytes with this size, which says more than that.
    #[inline]
    pub fn permit_sized(
        &mut self,
        message: (u16, u32),
        bytes: u32,
        ask: impl FnOnce(ContractId, u16, Side) -> Option<u16>,
    ) -> Option<u16> {
        let Record { contract, state, name, bounds, .. } = &self.record;
        if let Some(next) = self.permit.0.next(*state, message) {
            return Some(next);
        }
        let next = ask(*contract, *state, name.side).filter(|_| bytes <= bounds.bytes)?;
        if self.place == (Place::Held { descriptors: 1 }) {
            self.permit = Hint(Permit::new(*state, message, next));
        }
        Some(next)
    }

    /// Forgets what its contract has allowed: the next sender may be another program.
    pub fn forget_permit(&mut self) {
        self.permit = Hint(Permit::NONE);
    }

    /// Counts a message that its holder has sent, after which the contract has this state. Returns
    /// its number.
    #[inline(always)]
    pub fn count_sent(&mut self, state: u16, bytes: u32) -> u64 {
        let sequence = self.record.sent;
        (self.record.sent, self.record.state) = (sequence.saturating_add(1), state);
        self.bytes = self.bytes.wrapping_add(bytes.into());
        sequence
    }

    /// Counts a message as received that does not pass the queue. The caller gives it to a program
    /// that waits, which is woken.
    #[inline(always)]
    pub fn count_given(&mut self, sequence: u64, state: u16) {
        (self.record.read, self.record.state) = (sequence.saturating_add(1), state);
        self.is_watched = false;
    }

    /// Returns whether the holder can receive a message now.
    pub fn is_readable(&self) -> bool {
        self.queue.front().is_some_and(|entry| entry.sequence == self.record.read)
    }

    /// Returns whether the holder has received all that it ever will.
    pub fn is_finished(&self) -> bool {
        self.record.peer.closed.is_some_and(|count| self.record.read >= count)
    }

    /// Returns whether a receive would return something else than that it is empty.
    pub fn has_news(&self) -> bool {
        self.is_readable() || self.is_finished()
    }

    /// Returns whether nothing is missing of what the peer sent before it was closed.
    pub fn is_complete(&self) -> bool {
        self.record.peer.closed.is_some_and(|count| self.received() >= count)
    }

    pub fn status(&self) -> Status {
        match self.place {
            _ if self.record.is_broken => Status::Broken,
            Place::Closed => Status::Closed(self.record.sent),
            _ => Status::Open,
        }
    }

    /// Composes the next edition of the news. `at`: this kernel.
    pub fn next_news(&mut self, at: Life) -> News {
        let status = self.status();
        let record = &mut self.record;
        record.edition = record.edition.saturating_add(1);
        News {
            edition: record.edition,
            at,
            moves: record.moves,
            before: record.before,
            trail: record.trail,
            status,
            heard: record.peer.moves,
            switched: record.peer.switched,
            has_all: record.peer.awaited.is_empty(),
        }
    }

    /// The stand-ins of this end are no longer needed.
    pub fn retire_trail(&mut self) {
        let trail = core::mem::replace(&mut self.record.trail, Lives::NONE);
        trail.iter().for_each(|life| self.to_retire.add(life));
    }

    /// Returns whether a message with this number may still be received, here or elsewhere.
    pub fn may_accept(&self, sequence: u64) -> bool {
        let record = &self.record;
        let is_new = record.read <= sequence;
        match self.place {
            Place::Closed => false,
            Place::Away(_) => is_new,
            _ => is_new && record.peer.closed.is_none_or(|count| sequence < count),
        }
    }

    /// Puts an entry in its place in the queue. Returns it if its number is there already.
    pub fn insert(&mut self, entry: Entry<B>) -> Result<(), Entry<B>> {
        if self.queue.back().is_none_or(|last| last.sequence < entry.sequence) {
            self.queue.push_back(entry);
            return Ok(());
        }
        let at = self.queue.partition_point(|it| it.sequence < entry.sequence);
        if self.queue.get(at).is_some_and(|it| it.sequence == entry.sequence) {
            return Err(entry);
        }
        self.queue.insert(at, entry);
        Ok(())
    }

    /// Returns whether the stand-ins of this end have no more to pass on: the peer sends here, what
    /// it sent elsewhere has arrived, and so has what this end sent from elsewhere.
    pub fn may_retire(&self) -> bool {
        let record = &self.record;
        let peer = &record.peer;
        let is_settled =
            peer.heard >= record.moves && self.received() >= peer.heard_switched && peer.heard_all;
        is_settled || self.is_complete()
    }

    /// Returns whether there is something to send to this kernel.
    pub fn has_message_for(&self, kernel: Life) -> bool {
        let is_peer = self.record.peer.at == kernel;
        let to_peer = self.has_news || !self.outgoing.is_empty();
        let relays = self.relay.is_some() || !self.queue.is_empty();
        let is_handed = matches!(self.place, Place::Handed { to, .. } if to == kernel);
        self.to_retire.contains(kernel)
            || is_handed
            || is_peer && to_peer
            || self.place == Place::Away(kernel) && relays
    }

    /// Returns whether a closed end has nothing more to say.
    pub fn is_done(&self) -> bool {
        let is_silent = !self.has_news && self.to_retire.is_empty() && self.outgoing.is_empty();
        self.place == Place::Closed && is_silent
    }

    pub fn is_listed(&self, kernel: DomainId) -> bool {
        self.listed & 1 << kernel.0 != 0
    }
}
