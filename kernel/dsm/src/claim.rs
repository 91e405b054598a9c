//! How a domain becomes the home: the questions that a claimant sends, the answers, and the
//! directory that it builds from them. [`crate::takeover`] decides which domain claims, and when.

use base::id::DomainId;

use crate::dsm::{Dsm, HomeState, Leaving};
use crate::effect::{Effect, Perform};
use crate::life::{byte_of, with_byte};
use crate::message::{END, Message};
use crate::table::{Entry, Store};
use crate::takeover::ones;
use crate::types::{DomainSet, Hold, Page};

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Claims if this domain is the lowest that runs; otherwise asks which domain is the home, in
    /// case it missed the announcement.
    pub(crate) fn claim_or_ask(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        if self.home_state != HomeState::Waiting || self.leaving == Leaving::Gone {
            return;
        }
        let lowest = self.up().with(self.config.me).iter().next();
        if lowest == Some(self.config.me) {
            self.claim(now, None, false, out);
        } else {
            self.broadcast(Message::Who, out);
        }
    }

    /// Returns whether this domain has joined, but no other domain runs any more and none has
    /// answered as the home. What the others knew of deaths is in the chip page only: the driver
    /// calls [`Dsm::be_first`].
    pub fn is_alone(&self) -> bool {
        self.is_new && self.home_state == HomeState::Waiting && self.up().is_empty()
    }

    /// Makes this domain the home, if [`Dsm::is_alone`]. For `lost` see [`crate::Start::First`].
    pub fn be_first(&mut self, now: u64, lost: bool, out: &mut (impl Perform + ?Sized)) {
        if self.is_alone() {
            self.establish_first(now, lost, out);
        }
    }

    pub(crate) fn establish_first(
        &mut self,
        now: u64,
        lost: bool,
        out: &mut (impl Perform + ?Sized),
    ) {
        self.home_state = HomeState::Claiming { waiting: DomainSet::EMPTY, handed: None, lost };
        self.establish(now, out);
    }

    /// Asks all running domains what they hold.
    pub(crate) fn claim(
        &mut self,
        now: u64,
        handed: Option<(DomainId, u32)>,
        lost: bool,
        out: &mut (impl Perform + ?Sized),
    ) {
        self.claims = self.claims.wrapping_add(1);
        self.clear_directory();
        if self.is_new && handed.is_none() && self.up().is_empty() {
            self.home_state = HomeState::Waiting; // see `Dsm::is_alone`
            return;
        }
        let waiting = handed.map_or(self.up(), |(giver, _)| self.up().without(giver));
        self.home_state =
            HomeState::Claiming { waiting, handed, lost: lost || self.has_unhandled_death() };
        let message = self.question(0, handed);
        waiting.iter().for_each(|to| out.perform(Effect::Send { to, message }));
        if waiting.is_empty() {
            self.establish(now, out);
        }
    }

    pub(crate) fn question(&self, base: Page, handed: Option<(DomainId, u32)>) -> Message {
        Message::Ask { round: self.claims, base, lives: self.lives(), handed }
    }

    /// Becomes the home, after all have answered.
    pub(crate) fn establish(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        let HomeState::Claiming { lost, .. } = self.home_state else { return };
        self.record_own();
        (self.home_state, self.is_new) = (HomeState::Home, false);
        self.round = self.round.saturating_add(1);
        self.member_epochs = self.members();
        self.peers.iter_mut().for_each(|peer| peer.asked = None);
        let message = Message::Home { round: self.round, member_epochs: self.member_epochs };
        self.broadcast(message, out);
        if lost && self.lose_unheld(out) {
            self.broadcast(Message::Losses, out);
        }
        self.send_parked(now, out);
    }

    fn lose_unheld(&mut self, out: &mut (impl Perform + ?Sized)) -> bool {
        let mut losses = false;
        for page in 0..self.table.pages() {
            if self.table.get(page) == Entry::FREE {
                self.table.set(page, Entry { lost: true, ..Entry::FREE });
                out.perform(Effect::Lost { page });
                losses = true;
            }
        }
        losses
    }

    pub(crate) fn on_ask(
        &mut self,
        from: DomainId,
        handed: Option<(DomainId, u32)>,
        out: &mut (impl Perform + ?Sized),
    ) {
        self.consider_question(from, handed, out);
        if let (HomeState::Waiting, Some((_, round))) = (self.home_state, handed) {
            // Announcements and grants of the old home that are still in the links are out of date
            // now.
            self.round = self.round.max(round.saturating_add(1));
        }
    }

    fn consider_question(
        &mut self,
        from: DomainId,
        handed: Option<(DomainId, u32)>,
        out: &mut (impl Perform + ?Sized),
    ) {
        match self.home_state {
            HomeState::Home if self.is_serving() => {
                self.peers[from.index()].asked = None;
                let message =
                    Message::Home { round: self.round, member_epochs: self.member_epochs };
                out.perform(Effect::Send { to: from, message });
            }
            // Either the known home claims, so it has stepped down, or it has handed over to the
            // sender. It may have done so in a later round than the known one, if its announcement
            // is still on its way.
            HomeState::Known(home, round)
                if home == from || handed.is_some_and(|it| it.0 == home && it.1 >= round) =>
            {
                self.home_state = HomeState::Waiting;
                self.home_went_down(out);
            }
            HomeState::Claiming { handed: mine, .. } if self.outranks((from, handed), mine) => {
                self.home_state = HomeState::Waiting;
                self.answer_asked(out);
            }
            HomeState::Waiting => self.answer_asked(out),
            HomeState::Home | HomeState::Known(..) | HomeState::Claiming { .. } => {}
        }
    }

    /// Returns whether another domain's claim has priority over this one's. A home hands over to
    /// one domain after the other, so if it handed over to both, the other attempt was earlier and
    /// has failed.
    fn outranks(
        &self,
        theirs: (DomainId, Option<(DomainId, u32)>),
        mine: Option<(DomainId, u32)>,
    ) -> bool {
        match (theirs.1, mine) {
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(theirs), Some(mine)) if theirs.0 == mine.0 => false,
            _ => theirs.0 < self.config.me,
        }
    }

    /// Answers all outstanding questions, 64 pages each.
    pub(crate) fn answer_asked(&mut self, out: &mut (impl Perform + ?Sized)) {
        if self.home_state != HomeState::Waiting || self.leaving == Leaving::Unmapping {
            return;
        }
        for to in self.up().iter() {
            let Some((round, base)) = self.peers[to.index()].asked.take() else { continue };
            let holds = |entry: &Entry| (entry.hold != Hold::None, entry.hold > Hold::Read);
            let (base, held, written) = self.chunk(base, holds);
            let (held, written) = match base {
                END => {
                    let said = (
                        self.member_epochs,
                        u64::from(self.round) << 8 | u64::from(self.has_unhandled_death()),
                    );
                    self.treat_as_member(to);
                    said
                }
                _ => (held, written),
            };
            out.perform(Effect::Send {
                to,
                message: Message::Chunk { round, base, held, written },
            });
        }
    }

    /// Treats `to` as a member: it may become the home, hold pages, and die before this domain
    /// learns of it. If an earlier epoch of `to` is recorded, it stays recorded, because its death
    /// may be unhandled. If this domain has just booted, nothing is recorded, so that it still
    /// reports an unhandled death.
    fn treat_as_member(&mut self, to: DomainId) {
        if self.member_epochs != 0 && byte_of(self.member_epochs, to) == 0 {
            self.member_epochs = with_byte(self.member_epochs, to, self.peers[to.index()].epoch);
        }
    }

    /// Returns the first page from `base` on with its first bit set, and both bits of it and the 63
    /// pages after it. A free page has neither bit.
    pub(crate) fn chunk(
        &self,
        base: Page,
        bits: impl Fn(&Entry) -> (bool, bool),
    ) -> (Page, u64, u64) {
        let pages = self.table.pages();
        let has_first = |page: &Page| bits(&self.table.get(*page)).0;
        let Some(base) = self.table.used(base).find(has_first) else { return (END, 0, 0) };
        let (mut first, mut second) = (0, 0);
        for page in base..pages.min(base.saturating_add(64)) {
            let (a, b) = bits(&self.table.get(page));
            first |= u64::from(a) << (page - base);
            second |= u64::from(b) << (page - base);
        }
        (base, first, second)
    }

    pub(crate) fn on_chunk(
        &mut self,
        now: u64,
        from: DomainId,
        (round, base): (u8, Page),
        (held, written): (u64, u64),
        out: &mut (impl Perform + ?Sized),
    ) {
        let HomeState::Claiming { waiting, handed, lost } = self.home_state else {
            return out.perform(Effect::Send { to: from, message: Message::Void });
        };
        if !waiting.has(from) || round != self.claims {
            return; // Answers an earlier claim; the answer to the current one follows.
        }
        if base != END {
            let pages = self.table.pages();
            for page in ones(base, held).filter(|page| *page < pages) {
                self.record(from, page, written >> (page - base) & 1 != 0);
            }
            let base = base.saturating_add(64);
            let message = self.question(base, handed);
            return out.perform(Effect::Send { to: from, message });
        }
        let waiting = waiting.without(from);
        self.round = self.round.max((written >> 8) as u32);
        let lost = lost || written & 1 != 0 || self.any_has_died(held);
        self.home_state = HomeState::Claiming { waiting, handed, lost };
        if waiting == DomainSet::EMPTY {
            self.establish(now, out);
        }
    }
}
