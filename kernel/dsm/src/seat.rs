//! Changes of homes: how another domain takes over when the home dies or leaves.
//!
//! A home stays the home until it goes; when it comes back, it does not claim that role again, so a
//! domain that sleeps often does not move the directory each time. When the home is gone, **the
//! lowest domain that runs** claims: it asks all other running domains what they hold and, when all
//! have answered, becomes the home and announces it. Only then do requests go to it.
//!
//! Two domains may claim at once if they know different things about a third. The higher one
//! answers the lower one's question and thereby yields; the lower one does not answer the other's.
//! A domain to which the home itself hands over has priority over both. A domain that answered a
//! claimant which has since yielded is told so ([`Message::Void`]) and may claim again. A domain
//! that is the home already answers with its announcement. So only one of two claimants becomes
//! the home: each needs the other's answer, or else learnt of the other too late to ask it, and is
//! then asked by it.
//!
//! What a member holds cannot change until there is a home again, because only messages from a home
//! change it. A page that no domain holds is lost if a member died whose death no home has handled.
//! To detect that, each home announces its members ([`Message::Home`]), and every domain that is
//! asked compares them with the lives it knows and passes the result on.

use base::id::DomainId;

use crate::dsm::{Dsm, Leaving, Revoke, Seat};
use crate::effect::{Effect, Perform};
use crate::grid::Grid;
use crate::lives::{Life, byte, byte_of, with_byte};
use crate::message::{END, Message};
use crate::table::Store;
use crate::word::{Down, Page};

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    pub(crate) fn handle_seat(
        &mut self,
        now: u64,
        from: DomainId,
        message: Message,
        out: &mut (impl Perform + ?Sized),
    ) {
        match message {
            Message::Join => self.got_join(now, from, out),
            Message::Home { round, settled } => self.got_home(now, from, round, settled, out),
            Message::Leave => self.got_leave(now, from, out),
            Message::Bye if self.leaving == Leaving::Asked => self.gone(out),
            Message::TakeHome { round, settled } => {
                self.got_take_home(now, (from, round), settled, out);
            }
            Message::Who if self.leaving == Leaving::Handing(from) => self.ask_to_take(from, out),
            Message::Who if self.is_serving() => {
                let message = Message::Home { round: self.round, settled: self.settled };
                out.perform(Effect::Send { to: from, message });
            }
            Message::Ask { round, base, handed, .. } => {
                self.peers[from.index()].asked = Some((round, base));
                self.got_ask(from, handed, out);
            }
            // The sender is the home in this domain's view, so it has stepped down.
            Message::Who if matches!(self.seat, Seat::Known(home, _) if home == from) => {
                self.seat = Seat::Waiting;
                self.home_is_gone(out);
                self.reconsider(now, out);
            }
            Message::Chunk { round, base, held, written } => {
                self.got_chunk(now, from, (round, base), (held, written), out);
            }
            Message::Void => self.reconsider(now, out),
            Message::Losses => {
                out.perform(Effect::Send { to: from, message: Message::AskLost { base: 0 } })
            }
            Message::AskLost { base } if self.is_serving() => {
                let (base, bits, _) = self.chunk(base, |entry| (entry.lost, false));
                out.perform(Effect::Send { to: from, message: Message::Lost { base, bits } });
            }
            Message::Lost { base, bits } => self.got_lost(from, base, bits, out),
            _ => {} // Out of date: the sender or this domain is in another state by now.
        }
    }

    /// `from` has started and holds nothing; messages sent to it before did not reach it.
    fn got_join(&mut self, now: u64, from: DomainId, out: &mut (impl Perform + ?Sized)) {
        match self.seat {
            Seat::Home if self.is_serving() => {
                self.settled = self.members();
                let message = Message::Home { round: self.round, settled: self.settled };
                out.perform(Effect::Send { to: from, message });
            }
            Seat::Home if self.leaving == Leaving::Handing(from) => {
                self.handed_in_vain(out);
                self.reconsider(now, out);
            }
            // The question may be among the lost messages; it will answer that it holds nothing.
            Seat::Claiming { waiting, handed, .. } if waiting.has(from) => {
                out.perform(Effect::Send { to: from, message: self.question(0, handed) });
            }
            Seat::Known(home, _) if home == from => {
                self.seat = Seat::Waiting;
                self.home_is_gone(out);
                self.reconsider(now, out);
            }
            _ => {}
        }
    }

    /// Returns the epochs of this domain and all running peers.
    pub(crate) fn members(&self) -> u64 {
        with_byte(self.running(), self.config.me, self.epoch)
    }

    /// Returns whether this domain knows of a member's death that no home has handled.
    pub(crate) fn mourns(&self) -> bool {
        // 0: this domain has just booted, and no home has told it that its last life's death is
        // handled.
        self.settled == 0 || self.mourns_one_of(self.settled)
    }

    /// Returns whether one of these members has died.
    pub(crate) fn mourns_one_of(&self, settled: u64) -> bool {
        (0..self.config.domains).map(DomainId).any(|domain| {
            let then = byte_of(settled, domain);
            let dead = match self.peer(domain) {
                None => byte(self.epoch) != then,
                Some(peer) if peer.epoch.0 == 0 => false,
                Some(peer) => peer.life == Life::Dead || byte(peer.epoch) != then,
            };
            then != 0 && dead
        })
    }

    fn got_home(
        &mut self,
        now: u64,
        from: DomainId,
        round: u32,
        settled: u64,
        out: &mut (impl Perform + ?Sized),
    ) {
        let old = match self.seat {
            Seat::Home => !matches!(self.leaving, Leaving::Handing(_)),
            Seat::Known(home, known) => round < known || round == known && home != from,
            Seat::Claiming { .. } | Seat::Waiting => round < self.round,
        };
        if old {
            return;
        }
        (self.settled, self.round) = (settled, round);
        if self.seat == Seat::Known(from, round) {
            return;
        }
        if matches!(self.leaving, Leaving::Handing(_)) {
            return self.gone(out);
        }
        self.forget_home();
        self.seat = Seat::Known(from, round);
        self.send_parked(now, out);
    }

    /// Cancels what was requested from or by the former home.
    fn forget_home(&mut self) {
        self.cores.iter_mut().flat_map(|core| &mut core.task).for_each(|task| task.sent = false);
        self.revokes.change(|revoke| match revoke {
            Revoke::Unmapping { page, keep, .. } => Revoke::Unmapping { page, keep, orphan: true },
            Revoke::Deferred { .. } | Revoke::Idle => Revoke::Idle,
        });
        if self.leaving == Leaving::Asked {
            self.leaving = Leaving::Empty;
        }
    }

    /// Continues without a home; the state is already `Waiting`.
    pub(crate) fn home_is_gone(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.forget_home();
        self.answer_asked(out);
    }

    /// Sends what waited for a home.
    pub(crate) fn send_parked(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        self.cores().for_each(|core| self.ask_home(now, core, out));
        self.proceed_leave(out);
    }

    fn got_lost(
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

    fn got_take_home(
        &mut self,
        now: u64,
        from: (DomainId, u32),
        settled: u64,
        out: &mut (impl Perform + ?Sized),
    ) {
        let elsewhere = match self.seat {
            Seat::Home => true,
            Seat::Known(home, round) => (home, round) != from,
            // Out of date: the sender has handed over to another domain since, which has asked
            // already.
            Seat::Claiming { .. } | Seat::Waiting => from.1 < self.round,
        };
        // A domain that announced its leaving is answered with Bye, and another one is asked.
        if elsewhere || self.leaving == Leaving::Asked {
            return;
        }
        self.settled = settled;
        self.round = self.round.max(from.1);
        self.seat = Seat::Waiting;
        self.home_is_gone(out);
        self.claim(now, Some(from), false, out);
    }

    fn got_leave(&mut self, now: u64, from: DomainId, out: &mut (impl Perform + ?Sized)) {
        let handing = self.leaving == Leaving::Handing(from);
        if !self.is_serving() && !handing {
            return; // The sender will repeat it to the next home.
        }
        self.sweep(from, Down::Slept, out);
        out.perform(Effect::Send { to: from, message: Message::Bye });
        if handing {
            self.handed_to_leaver(out);
        }
        self.start_requests(now, out);
    }

    /// Finishes leaving: forgets the directory and the home, and reports that this domain may power
    /// down.
    pub(crate) fn gone(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Gone;
        // All domains that ever ran: if all of them are gone when this one comes back, it can tell
        // which of them died.
        let domains = (0..self.config.domains).map(DomainId);
        let ever = domains.filter(|domain| self.peer(*domain).is_some_and(|p| p.epoch.0 != 0));
        let with = |sum, domain: DomainId| with_byte(sum, domain, self.peers[domain.index()].epoch);
        self.settled = ever.fold(with_byte(0, self.config.me, self.epoch), with);
        self.seat = Seat::Waiting;
        self.clear_directory();
        self.revokes = Grid::new(&self.config);
        self.peers.iter_mut().for_each(|peer| peer.asked = None);
        out.perform(Effect::Left);
    }

    pub(crate) fn all_empty(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Empty;
        if self.seat == Seat::Home {
            self.sweep(self.config.me, Down::Slept, out);
        }
        self.serve_deferred(now, out);
        self.answer_asked(out);
        self.proceed_leave(out);
    }

    /// Continues leaving if possible.
    pub(crate) fn proceed_leave(&mut self, out: &mut (impl Perform + ?Sized)) {
        if self.leaving != Leaving::Empty {
            return;
        }
        match self.seat {
            Seat::Known(home, _) if self.up().has(home) => {
                self.leaving = Leaving::Asked;
                out.perform(Effect::Send { to: home, message: Message::Leave });
            }
            Seat::Home if !self.is_busy() => self.hand_over(out),
            _ => {}
        }
    }

    fn hand_over(&mut self, out: &mut (impl Perform + ?Sized)) {
        let Some(to) = self.up().iter().next() else { return self.gone(out) };
        if self.has_losses() {
            self.leaving = Leaving::No;
            return out.perform(Effect::Stays);
        }
        self.leaving = Leaving::Handing(to);
        self.desk = Grid::new(&self.config);
        self.ask_to_take(to, out);
    }

    /// Sent again to a domain that asks which domain is the home, because it may not have received
    /// this. Nothing stops the handover now, not even losses: the next home may have taken over
    /// already, and has learnt of the same deaths.
    fn ask_to_take(&self, to: DomainId, out: &mut (impl Perform + ?Sized)) {
        let message = Message::TakeHome { round: self.round, settled: self.settled_to_hand() };
        out.perform(Effect::Send { to, message });
    }

    /// Returns the members without this domain, which holds nothing. Deaths among them are
    /// unhandled.
    fn settled_to_hand(&self) -> u64 {
        self.settled & !(0xff << (8 * self.config.me.0))
    }

    /// The next home is gone. It may have been the home meanwhile, so this directory is out of
    /// date.
    pub(crate) fn handed_in_vain(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Empty;
        self.seat = Seat::Waiting;
        self.answer_asked(out);
    }

    /// The next home is leaving itself and has not become the home.
    fn handed_to_leaver(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Empty;
        self.round = self.round.saturating_add(1);
        self.settled = self.members();
        let message = Message::Home { round: self.round, settled: self.settled };
        self.broadcast(message, out);
        self.proceed_leave(out);
    }
}

/// Iterates over the pages whose bits are set in a chunk.
pub(crate) fn ones(base: Page, bits: u64) -> impl Iterator<Item = Page> {
    (0..64).filter(move |bit| bits >> bit & 1 != 0).filter_map(move |bit| base.checked_add(bit))
}
