//! Messages between two quiet ends of one kernel: as most are, with one look at each end.
//!
//! Contract: the same as [`Channels::send`] and [`Channels::receive`], which come here first. An
//! end is quiet if its peer is here too, no move is unsettled, and it has nothing to say
//! ([`End::is_quiet`]). Between two such ends nothing is under way, so a message is the next one in
//! the queue of the peer, and nothing follows from it but a wake.

use crate::bounds::CARRIED;
use crate::channels::Channels;
use crate::end::{End, Entry, Slot};
use crate::name::{ContractId, EndId, Side};

/// An end whose next message, if it carries no ends, goes into the queue of its peer.
pub struct Quiet<'a, B> {
    channels: &'a mut Channels<B>,
    index: u16,
    peer: u16,
    /// State of the contract.
    pub state: u16,
    pub side: Side,
    /// The most bytes of a message.
    pub bytes: u32,
}

/// A message that was received.
pub struct Taken<B> {
    pub tag: u16,
    pub payload: B,
    /// The caller wakes the programs that wait for the end: there is more.
    pub wakes: bool,
}

impl<B> Channels<B> {
    /// Returns an end if it and its peer are quiet and there is room for a message.
    #[inline]
    pub fn quiet(&mut self, end: EndId) -> Option<Quiet<'_, B>> {
        let me = self.peers.me;
        let index = self.table.held(end)?;
        let sender = self.table.get(index).filter(|end| end.is_quiet(me))?;
        let (sent, record) = (sender.record.sent, &sender.record);
        let (state, side) = (record.state, record.name.side);
        let (bytes, is_closed) = (record.bounds.bytes, record.peer.closed.is_some());
        let peer = self.table.find_peer(index)?;
        let receiver = self.table.get(peer)?;
        let is_next = receiver.is_quiet(me) && receiver.next_number() == sent;
        let has_room = receiver.queue.len() < receiver.bound();
        (is_next && has_room && !is_closed && receiver.may_accept(sent)).then_some(Quiet {
            channels: self,
            index,
            peer,
            state,
            side,
            bytes,
        })
    }

    /// Receives the next message if the end is settled, the message carries no ends and `accept`
    /// takes its payload. Otherwise nothing has changed. Where the peer is makes no difference.
    #[inline]
    pub fn receive_quiet(
        &mut self,
        end: EndId,
        accept: impl FnOnce(&B) -> bool,
    ) -> Option<Taken<B>> {
        let does_wake = self.does_wake();
        let index = self.table.held(end)?;
        let end = self.table.get_mut(index).filter(|end| end.is_settled())?;
        let read = end.record.read;
        let is_plain = |entry: &Entry<B>| entry.carried == [Slot::Nothing; CARRIED];
        let is_next = |entry: &mut Entry<B>| {
            entry.sequence == read && is_plain(entry) && accept(&entry.payload)
        };
        let Entry { tag, payload, state, .. } = end.queue.pop_front_if(is_next)?;
        (end.record.read, end.record.state) = (read.saturating_add(1), state);
        let is_ready = end.is_watched && end.has_news();
        end.is_watched &= !(is_ready && does_wake);
        Some(Taken { tag, payload, wakes: is_ready && does_wake })
    }
}

impl<B> Quiet<'_, B> {
    /// Does what [`Settled::next`](crate::Settled::next) does.
    #[inline]
    pub fn next(
        &mut self,
        message: (u16, u32),
        ask: impl FnOnce(ContractId, u16, Side) -> Option<u16>,
    ) -> Option<u16> {
        self.channels.table.get_mut(self.index)?.permit(message, ask)
    }

    /// Sends a message, after which the contract has this state. Returns the end of the receiver if
    /// programs wait for it, which the caller wakes.
    #[inline(always)]
    #[must_use = "programs wait"]
    pub fn send(self, (tag, state): (u16, u16), bytes: u32, payload: B) -> Option<EndId> {
        let sequence = self.channels.table.get_mut(self.index)?.count_sent(state, bytes);
        let does_wake = self.channels.does_wake();
        let carried = [Slot::Nothing; CARRIED];
        let receiver = self.channels.table.get_mut(self.peer)?;
        receiver.queue.push_back(Entry { sequence, tag, state, payload, carried, room: None });
        let wakes = receiver.is_watched && does_wake;
        receiver.is_watched &= !wakes;
        wakes.then_some(EndId { index: self.peer, generation: receiver.generation })
    }
}

impl<B> End<B> {
    /// Returns the number of the message after the last one in the queue.
    #[inline]
    fn next_number(&self) -> u64 {
        self.queue.back().map_or(self.record.read, |last| last.sequence.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::Bounds;
    use crate::channels::Limits;
    use crate::name::Life;
    use base::id::{DomainId, Epoch};

    /// A table with a channel on which one message was exchanged, and its ends.
    fn channels() -> (Channels<u32>, [EndId; 2]) {
        let life = Life { kernel: DomainId(0), epoch: Epoch(1) };
        let mut channels = Channels::new(life, Limits { ends: 4, queue: 2, arrivals: 0 });
        let bounds = Bounds { messages: [2, 2], bytes: 8, level: 0 };
        let ends = channels.create(ContractId([7; 2]), 0, bounds, 1).expect("there is room");
        let quiet = channels.quiet(ends[0]).expect("both are quiet");
        assert_eq!(quiet.send((1, 1), 8, 5), None);
        let taken = channels.receive_quiet(ends[1], |payload| *payload == 5).expect("it is there");
        assert_eq!((taken.tag, taken.payload, taken.wakes), (1, 5, false));
        (channels, ends)
    }

    #[test]
    fn a_full_queue_takes_no_message() {
        let (mut channels, [from, to]) = channels();
        assert_eq!(channels.begin_poll(to), Ok(false));
        let quiet = channels.quiet(from).expect("both are quiet");
        assert_eq!(quiet.send((2, 3), 4, 6), Some(to));
        assert_eq!(channels.quiet(from).map(|it| it.send((2, 3), 4, 6)), Some(None));
        assert!(channels.quiet(from).is_none(), "the queue is full");
        assert!(channels.receive_quiet(to, |_| false).is_none());
        assert!(channels.receive_quiet(to, |_| true).is_some());
        assert!(channels.quiet(from).is_some());
    }
}
