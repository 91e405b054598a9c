//! The table's side of the links to other kernels: what arrives, and what is to be sent.

use base::id::DomainId;

use crate::channels::{Channels, Effects};
use crate::end::Place;
use crate::message::{Message, News, PeerFault};
use crate::name::{EndName, Life};
#[cfg(test)]
use crate::proof::Mutant;

impl<B> Channels<B> {
    /// Handles a message. On a fault, the caller reports the sender's life as dead.
    pub fn handle(
        &mut self,
        from: Life,
        message: Message<B>,
        effects: &mut dyn Effects<B>,
    ) -> Result<(), PeerFault> {
        if self.peers.session(from.kernel) != Some(from) {
            if let Message::Data { data, .. } = message {
                effects.free(data.payload);
            }
            return Err(PeerFault::Stranger);
        }
        let result = match message {
            Message::Data { to, data } => self.import(from, to, data, effects),
            Message::Hand { record, ticket } => self.take_over(from, record, ticket, effects),
            Message::News { to, news } => {
                self.deliver_news(to, news, effects);
                Ok(())
            }
            Message::Retire { end, moves, last } => {
                self.retire(end, moves, last, effects);
                Ok(())
            }
            Message::Room { ends } => {
                self.peers.return_room(from, ends);
                Ok(())
            }
        };
        self.grant();
        result
    }

    fn retire(
        &mut self,
        name: EndName,
        moves: u32,
        last: Option<News>,
        effects: &mut dyn Effects<B>,
    ) {
        #[cfg(test)]
        let last = last.filter(|_| !self.is_mutant(Mutant::SilentRetire));
        let Some(index) = self.table.find(name) else { return };
        let Some(end) = self.table.get_mut(index) else { return };
        if matches!(end.place, Place::Away(_)) && end.record.moves <= moves {
            (end.place, end.relay) = (Place::Closed, None);
            (end.last, end.has_news) = (last, last.is_some());
            // The stand-ins that lead here notice the death of this kernel only. If the end's
            // kernel died with their Retire unsent, they would stay for ever.
            end.retire_trail();
            #[cfg(test)]
            self.keep_trail(index);
            self.drop_queue(index, effects);
            self.settle(index, effects);
        }
    }

    /// Returns whether [`Channels::next`] may have something for this kernel.
    pub fn has_next(&self, kernel: DomainId) -> bool {
        let Some(life) = self.peers.session(kernel) else { return false };
        self.peers.owes(life) || !self.ready[kernel.index()].is_empty()
    }

    /// Returns the next message to this kernel. The caller has room for it in the ring: there is no
    /// way back.
    pub fn next(&mut self, kernel: DomainId, effects: &mut dyn Effects<B>) -> Option<Message<B>> {
        let life = self.peers.session(kernel)?;
        let granted = self.peers.kernel(life).map(|it| core::mem::take(&mut it.unreported));
        if let Some(ends) = granted.filter(|ends| *ends > 0) {
            return Some(Message::Room { ends });
        }
        while let Some(index) = self.ready[kernel.index()].pop_front() {
            if let Some(end) = self.table.get_mut(index) {
                end.listed &= !(1 << kernel.0);
            }
            let message = self.take_message(index, life, effects);
            self.list(index);
            self.free_if_done(index);
            if message.is_some() {
                self.grant();
                return message;
            }
        }
        None
    }

    /// Takes the next message that an end has for a kernel.
    fn take_message(
        &mut self,
        index: u16,
        to: Life,
        effects: &mut dyn Effects<B>,
    ) -> Option<Message<B>> {
        let end = self.table.get_mut(index)?;
        let (name, moves) = (end.name(), end.record.moves);
        if end.to_retire.contains(to) {
            end.to_retire.remove(to);
            return Some(Message::Retire { end: name, moves, last: end.last });
        }
        if let Place::Handed { to: target, ticket } = end.place
            && target == to
        {
            return self.depart(index, to).map(|record| Message::Hand { record, ticket });
        }
        if end.place == Place::Away(to) {
            if let Some(news) = end.relay.take() {
                return Some(Message::News { to: name, news });
            }
            if let Some(entry) = end.queue.pop_front() {
                return Some(Message::Data { to: name, data: self.export(entry, to, effects) });
            }
        }
        if end.record.peer.at != to {
            return None;
        }
        let peer = name.peer();
        if let Some(entry) = end.outgoing.pop_front() {
            return Some(Message::Data { to: peer, data: self.export(entry, to, effects) });
        }
        if core::mem::take(&mut end.has_news) {
            return self.news(index).map(|news| Message::News { to: peer, news });
        }
        None
    }
}
