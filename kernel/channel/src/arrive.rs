//! Messages and ends on their way: into queues, between kernels, and to nowhere.

use crate::bounds::MAX_LEVEL;
use crate::channels::{Channels, Effects};
use crate::end::{End, Entry, Place, Slot};
use crate::message::{Cargo, Data, PeerFault, Record};
use crate::name::{EndName, Life};
#[cfg(test)]
use crate::{name::Lives, proof::Mutant};

impl<B> Channels<B> {
    /// Puts a message to an end into its queue: to be received, or to be passed on.
    pub(crate) fn accept(
        &mut self,
        to: EndName,
        entry: Entry<B>,
        effects: &mut dyn Effects<B>,
    ) -> Result<(), PeerFault> {
        if let Some(index) = self.table.find(to) {
            return self.accept_at(index, entry, effects);
        }
        // Closed meanwhile.
        self.discard(entry, effects);
        Ok(())
    }

    /// The same for the end in a slot.
    pub(crate) fn accept_at(
        &mut self,
        index: u16,
        entry: Entry<B>,
        effects: &mut dyn Effects<B>,
    ) -> Result<(), PeerFault> {
        #[cfg(test)]
        let forgets = self.forgets_to_forward(index);
        let end = self.table.get_mut(index).filter(|end| end.may_accept(entry.sequence));
        #[cfg(test)]
        let end = end.filter(|_| !forgets);
        let Some(end) = end else {
            self.discard(entry, effects);
            return Ok(());
        };
        let room = end.bound().saturating_sub(end.queue.len());
        let is_early = entry.sequence - end.record.read >= end.bound() as u64;
        let refused = match room == 0 || end.is_live() && is_early {
            true => Some(entry),
            #[cfg(test)]
            false if self.mutant == Some(Mutant::AnyOrder) => {
                end.queue.push_back(entry);
                None
            }
            false => end.insert(entry).err(),
        };
        let result = match refused {
            None => Ok(()),
            Some(entry) => {
                self.discard(entry, effects);
                Err(PeerFault::Bound)
            }
        };
        self.settle(index, effects);
        result
    }

    /// Drops a message. The ends that it carries are closed.
    pub(crate) fn discard(&mut self, entry: Entry<B>, effects: &mut dyn Effects<B>) {
        let ends = entry.ends();
        #[cfg(test)]
        let ends = if self.is_mutant(Mutant::KeepRoom) { 0 } else { ends };
        if let Some(life) = entry.room {
            self.peers.return_room(life, ends);
        }
        for slot in entry.carried {
            #[cfg(test)]
            if self.is_mutant(Mutant::KeepCarried) {
                continue;
            }
            if let Slot::End(index) = slot {
                self.close_end(index, effects);
            }
        }
        effects.free(entry.payload);
    }

    pub(crate) fn drop_queue(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        while let Some(entry) = self.table.get_mut(index).and_then(|end| end.queue.pop_front()) {
            self.discard(entry, effects);
        }
    }

    pub(crate) fn drop_outgoing(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        while let Some(entry) = self.table.get_mut(index).and_then(|end| end.outgoing.pop_front()) {
            self.discard(entry, effects);
        }
    }

    /// Drops what is in the queue from this number on.
    pub(crate) fn drop_beyond(&mut self, index: u16, count: u64, effects: &mut dyn Effects<B>) {
        let last = |end: &mut End<B>| end.queue.pop_back_if(|it| it.sequence >= count);
        while let Some(entry) = self.table.get_mut(index).and_then(last) {
            self.discard(entry, effects);
        }
    }

    /// Closes an end that no program holds any more. The depth of the recursion (closed ends whose
    /// queues have ends) is that of levels, [`MAX_LEVEL`].
    pub(crate) fn close_end(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        self.wake(index, effects);
        let Some(end) = self.table.get_mut(index).filter(|end| end.is_live()) else { return };
        end.place = Place::Closed;
        end.generation = end.generation.wrapping_add(1);
        let is_gone = end.record.peer.is_gone;
        self.announce_last_news(index);
        #[cfg(test)]
        if let Some(end) = self.table.get_mut(index) {
            end.has_news &= self.mutant != Some(Mutant::SilentClose);
        }
        self.drop_queue(index, effects);
        if is_gone {
            self.drop_outgoing(index, effects);
        }
        self.settle(index, effects);
    }

    /// Makes a stand-in of an end that moves to another kernel, and returns what moves.
    pub(crate) fn depart(&mut self, index: u16, to: Life) -> Option<Record> {
        let me = self.peers.me;
        let end = self.table.get_mut(index)?;
        end.place = Place::Away(to);
        #[cfg(test)]
        if self.mutant == Some(Mutant::Copy) {
            end.place = Place::Carried;
        }
        end.has_news = false;
        end.record.moves = end.record.moves.saturating_add(1);
        let mut record = end.record;
        record.trail.add(me);
        record.before = record.sent;
        self.list(index);
        Some(record)
    }

    /// Makes a message for another kernel of an entry.
    pub(crate) fn export(
        &mut self,
        entry: Entry<B>,
        to: Life,
        effects: &mut dyn Effects<B>,
    ) -> Data<B> {
        let ends = entry.ends();
        let mut has_room = entry.room == Some(to);
        if !has_room {
            if let Some(life) = entry.room {
                self.peers.return_room(life, ends);
            }
            has_room = ends == 0 || self.peers.take_room(to, ends);
        }
        let carried = entry.carried.map(|slot| match slot {
            Slot::Nothing => Cargo::Nothing,
            Slot::Lost => Cargo::Lost,
            Slot::End(index) if has_room => self.depart(index, to).map_or(Cargo::Lost, Cargo::End),
            Slot::End(index) => {
                #[cfg(test)]
                self.crowded.extend(self.table.get(index).map(End::name));
                self.close_end(index, effects);
                Cargo::Lost
            }
        });
        let Entry { sequence, tag, state, payload, .. } = entry;
        Data { sequence, tag, state, payload, carried }
    }

    /// Takes a message from another kernel. `Err` if it is the kernel's fault; the message is
    /// dropped then.
    pub(crate) fn import(
        &mut self,
        from: Life,
        to: EndName,
        data: Data<B>,
        effects: &mut dyn Effects<B>,
    ) -> Result<(), PeerFault> {
        let target = self.table.find(to).and_then(|index| self.table.get(index));
        let level = target.map_or(MAX_LEVEL, |end| end.record.bounds.level);
        let owner = target.map_or(0, |end| end.owner);
        let mut is_fine = true;
        let carried = data.carried.map(|cargo| match cargo {
            Cargo::Nothing => Slot::Nothing,
            Cargo::Lost => Slot::Lost,
            Cargo::End(record) => {
                let index = self.arrive(from, record, level);
                let end = index.and_then(|index| self.table.get_mut(index));
                end.into_iter().for_each(|end| end.owner = owner);
                is_fine &= index.is_some();
                index.map_or(Slot::Lost, Slot::End)
            }
        });
        let Data { sequence, tag, state, payload, .. } = data;
        let entry = Entry { sequence, tag, state, payload, carried, room: None };
        let accepted = match is_fine {
            true => self.accept(to, entry, effects),
            false => {
                self.discard(entry, effects);
                Err(PeerFault::Arrival)
            }
        };
        for slot in carried {
            if let Slot::End(index) = slot {
                self.announce_arrival(index, effects);
            }
        }
        accepted
    }

    /// Takes an end for a program that starts here.
    pub(crate) fn take_over(
        &mut self,
        from: Life,
        record: Record,
        ticket: u64,
        effects: &mut dyn Effects<B>,
    ) -> Result<(), PeerFault> {
        let index = self.arrive(from, record, MAX_LEVEL + 1).ok_or(PeerFault::Arrival)?;
        if let Some(end) = self.table.get_mut(index) {
            (end.place, end.owner) = (Place::Held { descriptors: 1 }, 0);
        }
        self.announce_arrival(index, effects);
        if let Some(id) = self.table.id(index) {
            effects.arrived(ticket, id);
        }
        Ok(())
    }

    /// Puts an end that has moved here into the table, and says nothing yet.
    fn arrive(&mut self, from: Life, mut record: Record, level: u8) -> Option<u16> {
        let is_low = record.bounds.level < level;
        let is_bounded = record.bounds.messages.iter().all(|it| *it <= self.queue);
        if !is_low || !is_bounded || !self.peers.use_grant(from) {
            return None;
        }
        record.trail.remove_kernel(self.peers.me.kernel);
        let Some(index) = self.table.find(record.name) else {
            let index = self.table.add(record, Place::Carried)?;
            self.table.get_mut(index)?.has_news = true;
            return Some(index);
        };
        // Back again: its stand-in becomes the end.
        let end = self.table.get_mut(index)?;
        let known = (end.record.contract, end.record.bounds);
        if end.is_live() || known != (record.contract, record.bounds) {
            return None;
        }
        end.forget_permit();
        end.place = Place::Carried;
        end.generation = end.generation.wrapping_add(1);
        // A stand-in that was to be retired is needed again: the end has been there since.
        let visited = record.trail;
        #[cfg(test)]
        let visited = if self.mutant == Some(Mutant::LateRetire) { Lives::NONE } else { visited };
        visited.iter().for_each(|life| end.to_retire.remove(life));
        (end.record, end.has_news, end.last) = (record, true, None);
        Some(index)
    }

    /// Lets an end that has arrived say where it is, and hear what was to be passed on to it.
    fn announce_arrival(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        let Some(end) = self.table.get_mut(index) else { return };
        let (relay, to) = (end.relay.take(), end.name());
        if end.record.is_broken {
            self.announce_last_news(index);
        }
        // The stand-in's queue may have more than the end, broken elsewhere, still takes.
        let closed = self.table.get(index).and_then(|end| end.record.peer.closed);
        if let Some(count) = closed {
            self.drop_beyond(index, count, effects);
        }
        if let Some(news) = relay {
            self.deliver_news(to, news, effects);
        }
        #[cfg(test)]
        if self.is_mutant(Mutant::ArriveBlind) {
            return self.settle(index, effects);
        }
        self.break_if_lost(index, effects);
        self.settle(index, effects);
    }
}
