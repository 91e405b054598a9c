//! Who is the home: how a home's place is taken when it dies or leaves.
//!
//! A home stays until it goes; one that comes back does not claim its place again, so a domain
//! that sleeps often costs no directory moves. When it is gone, **the lowest domain that runs**
//! claims: it asks all others that run what they hold and, when all have said it, is the home and
//! tells everybody. Only then requests go to it.
//!
//! Two may claim at once, when they have heard different things of a third. The higher one answers
//! the lower one's question and thereby yields; the lower one leaves the question unanswered. One
//! to whom the home itself hands over goes before both. Who answered one that meanwhile has given
//! up is told so ([`Message::Void`]) and may claim again. Who
//! is the home already answers "I am". So of two that run at once only one is established: each
//! needs the other's answer, or was told of it by the chip page too late to be asked, and then it
//! asks itself.
//!
//! What a member says it holds cannot change until there is a home again: only a home's messages
//! change it. What nobody holds is lost if a member died that no home has dealt with; for that
//! each home says whom it knows ([`Message::Home`]), and all who are asked judge and pass it on.

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
            // Its sender has stepped down.
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
            _ => {} // Too late: its sender or this domain has gone on.
        }
    }

    /// `from` comes with nothing: what was sent to it before never reached it.
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
            // The question may be among that; the answer will be that it holds nothing.
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

    /// This domain and all peers that run.
    pub(crate) fn members(&self) -> u64 {
        with_byte(self.running(), self.config.me, self.epoch)
    }

    /// Has a member died that no home has dealt with, as far as this domain knows?
    pub(crate) fn mourns(&self) -> bool {
        // 0: it has just booted, and nobody has told it that its last life is mourned already.
        self.settled == 0 || self.mourns_one_of(self.settled)
    }

    /// Has one of these members died?
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

    /// What was asked of, or by, a home that is none any more is void.
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

    /// The home is gone; the seat is `Waiting`.
    pub(crate) fn home_is_gone(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.forget_home();
        self.answer_asked(out);
    }

    /// There is a home, or it can be reached now.
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
            // An old word: its sender has handed to another one since, who has asked already.
            Seat::Claiming { .. } | Seat::Waiting => from.1 < self.round,
        };
        // Who has said that it leaves is answered with Bye, and another one is asked.
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
            return; // It will say so again, to the next home.
        }
        self.sweep(from, Down::Slept, out);
        out.perform(Effect::Send { to: from, message: Message::Bye });
        if handing {
            self.handed_to_leaver(out);
        }
        self.start_requests(now, out);
    }

    /// Forgets all about being, or knowing, the home: this domain may power down.
    pub(crate) fn gone(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Gone;
        // All who ever ran: should all of them be gone when it comes back, it knows who died.
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

    /// Goes on with leaving when it can.
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

    /// Sent again to one that asks who is the home: it may not have had it. Nothing stops it now,
    /// not even losses: the next home may be the home already, and has heard of the same deaths.
    fn ask_to_take(&self, to: DomainId, out: &mut (impl Perform + ?Sized)) {
        let message = Message::TakeHome { round: self.round, settled: self.settled_to_hand() };
        out.perform(Effect::Send { to, message });
    }

    /// The members but for this domain, which holds nothing: dead ones among them are mourned.
    fn settled_to_hand(&self) -> u64 {
        self.settled & !(0xff << (8 * self.config.me.0))
    }

    /// The next home is gone, and may have been the home: what the directory here says is old.
    pub(crate) fn handed_in_vain(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Empty;
        self.seat = Seat::Waiting;
        self.answer_asked(out);
    }

    /// The next home leaves itself, and has not become it.
    fn handed_to_leaver(&mut self, out: &mut (impl Perform + ?Sized)) {
        self.leaving = Leaving::Empty;
        self.round = self.round.saturating_add(1);
        self.settled = self.members();
        let message = Message::Home { round: self.round, settled: self.settled };
        self.broadcast(message, out);
        self.proceed_leave(out);
    }
}

/// The pages of the bits of a chunk.
pub(crate) fn ones(base: Page, bits: u64) -> impl Iterator<Item = Page> {
    (0..64).filter(move |bit| bits >> bit & 1 != 0).filter_map(move |bit| base.checked_add(bit))
}
