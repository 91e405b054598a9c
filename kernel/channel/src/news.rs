//! What the two ends of a channel tell each other, and what follows from it.
//!
//! [`Channels::settle`] is called after any change of an end: it draws the conclusions that can be
//! drawn, and lists the end with the kernels to which there is something to send.

use crate::channels::{Channels, Effects};
use crate::end::Place;
use crate::message::{News, Status};
use crate::name::{EndName, Lives};
#[cfg(test)]
use crate::proof::Mutant;

impl<B> Channels<B> {
    /// Draws the conclusions from a change of an end.
    pub(crate) fn settle(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        let me = self.peers.me;
        if let Some(end) = self.table.get(index).filter(|end| end.is_quiet(me)) {
            // As most are: there is nothing to conclude, and nothing to say.
            if end.is_watched && end.has_news() && self.does_wake() {
                self.wake(index, effects);
            }
            return;
        }
        self.forget_dead_kernels(index, effects);
        let Some(end) = self.table.get_mut(index) else { return };
        if end.is_live() {
            let has_all = end.received() >= end.record.peer.before;
            if has_all && !end.record.peer.awaited.is_empty() {
                end.record.peer.awaited = Lives::NONE;
                end.has_news = true;
            }
            #[cfg(not(test))]
            let may_retire = end.may_retire();
            #[cfg(test)]
            let may_retire = end.may_retire_or(self.mutant);
            if may_retire {
                end.retire_trail();
            }
        }
        end.has_news &= !end.record.peer.is_gone;
        #[cfg(test)]
        let end = Mutant::hurries(end, self.mutant);
        let is_ready = end.is_live() && end.has_news();
        if is_ready && self.does_wake() {
            self.wake(index, effects);
        }
        self.deliver_here(index, effects);
        self.list(index);
        self.free_if_done(index);
    }

    /// Returns whether this table wakes programs: a mutant does not.
    pub(crate) fn does_wake(&self) -> bool {
        #[cfg(test)]
        return self.mutant != Some(Mutant::NoWake);
        #[cfg(not(test))]
        true
    }

    /// Drops what is for kernels that have died.
    fn forget_dead_kernels(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        let Some(end) = self.table.get_mut(index) else { return };
        let to_retire = end.to_retire;
        let gone = to_retire.iter().filter(|life| self.peers.is_gone(*life));
        gone.for_each(|life| end.to_retire.remove(life));
        if self.peers.is_gone(end.record.peer.at) {
            end.record.peer.is_gone = true;
            self.drop_outgoing(index, effects);
        }
    }

    /// Delivers what an end has for a peer on this kernel.
    fn deliver_here(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        let me = self.peers.me;
        loop {
            let Some(end) = self.table.get_mut(index) else { return };
            if end.record.peer.at != me {
                return;
            }
            let to = end.name().peer();
            if let Some(mut entry) = end.outgoing.pop_front() {
                // It was to go elsewhere when it was sent.
                if let Some(life) = entry.room.take() {
                    self.peers.return_room(life, entry.ends());
                }
                // A bound that the contract does not keep costs this channel a message.
                let _ = self.accept(to, entry, effects);
            } else if core::mem::take(&mut end.has_news) {
                let Some(news) = self.news(index) else { return };
                self.deliver_news(to, news, effects);
            } else {
                return;
            }
        }
    }

    /// Lists the end with each kernel for which it has something.
    pub(crate) fn list(&mut self, index: u16) {
        for (kernel, ready) in self.ready.iter_mut().enumerate() {
            let Some(end) = self.table.get_mut(index) else { return };
            let life = self.peers.session(base::id::DomainId(kernel as u8));
            let Some(life) = life.filter(|life| end.has_message_for(*life)) else { continue };
            if !end.is_listed(life.kernel) {
                end.listed |= 1 << life.kernel.0;
                ready.push_back(index);
            }
        }
    }

    /// Frees the slot of an end that is closed and has said so.
    pub(crate) fn free_if_done(&mut self, index: u16) {
        if self.table.get(index).is_some_and(|end| end.is_done() && end.listed == 0) {
            self.table.remove(index);
        }
    }

    /// Returns what an end says about itself, or what a stand-in says about it.
    pub(crate) fn news(&mut self, index: u16) -> Option<News> {
        let me = self.peers.me;
        let end = self.table.get_mut(index)?;
        let news = end.last.unwrap_or_else(|| end.next_news(me));
        // A broken channel has nothing more to say.
        end.record.peer.is_gone |= news.status == Status::Broken;
        Some(news)
    }

    /// Lets an end that is closed or broken tell its peer so: itself, and through its stand-ins,
    /// because this kernel may die with the News unsent.
    pub(crate) fn announce_last_news(&mut self, index: u16) {
        let me = self.peers.me;
        let Some(end) = self.table.get_mut(index) else { return };
        (end.last, end.has_news) = (Some(end.next_news(me)), true);
        end.retire_trail();
    }

    /// News for an end: taken here, or passed on.
    pub(crate) fn deliver_news(&mut self, to: EndName, news: News, effects: &mut dyn Effects<B>) {
        let Some(index) = self.table.find(to) else { return };
        let Some(end) = self.table.get_mut(index) else { return };
        match end.place {
            Place::Held { .. } | Place::Handed { .. } | Place::Carried => {
                self.apply_news(index, news, effects);
            }
            #[cfg(test)]
            Place::Away(_) if self.mutant == Some(Mutant::NoRelay) => {}
            Place::Away(_) => {
                let is_newer = end.relay.is_none_or(|it| it.edition < news.edition);
                end.relay = if is_newer { Some(news) } else { end.relay };
                self.settle(index, effects);
            }
            Place::Closed => {}
        }
    }

    /// Takes what the peer says about itself.
    fn apply_news(&mut self, index: u16, news: News, effects: &mut dyn Effects<B>) {
        let Some(end) = self.table.get_mut(index) else { return };
        let received = end.received();
        let record = &mut end.record;
        let peer = &mut record.peer;
        let is_old = news.edition <= peer.edition;
        #[cfg(test)]
        let is_old = is_old && self.mutant != Some(Mutant::OldNews);
        if is_old || peer.closed.is_some() {
            return;
        }
        peer.edition = news.edition;
        if news.moves > peer.moves {
            (peer.at, peer.moves, peer.switched) = (news.at, news.moves, record.sent);
            end.has_news = true;
        }
        let has_all = received >= news.before;
        (peer.awaited, peer.before) = (if has_all { Lives::NONE } else { news.trail }, news.before);
        peer.heard = news.heard;
        (peer.heard_switched, peer.heard_all) = (news.switched, news.has_all);
        self.apply_status(index, news, effects);
        self.break_if_lost(index, effects);
        self.settle(index, effects);
    }

    fn apply_status(&mut self, index: u16, news: News, effects: &mut dyn Effects<B>) {
        let Some(end) = self.table.get_mut(index) else { return };
        let peer = &mut end.record.peer;
        match news.status {
            Status::Open => {}
            Status::Closed(count) => {
                (peer.closed, peer.is_gone) = (Some(count), true);
                peer.before = count;
                // What the last place of the peer has not sent yet is lost if that kernel dies.
                peer.awaited.add(news.at);
                self.drop_beyond(index, count, effects);
                self.drop_outgoing(index, effects);
            }
            Status::Broken => {
                peer.is_gone = true;
                self.break_off(index, effects);
            }
        }
    }

    /// Breaks the channel if a dead kernel may have had something of it.
    pub(crate) fn break_if_lost(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        let Some(end) = self.table.get(index) else { return };
        let peer = &end.record.peer;
        let mut is_lost = peer.closed.is_none() && self.peers.is_gone(peer.at);
        #[cfg(test)]
        let (awaited, trail) = Mutant::forgets(peer.awaited, end.record.trail, self.mutant);
        #[cfg(not(test))]
        let (awaited, trail) = (peer.awaited, end.record.trail);
        is_lost |= self.peers.has_gone(&awaited) || self.peers.has_gone(&trail);
        if end.is_live() && is_lost {
            self.break_off(index, effects);
        }
    }

    /// Nothing more will arrive. What has arrived without a gap can still be received.
    pub(crate) fn break_off(&mut self, index: u16, effects: &mut dyn Effects<B>) {
        let Some(end) = self.table.get_mut(index) else { return };
        let is_gone = self.peers.is_gone(end.record.peer.at);
        if !end.is_live() || end.is_complete() {
            return;
        }
        let received = end.received();
        let record = &mut end.record;
        record.is_broken = true;
        let peer = &mut record.peer;
        (peer.closed, peer.awaited) = (Some(received), Lives::NONE);
        peer.is_gone |= is_gone;
        self.announce_last_news(index);
        self.drop_beyond(index, received, effects);
        self.drop_outgoing(index, effects);
        self.settle(index, effects);
    }
}
