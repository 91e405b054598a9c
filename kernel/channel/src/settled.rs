//! Messages between two ends on different kernels: as most are, with one look at each end.
//!
//! Contract: [`Settled::send`] does what [`Channels::send`] and [`Channels::next`] do;
//! [`Arrival::deliver`] does what [`Channels::handle`] and [`Channels::receive`] do. An end is
//! settled if no move is under way, and it has nothing to say ([`End::is_settled`]). If nothing
//! else waits for the ring to the peer's kernel, a message of such an end is the next one there,
//! and nothing follows from it on either side but a wake.

use crate::channels::Channels;
use crate::end::{End, Place};
use crate::name::{ContractId, EndId, EndName, Life, Side};
use crate::wire::Plain;
use base::id::DomainId;

/// An end whose next message, if it carries no ends, is the next one to the kernel of its peer.
pub struct Settled<'a, B> {
    end: &'a mut End<B>,
    /// The kernel of the peer.
    pub to: DomainId,
}

/// An end for which programs wait, and to which the next message has come.
pub struct Arrival<'a, B> {
    end: &'a mut End<B>,
    pub id: EndId,
    /// The most bytes of a message.
    pub bytes: u32,
}

impl<B> Channels<B> {
    /// Returns an end if it is settled, its peer is open and on another kernel, and nothing else
    /// waits for the ring to there.
    #[inline]
    pub fn settled(&mut self, end: EndId) -> Option<Settled<'_, B>> {
        let index = self.table.held(end)?;
        let at = self.table.get(index)?.record.peer.at;
        // This kernel has no session with itself.
        if self.peers.session(at.kernel) != Some(at) || self.has_next(at.kernel) {
            return None;
        }
        let end = self.table.get_mut(index).filter(|end| end.is_settled())?;
        let record = &end.record;
        let may_send = record.bounds.messages[record.name.side.other().index()] > 0;
        let is_open = record.peer.closed.is_none() && may_send;
        is_open.then_some(Settled { end, to: at.kernel })
    }

    /// Returns the end to which another kernel has sent a message with this number, if programs
    /// wait for just that one.
    #[inline]
    pub fn arrival(&mut self, from: Life, to: EndName, sequence: u64) -> Option<Arrival<'_, B>> {
        let index = self.table.find(to)?;
        self.arrival_in(index, from, sequence)
    }

    /// The same, if `end` is the one with that name.
    #[inline]
    pub fn arrival_at(
        &mut self,
        end: EndId,
        from: Life,
        to: EndName,
        sequence: u64,
    ) -> Option<Arrival<'_, B>> {
        let index = self.table.held(end)?;
        let is_it = self.table.get(index)?.name() == to;
        if is_it { self.arrival_in(index, from, sequence) } else { None }
    }

    #[inline]
    fn arrival_in(&mut self, index: u16, from: Life, sequence: u64) -> Option<Arrival<'_, B>> {
        if self.peers.session(from.kernel) != Some(from) || !self.does_wake() {
            return None;
        }
        let id = self.table.id(index)?;
        let end = self.table.get_mut(index).filter(|end| end.is_settled() && end.is_watched)?;
        let is_held = matches!(end.place, Place::Held { .. }) && end.record.peer.at == from;
        let is_next = end.record.read == sequence && end.queue.is_empty() && end.bound() > 0;
        let bytes = end.record.bounds.bytes;
        (is_held && is_next && end.may_accept(sequence)).then_some(Arrival { end, id, bytes })
    }

    /// Returns whether the peer of an end is on another kernel, as far as this one knows.
    pub fn is_far(&self, end: EndId) -> bool {
        self.far_bytes(end).is_some()
    }

    /// Returns how many bytes a message may have, if the peer of an end is on another kernel.
    pub fn far_bytes(&self, end: EndId) -> Option<u32> {
        let end = self.table.held(end).and_then(|index| self.table.get(index));
        let end = end.filter(|end| end.record.peer.at.kernel != self.peers.me.kernel)?;
        Some(end.record.bounds.bytes)
    }
}

impl<B> Settled<'_, B> {
    /// Returns the state of the contract after a message with this tag and so many bytes, if the
    /// end may send it. `ask` is called unless that is known: with the contract, the state and the
    /// side.
    #[inline]
    pub fn next(
        &mut self,
        message: (u16, u32),
        ask: impl FnOnce(ContractId, u16, Side) -> Option<u16>,
    ) -> Option<u16> {
        self.end.permit(message, ask)
    }

    /// Returns the next message, after which the contract has this state.
    #[inline]
    pub fn message(&self, tag: u16, state: u16) -> Plain {
        let record = &self.end.record;
        Plain { to: record.name.peer(), sequence: record.sent, tag, state }
    }

    /// Counts the message that was sent, after which the contract has this state.
    #[inline]
    pub fn send(self, state: u16, bytes: u32) {
        self.end.count_sent(state, bytes);
    }
}

impl<B> Arrival<'_, B> {
    /// Counts the message as received. The caller gives it to a program that waits, and wakes that.
    #[inline]
    pub fn deliver(self, state: u16) {
        self.end.count_given(self.end.record.read, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::Bounds;
    use crate::channels::Limits;
    use crate::message::Message;
    use crate::proof::Nothing;
    use base::id::Epoch;

    const LIVES: [Life; 2] = [
        Life { kernel: DomainId(0), epoch: Epoch(3) },
        Life { kernel: DomainId(1), epoch: Epoch(5) },
    ];

    /// Delivers all messages between two tables.
    fn settle(tables: &mut [Channels<u32>; 2]) {
        for _ in 0..10 {
            for (from, to) in [(0, 1), (1, 0)] {
                while let Some(message) = tables[from].next(LIVES[to].kernel, &mut Nothing) {
                    tables[to].handle(LIVES[from], message, &mut Nothing).expect("no fault");
                }
            }
        }
    }

    /// Two kernels with an end each of one channel.
    fn two() -> ([Channels<u32>; 2], [EndId; 2]) {
        let limits = Limits { ends: 4, queue: 2, arrivals: 1 };
        let mut tables = LIVES.map(|life| Channels::new(life, limits));
        tables[0].kernel_started(LIVES[1], &mut Nothing);
        tables[1].kernel_started(LIVES[0], &mut Nothing);
        settle(&mut tables);
        let bounds = Bounds { messages: [1, 1], bytes: 8, level: 0 };
        let ends = tables[0].create(ContractId([7; 2]), 0, bounds, 1).expect("there is room");
        assert!(!tables[0].is_far(ends[0]) && tables[0].settled(ends[0]).is_none());
        tables[0].hand_over(ends[1], LIVES[1].kernel, 7, &mut Nothing).expect("there is room");
        assert!(tables[0].settled(ends[0]).is_none(), "the move is under way");
        settle(&mut tables);
        let index = (0..4).find(|index| tables[1].table.get(*index).is_some()).expect("arrived");
        let there = tables[1].table.id(index).expect("it is there");
        assert!(tables[0].is_far(ends[0]) && tables[1].is_far(there));
        (tables, [ends[0], there])
    }

    #[test]
    fn messages_of_settled_ends_go_to_the_program_that_waits() {
        let ([mut one, mut other], [here, there]) = two();
        for number in 0..3 {
            assert_eq!(other.begin_poll(there), Ok(false));
            let mut sender = one.settled(here).expect("the end is settled");
            assert_eq!(sender.to, LIVES[1].kernel);
            let next = sender.next((4, 8), |_, state, _| Some(state + 1));
            assert_eq!(next, Some(number + 1));
            let message = sender.message(4, number + 1);
            sender.send(number + 1, 8);
            let arrival = other.arrival(LIVES[0], message.to, message.sequence).expect("one waits");
            assert_eq!((arrival.id, arrival.bytes), (there, 8));
            arrival.deliver(message.state);
            assert!(other.arrival(LIVES[0], message.to, message.sequence).is_none(), "it is old");
        }
        assert_eq!(other.about(there).map(|it| it.state), Ok(3));
        settle(&mut [one, other]);
    }

    #[test]
    fn only_the_next_message_of_the_peer_is_delivered() {
        let ([mut one, mut other], [here, there]) = two();
        let message = one.settled(here).expect("the end is settled").message(4, 1);
        assert!(other.arrival(LIVES[0], message.to, 0).is_none(), "no program waits");
        assert_eq!(other.begin_poll(there), Ok(false));
        assert!(other.arrival(LIVES[0], message.to, 1).is_none(), "one is missing");
        let stranger = Life { epoch: Epoch(4), ..LIVES[0] };
        assert!(other.arrival(stranger, message.to, 0).is_none());
        assert!(other.arrival(LIVES[0], message.to.peer(), 0).is_none(), "it is not here");
        assert!(other.arrival(LIVES[0], message.to, 0).is_some());
        let mut at = |id, name| other.arrival_at(id, LIVES[0], name, 0).map(|it| it.id);
        assert_eq!(at(there, message.to), Some(there));
        assert_eq!(at(there, message.to.peer()), None, "another end is meant");
        assert_eq!(at(EndId { generation: there.generation + 1, ..there }, message.to), None);
        other.handle(LIVES[0], message.with(5), &mut Nothing).expect("no fault");
        assert_eq!(other.begin_poll(there), Ok(true));
        let next = crate::wire::Plain { sequence: 1, ..message };
        assert!(other.arrival(LIVES[0], next.to, 1).is_none(), "another one comes first");
    }

    #[test]
    fn what_waits_for_the_ring_goes_first() {
        let ([mut one, _], [here, _]) = two();
        let bounds = Bounds { messages: [1, 1], bytes: 8, level: 0 };
        let ends = one.create(ContractId([7; 2]), 0, bounds, 1).expect("there is room");
        assert!(one.settled(here).is_some());
        one.hand_over(ends[1], LIVES[1].kernel, 8, &mut Nothing).expect("there is room");
        assert!(one.has_next(LIVES[1].kernel) && one.settled(here).is_none());
        one.kernel_died(LIVES[1], &mut Nothing);
        assert!(one.settled(here).is_none(), "its peer is gone");
    }

    #[test]
    fn a_plain_message_is_its_words() {
        let ([mut one, _], [here, _]) = two();
        let message = one.settled(here).expect("the end is settled").message(u16::MAX, u16::MAX);
        let words = message.words().expect("it is one of the first");
        assert_eq!(words[0] as u16, 0, "these bits are the transport's");
        let transported = [words[0] | 0xffff, words[1], words[2], words[3]];
        assert_eq!(crate::wire::Plain::of_words(transported), Some(message));
        let late = crate::wire::Plain { sequence: 1 << 48, ..message };
        assert_eq!(late.words(), None);
        let with = |mask: u64, bits: u64| [(words[0] & !mask) | bits, words[1], words[2], words[3]];
        let no_kernel = with(0, 0xff << 16);
        let no_side = with(0xff << 24, 2 << 24);
        let no_epoch = with(0xffff << 32, 0);
        for words in [no_kernel, no_side, no_epoch] {
            assert_eq!(crate::wire::Plain::of_words(words), None);
        }
        let carried: Message<u32> = Message::Room { ends: 1 };
        assert_eq!(crate::wire::Plain::of(&carried), None);
    }
}
