//! Changes of homes: how another domain takes over when the home dies or leaves.
//!
//! A home stays the home until it goes; when it comes back, it does not claim that role again, so a
//! domain that sleeps often does not move the directory each time. When the home is gone, **the
//! lowest domain that runs** claims: it asks all other running domains what they hold and, when all
//! have answered, becomes the home and announces it. Only then do requests go to it.
//!
//! Two domains may claim at once if they know different things about a third. The higher one
//! answers the lower one's question and thereby yields; the lower one does not answer the other's.
//! A domain to which the home itself hands over has priority over both, and that home answers no
//! other claimant until that domain is the home or has gone. A domain that answered a claimant
//! which has since yielded learns that by [`Message::Void`] and may claim again. A domain that is
//! the home already answers with its announcement. So only one of two claimants becomes the home:
//! either a claimant needs the other's answer, or it learnt of the other too late to ask it, and
//! then the other asks it.
//!
//! What a member holds cannot change until there is a home again, because only messages from a home
//! change it. A page that no domain holds is lost if a member died and no home has handled that
//! death. To detect that, each home announces its members and their epochs ([`Message::Home`]).
//! Every domain that answers a claimant compares them with the epochs that it knows, and reports
//! the result.

use base::id::DomainId;

use crate::dsm::{Dsm, HomeState, Leaving, Revoke};
use crate::effect::{Effect, Perform};
use crate::grid::Grid;
use crate::life::{Life, byte, byte_of, with_byte};
use crate::message::{END, Message};
use crate::table::Store;
use crate::types::{Down, Page};

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    pub(crate) fn handle_home_message(
        &mut self,
        now: u64,
        from: DomainId,
        message: Message,
        out: &mut (impl Perform + ?Sized),
    ) {
        match message {
            Message::Join => self.on_join(now, from, out),
            Message::Home { round, member_epochs } => {
                self.on_home(now, from, round, member_epochs, out)
            }
            Message::Leave => self.on_leave(now, from, out),
            Message::Bye if self.leaving == Leaving::Asked => self.finish_leaving(out),
            Message::TakeHome { round, member_epochs } => {
                self.on_take_home(now, (from, round), member_epochs, out);
            }
            Message::Who if self.leaving == Leaving::Handing(from) => {
                self.send_take_home(from, out)
            }
            Message::Who if self.is_serving() => {
                let message =
                    Message::Home { round: self.round, member_epochs: self.member_epochs };
                out.perform(Effect::Send { to: from, message });
            }
            Message::Ask { round, base, handed, .. } => {
                self.peers[from.index()].asked = Some((round, base));
                self.on_ask(from, handed, out);
            }
            // The sender is the home in this domain's view, so it has stepped down.
            Message::Who if self.is_from_home(from) => {
                self.home_state = HomeState::Waiting;
                self.home_went_down(out);
                self.claim_or_ask(now, out);
            }
            Message::Chunk { round, base, held, written } => {
                self.on_chunk(now, from, (round, base), (held, written), out);
            }
            Message::Void => self.claim_or_ask(now, out),
            Message::Losses => {
                out.perform(Effect::Send { to: from, message: Message::AskLost { base: 0 } })
            }
            Message::AskLost { base } if self.is_serving() => {
                let (base, bits, _) = self.chunk(base, |entry| (entry.lost, false));
                out.perform(Effect::Send { to: from, message: Message::Lost { base, bits } });
            }
            Message::Lost { base, bits } => self.on_lost(from, base, bits, out),
            _ => {} // Out of date: the sender or this domain is in another state by now.
        }
    }

    /// Handles the start of `from`: it holds nothing, and messages sent to it before did not reach
    /// it.
    fn on_join(&mut self, now: u64, from: DomainId, out: &mut (impl Perform + ?Sized)) {
        match self.home_state {
            HomeState::Home if self.is_serving() => {
                self.member_epochs = self.members();
                let message =
                    Message::Home { round: self.round, member_epochs: self.member_epochs };
                out.perform(Effect::Send { to: from, message });
            }
            // `TakeHome` may be among the lost messages. If not, `from` ignores the second one.
            HomeState::Home if self.leaving == Leaving::Handing(from) => {
                self.send_take_home(from, out)
            }
            // The question may be among the lost messages; it will answer that it holds nothing.
            HomeState::Claiming { waiting, handed, .. } if waiting.has(from) => {
                out.perform(Effect::Send { to: from, message: self.question(0, handed) });
            }
            HomeState::Known(home, _) if home == from => {
                self.home_state = HomeState::Waiting;
                self.home_went_down(out);
                self.claim_or_ask(now, out);
            }
            _ => {}
        }
    }

    /// Returns the epochs of this domain and all running peers.
    pub(crate) fn members(&self) -> u64 {
        with_byte(self.running(), self.config.me, self.epoch)
    }

    /// Returns whether this domain knows of a member's death that no home has handled.
    pub(crate) fn has_unhandled_death(&self) -> bool {
        // 0: this domain has just booted, and no home has announced yet that the death of its
        // previous epoch is handled.
        self.member_epochs == 0 || self.any_has_died(self.member_epochs)
    }

    /// Returns whether one of these members has died.
    pub(crate) fn any_has_died(&self, member_epochs: u64) -> bool {
        (0..self.config.domains).map(DomainId).any(|domain| {
            let then = byte_of(member_epochs, domain);
            let dead = match self.peer(domain) {
                None => byte(self.epoch) != then,
                Some(peer) if peer.epoch.0 == 0 => false,
                Some(peer) => peer.life == Life::Dead || byte(peer.epoch) != then,
            };
            then != 0 && dead
        })
    }

    fn on_home(
        &mut self,
        now: u64,
        from: DomainId,
        round: u32,
        member_epochs: u64,
        out: &mut (impl Perform + ?Sized),
    ) {
        let old = match self.home_state {
            HomeState::Home => !matches!(self.leaving, Leaving::Handing(_)),
            HomeState::Known(home, known) => round < known || round == known && home != from,
            HomeState::Claiming { .. } | HomeState::Waiting => round < self.round,
        };
        if old {
            return;
        }
        (self.member_epochs, self.round, self.is_new) = (member_epochs, round, false);
        if self.home_state == HomeState::Known(from, round) {
            return;
        }
        if matches!(self.leaving, Leaving::Handing(_)) {
            return self.finish_leaving(out);
        }
        self.forget_home();
        self.home_state = HomeState::Known(from, round);
        self.send_parked(now, out);
    }

    /// Cancels what was requested from or by the former home.
    fn forget_home(&mut self) {
        self.cores
            .iter_mut()
            .flat_map(|core| &mut core.pending)
            .for_each(|pending| pending.sent = false);
        self.revokes.change(|revoke| match revoke {
            Revoke::Unmapping { page, keep, .. } => Revoke::Unmapping { page, keep, orphan: true },
            Revoke::Deferred { .. } | Revoke::Idle => Revoke::Idle,
        });
        if self.leaving == Leaving::Asked {
            self.leaving = Leaving::Empty;
        }
    }

    /// Continues without a home; the state is already `Waiting`.
    pub(crate) fn home_went_down(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.forget_home();
        self.answer_asked(out);
    }

    /// Sends what waited for a home.
    pub(crate) fn send_parked(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        self.cores().for_each(|core| self.ask_home(now, core, out));
        self.continue_leaving(out);
    }

    fn on_lost(
        &mut self,
        from: DomainId,
        base: Page,
        bits: u64,
        out: &mut (impl Perform + ?Sized),
    ) {
        if base == END {
            return;
        }
        let pages = self.table.pages();
        ones(base, bits)
            .filter(|page| *page < pages)
            .for_each(|page| out.perform(Effect::Lost { page }));
        let base = base.saturating_add(64);
        out.perform(Effect::Send { to: from, message: Message::AskLost { base } });
    }

    fn on_take_home(
        &mut self,
        now: u64,
        from: (DomainId, u32),
        member_epochs: u64,
        out: &mut (impl Perform + ?Sized),
    ) {
        let elsewhere = match self.home_state {
            HomeState::Home => true,
            HomeState::Known(home, round) => (home, round) != from,
            // Out of date: the sender has handed over to another domain since, which has asked
            // already.
            HomeState::Claiming { .. } | HomeState::Waiting => from.1 < self.round,
        };
        // A domain that announced its leaving is answered with Bye, and another one is asked.
        if elsewhere || self.leaving == Leaving::Asked {
            return;
        }
        (self.member_epochs, self.is_new) = (member_epochs, false);
        self.round = self.round.max(from.1);
        self.home_state = HomeState::Waiting;
        self.home_went_down(out);
        self.claim(now, Some(from), false, out);
    }

    fn on_leave(&mut self, now: u64, from: DomainId, out: &mut (impl Perform + ?Sized)) {
        let handing = self.leaving == Leaving::Handing(from);
        if !self.is_serving() && !handing {
            return; // The sender will repeat it to the next home.
        }
        self.remove_holder(from, Down::Slept, out);
        out.perform(Effect::Send { to: from, message: Message::Bye });
        if handing {
            self.next_home_leaves(out);
        }
        self.start_requests(now, out);
    }

    /// Finishes leaving: forgets the directory and the home, and reports that this domain may power
    /// down.
    pub(crate) fn finish_leaving(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Gone;
        // All domains that ever ran: if all of them are gone when this one comes back, it can tell
        // which of them died.
        let domains = (0..self.config.domains).map(DomainId);
        let ever = domains.filter(|domain| self.peer(*domain).is_some_and(|p| p.epoch.0 != 0));
        let with = |sum, domain: DomainId| with_byte(sum, domain, self.peers[domain.index()].epoch);
        self.member_epochs = ever.fold(with_byte(0, self.config.me, self.epoch), with);
        self.home_state = HomeState::Waiting;
        self.clear_directory();
        self.revokes = Grid::new(&self.config);
        self.peers.iter_mut().for_each(|peer| peer.asked = None);
        out.perform(Effect::Left);
    }

    pub(crate) fn all_given_up(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Empty;
        if self.home_state == HomeState::Home {
            self.remove_holder(self.config.me, Down::Slept, out);
        }
        self.serve_deferred(now, out);
        self.answer_asked(out);
        self.continue_leaving(out);
    }

    /// Continues leaving if possible.
    pub(crate) fn continue_leaving(&mut self, out: &mut (impl Perform + ?Sized)) {
        if self.leaving != Leaving::Empty {
            return;
        }
        match self.home_state {
            HomeState::Known(home, _) if self.up().has(home) => {
                self.leaving = Leaving::Asked;
                out.perform(Effect::Send { to: home, message: Message::Leave });
            }
            HomeState::Home if !self.is_busy() => self.hand_over(out),
            _ => {}
        }
    }

    fn hand_over(&mut self, out: &mut (impl Perform + ?Sized)) {
        let Some(to) = self.up().iter().next() else { return self.finish_leaving(out) };
        if self.has_losses() {
            self.leaving = Leaving::No;
            return out.perform(Effect::Stays);
        }
        self.leaving = Leaving::Handing(to);
        self.requests = Grid::new(&self.config);
        self.send_take_home(to, out);
    }

    /// Hands the role of the home over to `to`. The message is repeated if `to` asks which domain
    /// is the home, because it may not have received the first one. Nothing stops the handover now,
    /// not even losses: the next home may have taken over already, and has learnt of the same
    /// deaths.
    fn send_take_home(&self, to: DomainId, out: &mut (impl Perform + ?Sized)) {
        // Without this domain, which holds nothing. Deaths among the others are unhandled. `to` is
        // one of them, although it may not have joined yet: see `Dsm::chip`.
        let member_epochs = self.member_epochs & !(0xff << (8 * self.config.me.0));
        let message = Message::TakeHome { round: self.round, member_epochs };
        out.perform(Effect::Send { to, message });
    }

    /// Handles the loss of the next home during a handover. It may have been the home meanwhile, so
    /// this directory is out of date.
    pub(crate) fn handover_failed(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Empty;
        self.home_state = HomeState::Waiting;
        self.answer_asked(out);
    }

    /// Handles the refusal of a handover: the next home is leaving as well and has not become the
    /// home.
    fn next_home_leaves(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Empty;
        self.round = self.round.saturating_add(1);
        self.member_epochs = self.members();
        let message = Message::Home { round: self.round, member_epochs: self.member_epochs };
        self.broadcast(message, out);
        self.continue_leaving(out);
    }
}

/// Iterates over the pages whose bits are set in a chunk.
pub(crate) fn ones(base: Page, bits: u64) -> impl Iterator<Item = Page> {
    (0..64).filter(move |bit| bits >> bit & 1 != 0).filter_map(move |bit| base.checked_add(bit))
}
