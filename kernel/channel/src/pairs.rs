//! Calls between two ends of one kernel, one of which waits: with one look at both.
//!
//! ```text
//!   both are quiet, open, empty --find--> paired --anything else happens to one--> not paired
//! ```
//! Contract: two ends of a channel are paired as long as nothing but this module has changed either
//! since both were found to be held here, quiet ([`End::is_quiet`]) and open, with no message
//! between them. [`Table::get_mut`](crate::table::Table::get_mut) ends that, so whatever else
//! happens to an end need not know of pairs. [`Paired::call`] does what [`Channels::send`],
//! [`Channels::receive`] at the other end and [`Channels::begin_poll`] at this one do.

use crate::channels::Channels;
use crate::end::{End, Place};
use crate::message::Record;
use crate::name::{ContractId, EndId, Life, Side};
use crate::permit;

/// Two paired ends, the second of which a program waits for.
pub struct Paired<'a, B> {
    sender: &'a mut End<B>,
    receiver: &'a mut End<B>,
    /// The slot of the receiver.
    index: u16,
}

impl<B> Channels<B> {
    /// Returns an end and its peer, if they are paired, or can be and `takes` says that a program
    /// takes a message at the peer; and a program waits there.
    #[inline]
    pub fn paired(
        &mut self,
        end: EndId,
        takes: impl FnOnce(EndId) -> bool,
    ) -> Option<Paired<'_, B>> {
        let index = match self.table.pair(end.index) {
            Some(index) => index,
            None if self.table.get(end.index)?.record.peer.at != self.peers.me => return None,
            None => self.find_pair(end, takes)?,
        };
        let (sender, receiver) = self.table.both(end.index, index)?;
        let is_it = sender.generation == end.generation && receiver.is_watched;
        is_it.then_some(Paired { sender, receiver, index })
    }

    /// Pairs an end with its peer. Returns the slot of that.
    #[inline(never)]
    fn find_pair(&mut self, end: EndId, takes: impl FnOnce(EndId) -> bool) -> Option<u16> {
        let index = self.table.held(end)?;
        let me = self.peers.me;
        let peer = self.table.find_peer(index)?;
        let is_waited_for = self.table.get(peer)?.is_watched && takes(self.table.id(peer)?);
        if !is_waited_for || !self.does_wake() {
            return None;
        }
        self.table.find_peer(peer)?;
        let (one, other) = (self.table.get(index)?, self.table.get(peer)?);
        let may_pair = one.is_next_at(other, me) && other.is_next_at(one, me);
        may_pair.then(|| {
            self.table.set_pair([index, peer]);
            peer
        })
    }
}

impl<B> End<B> {
    /// Returns whether it is held here, and the next thing that its peer receives is the next
    /// message of this end.
    pub fn is_next_at(&self, peer: &End<B>, here: Life) -> bool {
        let is_open = matches!(self.place, Place::Held { .. }) && self.record.peer.closed.is_none();
        let is_next = peer.queue.is_empty() && peer.record.read == self.record.sent;
        is_open && self.is_quiet(here) && is_next && peer.bound() > 0
    }
}

impl<B> Paired<'_, B> {
    /// Returns the end that a program waits for.
    #[inline]
    pub fn receiver(&self) -> EndId {
        EndId { index: self.index, generation: self.receiver.generation }
    }

    /// Does what [`Settled::next`](crate::Settled::next) does.
    #[inline]
    pub fn next(
        &mut self,
        message: (u16, u32),
        ask: impl FnOnce(ContractId, u16, Side) -> Option<u16>,
    ) -> Option<u16> {
        self.sender.permit(message, ask)
    }

    /// The same for a message with a block of so many bytes.
    #[inline]
    pub fn next_with_block(
        &mut self,
        (tag, bytes): (u16, u32),
        block: usize,
        ask: impl FnOnce(ContractId, u16, Side) -> Option<u16>,
    ) -> Option<u16> {
        match permit::size_with_block(bytes, block) {
            Some(size) => self.sender.permit_sized((tag, size), bytes, ask),
            None => {
                let Record { contract, state, name, .. } = &self.sender.record;
                ask(*contract, *state, name.side)
            }
        }
    }

    /// Sends a message, after which the contract has this state, receives it at the other end, and
    /// waits for one at this end. The caller gives it to a program that waits there, and wakes it.
    #[inline]
    pub fn call(self, state: u16, bytes: u32) {
        let sequence = self.sender.count_sent(state, bytes);
        self.receiver.count_given(sequence, state);
        self.sender.is_watched = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::Bounds;
    use crate::channels::Limits;
    use crate::proof::Nothing;
    use base::id::{DomainId, Epoch};

    /// A table with two channels, and the ends of each. A program waits for each second end.
    fn channels() -> (Channels<u32>, [[EndId; 2]; 2]) {
        let life = Life { kernel: DomainId(0), epoch: Epoch(1) };
        let mut channels = Channels::new(life, Limits { ends: 4, queue: 2, arrivals: 0 });
        let bounds = Bounds { messages: [2, 2], bytes: 8, level: 0 };
        let ends = [7, 8].map(|contract| {
            let ends = channels.create(ContractId([contract; 2]), 0, bounds, 1);
            ends.expect("there is room")
        });
        assert!(ends.iter().all(|[_, second]| channels.begin_poll(*second) == Ok(false)));
        (channels, ends)
    }

    /// Makes a call of 4 bytes, after which the contract has this state. Returns whether it was
    /// asked.
    fn call(channels: &mut Channels<u32>, from: EndId, to: EndId, state: u16) -> Option<bool> {
        let mut is_asked = false;
        let mut pair = channels.paired(from, |_| true)?;
        assert_eq!(pair.receiver(), to);
        let next = pair.next((5, 4), |_, _, _| {
            is_asked = true;
            Some(state)
        })?;
        pair.call(next, 4);
        Some(is_asked)
    }

    #[test]
    fn a_pair_calls_to_and_fro() {
        let (mut channels, [[one, other], [third, fourth]]) = channels();
        assert_eq!(call(&mut channels, one, other, 3), Some(true));
        assert_eq!(call(&mut channels, one, other, 3), None, "nothing waits there");
        assert_eq!(call(&mut channels, other, one, 0), Some(true));
        assert_eq!(call(&mut channels, one, other, 9), Some(false), "in state 0, to state 3");
        assert_eq!(channels.about(other).map(|it| it.state), Ok(3));
        assert_eq!(call(&mut channels, third, fourth, 1), Some(true));
        assert_eq!(call(&mut channels, other, one, 9), Some(false), "each pair is its own");
    }

    #[test]
    fn a_contract_is_asked_for_each_other_message() {
        let (mut channels, [[one, _], _]) = channels();
        assert!(channels.paired(one, |_| false).is_none());
        let mut pair = channels.paired(one, |_| true).expect("one waits");
        let mut next = |message, answer| pair.next(message, |_, _, _| answer);
        assert_eq!(next((5, 8), Some(1)), Some(1));
        assert_eq!(next((5, 8), None), Some(1));
        assert_eq!((next((5, 7), None), next((6, 8), None)), (None, None));
        assert_eq!(next((5, 9), Some(1)), None, "that is too long");
        assert_eq!(next((5, u32::MAX), Some(1)), None);
    }

    #[test]
    fn the_contract_is_asked_for_each_other_holder() {
        let (mut channels, [[one, other], _]) = channels();
        let asks = |channels: &mut Channels<u32>| {
            assert_eq!(call(channels, one, other, 0), Some(true));
            assert_eq!(call(channels, other, one, 0), Some(true));
            assert_eq!(call(channels, one, other, 0), Some(false));
            assert_eq!(call(channels, other, one, 0), Some(false));
        };
        asks(&mut channels);
        channels.dup(one).expect("it is open");
        channels.dup(other).expect("it is open");
        assert_eq!(call(&mut channels, one, other, 0), Some(true));
        assert_eq!(call(&mut channels, other, one, 0), Some(true), "there are two holders");
        assert_eq!(call(&mut channels, one, other, 0), Some(true));
        assert_eq!(call(&mut channels, other, one, 0), Some(true));
        channels.close(one, &mut Nothing).expect("it is open");
        channels.close(other, &mut Nothing).expect("it is open");
        asks(&mut channels);
    }

    #[test]
    fn what_happens_to_an_end_of_a_pair_ends_it() {
        let (start, [[one, other], _]) = channels();
        let pair = |channels: &mut Channels<u32>| {
            assert_eq!(call(channels, one, other, 3), Some(true));
            assert_eq!(call(channels, other, one, 0), Some(true));
            assert!(channels.table.pair(one.index).is_some());
        };
        type Step = fn(&mut Channels<u32>, EndId);
        let steps: [Step; 4] = [
            |channels, end| channels.close(end, &mut Nothing).expect("it is open"),
            |channels, end| channels.dup(end).expect("it is open"),
            |channels, end| channels.finish_poll(end).expect("it is open"),
            |channels, end| {
                let sent = channels.quiet(end).map(|it| it.send((1, 1), 1, 1));
                assert!(sent.is_some());
            },
        ];
        for (step, end) in steps.into_iter().flat_map(|step| [(step, one), (step, other)]) {
            let mut channels = start.clone();
            pair(&mut channels);
            step(&mut channels, end);
            assert!(channels.table.pair(one.index).is_none());
            assert!(channels.table.pair(other.index).is_none());
        }
    }
}
