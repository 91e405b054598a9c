//! The home's side: the directory, and the order of requests for a page.
//!
//! ```text
//!              first for its page             all holders that must give up have answered
//!   +--------+ ----------------> +--------+ ------------------------------> grant, directory
//!   | Queued |                   | Active |                                 changed, next one
//!   +--------+ <---------------- +--------+ --- requester died: finished for nobody, and what
//!      ^      Get                               its next life wants comes into the queue
//! ```
//! One request of a page is active at a time; the others wait in the order in which they came.
//! All traffic about a page is between its home and one other domain, so a link's order is all the
//! order there is: a grant is seen before the revocation that follows it.

use base::id::DomainId;

use crate::dsm::{Dsm, Leaving, Request, Seat, Wish};
use crate::effect::{Effect, Perform};
use crate::grid::Grid;
use crate::message::Message;
use crate::table::{Entry, Store};
use crate::word::{Down, Hold, Keep, Page, Protocol, RequestId, Set, Want};

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Home, and not about to hand that over.
    pub(crate) fn is_serving(&self) -> bool {
        self.seat == Seat::Home && !matches!(self.leaving, Leaving::Handing(_) | Leaving::Gone)
    }

    fn request(&self, id: RequestId) -> Request {
        self.desk.get(id)
    }

    fn set_request(&mut self, id: RequestId, request: Request) {
        self.desk.set(id, request);
    }

    pub(crate) fn got_get(
        &mut self,
        now: u64,
        id: RequestId,
        wish: Wish,
        out: &mut (impl Perform + ?Sized),
    ) {
        if self.is_serving() && self.up().has(id.domain) {
            self.enqueue(now, id, wish, out);
        }
    }

    /// A wish comes in. One that came before (sent again after a change of homes) is the same one.
    pub(crate) fn enqueue(
        &mut self,
        now: u64,
        id: RequestId,
        wish: Wish,
        out: &mut (impl Perform + ?Sized),
    ) {
        match self.request(id) {
            Request::Active { wish: same, orphan: false, .. } if same == wish => {}
            // What it wants no more ends for nobody: its life ended, or the request was sent twice
            // around a change of homes, and was answered once already.
            Request::Active { wish: now, acks, .. } => {
                let next = Some(wish);
                self.set_request(id, Request::Active { wish: now, acks, orphan: true, next });
            }
            Request::Queued { rank, .. } => self.set_request(id, Request::Queued { wish, rank }),
            Request::Idle => {
                let queued = self.ids().filter(|id| self.rank(*id).is_some()).count();
                let rank = queued as u8 + 1;
                self.set_request(id, Request::Queued { wish, rank });
            }
        }
        self.start_requests(now, out);
    }

    fn rank(&self, id: RequestId) -> Option<u8> {
        match self.request(id) {
            Request::Queued { rank, .. } => Some(rank),
            _ => None,
        }
    }

    /// Takes a request out of the queue; those behind it move up.
    fn unqueue(&mut self, id: RequestId) {
        let Some(gone) = self.rank(id) else { return };
        self.set_request(id, Request::Idle);
        self.desk.change(|request| match request {
            Request::Queued { wish, rank } if rank > gone => {
                Request::Queued { wish, rank: rank - 1 }
            }
            other => other,
        });
    }

    /// Activates each queued request that can be, first come first. Each either stays or leaves
    /// the queue for good, so this ends.
    pub(crate) fn start_requests(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        if self.desk.is_idle() || !self.is_serving() {
            return;
        }
        let mut rank = 1;
        while let Some(id) = self.ids().find(|id| self.rank(*id) == Some(rank)) {
            let Request::Queued { wish, .. } = self.request(id) else { return };
            if self.may_start(id, wish, rank) {
                self.unqueue(id);
                self.activate(now, id, wish, out);
                // Granting may have queued or started others.
                rank = 1;
            } else {
                rank += 1;
            }
        }
    }

    fn may_start(&self, id: RequestId, wish: Wish, rank: u8) -> bool {
        let slot = self.revokes.get(id);
        let in_front = |other: Request| match other {
            Request::Idle => false,
            Request::Queued { wish: of, rank: first } => of.page == wish.page && first < rank,
            Request::Active { wish: of, .. } => of.page == wish.page,
        };
        let own_shootdown = slot != crate::dsm::Revoke::Idle || self.is_unmapping(wish.page);
        !own_shootdown && !self.desk.any(in_front)
    }

    fn activate(&mut self, now: u64, id: RequestId, wish: Wish, out: &mut (impl Perform + ?Sized)) {
        let entry = self.table.get(wish.page);
        let (acks, keep) = self.victims(&entry, id.domain, wish.want);
        self.set_request(id, Request::Active { wish, acks, orphan: false, next: None });
        if wish.want != Want::Reset && !entry.lost {
            self.moves(now, &entry, id.domain, wish.page, out);
        }
        if acks.is_empty() {
            return self.finish(now, id, out);
        }
        let message = Message::Revoke { id, page: wish.page, keep };
        let me = self.config.me;
        acks.without(me).iter().for_each(|to| out.perform(Effect::Send { to, message }));
        if acks.has(me) {
            // `may_start` saw that nothing is under way in this slot.
            let _ = self.got_revoke(now, id, wish.page, keep, out);
        }
    }

    /// Who must give up what, so that `requester` can have the page?
    pub(crate) fn victims(&self, entry: &Entry, requester: DomainId, want: Want) -> (Set, Keep) {
        if entry.lost {
            return (Set::EMPTY, Keep::Nothing);
        }
        let others = entry.holders.without(requester);
        #[cfg(test)]
        if self.is_mutant(crate::proof::Mutant::ForgetReaders) && !entry.exclusive {
            return (Set::EMPTY, Keep::Nothing);
        }
        match (want, self.config.protocol) {
            (Want::Reset, _) => (Set::EMPTY, Keep::Nothing),
            (Want::Read, Protocol::ThreeState) if entry.exclusive => (others, Keep::Read),
            (Want::Read, Protocol::ThreeState) => (Set::EMPTY, Keep::Nothing),
            (Want::Read | Want::Write, _) => (others, Keep::Nothing),
            (Want::Device, _) => (entry.holders, Keep::Nothing),
        }
    }

    pub(crate) fn got_ack(
        &mut self,
        now: u64,
        from: DomainId,
        id: RequestId,
        page: Page,
        out: &mut (impl Perform + ?Sized),
    ) {
        let Request::Active { wish, acks, orphan, next } = self.request(id) else { return };
        if self.seat != Seat::Home || wish.page != page || !acks.has(from) {
            return; // Its sender slept or died meanwhile, which was the answer.
        }
        let acks = acks.without(from);
        self.set_request(id, Request::Active { wish, acks, orphan, next });
        if acks.is_empty() {
            self.finish(now, id, out);
            self.start_requests(now, out);
            self.proceed_leave(out);
        }
    }

    /// All have answered: the directory changes, and the requester hears of it.
    fn finish(&mut self, now: u64, id: RequestId, out: &mut (impl Perform + ?Sized)) {
        let Request::Active { wish, orphan, next, .. } = self.request(id) else { return };
        self.set_request(id, Request::Idle);
        let entry = self.table.get(wish.page);
        let lost = entry.lost && wish.want != Want::Reset;
        if wish.want == Want::Reset {
            self.forget_losses(wish);
        } else if !lost {
            let receiver = if orphan { None } else { Some(id.domain) };
            let after = self.after(&entry, id.domain, receiver, wish.want);
            self.table.set(wish.page, after);
        }
        if let Some(wish) = next {
            return self.enqueue(now, id, wish, out);
        }
        if orphan {
            return;
        }
        let Wish { page, want, .. } = wish;
        if id.domain == self.config.me {
            self.granted(now, id.core, page, want, lost, out);
        } else {
            let message = Message::Grant { core: id.core, page, want, lost };
            out.perform(Effect::Send { to: id.domain, message });
        }
    }

    /// The directory when `requester`'s request is done; for nobody, when it died.
    pub(crate) fn after(
        &self,
        entry: &Entry,
        requester: DomainId,
        receiver: Option<DomainId>,
        want: Want,
    ) -> Entry {
        let (gone, keep) = self.victims(entry, requester, want);
        let left = match keep {
            Keep::Read => entry.holders,
            Keep::Nothing => Set(entry.holders.0 & !gone.0),
        };
        let with = receiver.map_or(left, |receiver| left.with(receiver));
        let reads = want == Want::Read && self.config.protocol == Protocol::ThreeState;
        let same = entry.exclusive && entry.holders == with;
        let exclusive = if reads { same } else { !with.is_empty() };
        Entry { holders: with, exclusive, ..*entry }
    }

    /// A page goes from one domain to another; too often, maybe.
    pub(crate) fn moves(
        &mut self,
        now: u64,
        entry: &Entry,
        to: DomainId,
        page: Page,
        out: &mut (impl Perform + ?Sized),
    ) {
        if !entry.holders.is_empty()
            && !entry.holders.has(to)
            && let Some(moves) = self.watch.moved(page, now)
        {
            out.perform(Effect::Thrash { page, moves });
        }
    }

    fn forget_losses(&mut self, wish: Wish) {
        for page in wish.page..wish.page + wish.count {
            let entry = self.table.get(page);
            self.table.set(page, Entry { lost: false, ..entry });
        }
    }

    /// Members are gone: what they held is lost, or in memory. First nobody of them wants anything
    /// any more, then nobody of them holds anything; only then requests that waited for one of
    /// them go on, for its next life must not get what the last one wanted.
    pub(crate) fn home_lost_peers(
        &mut self,
        now: u64,
        gone: Set,
        died: Set,
        out: &mut (impl Perform + ?Sized),
    ) {
        gone.iter().for_each(|peer| self.orphan_requests(peer));
        let mut losses = false;
        for peer in gone.iter() {
            let how = if died.has(peer) { Down::Died } else { Down::Slept };
            losses |= self.sweep(peer, how, out);
        }
        if self.is_serving() {
            self.settled = self.members();
            let message = Message::Home { round: self.round, settled: self.settled };
            self.broadcast(message, out);
        }
        if losses {
            self.broadcast(Message::Losses, out);
        }
        for peer in gone.iter() {
            for id in self.ids() {
                if let Request::Active { wish, .. } = self.request(id) {
                    self.got_ack(now, peer, id, wish.page, out);
                }
            }
        }
        self.start_requests(now, out);
        self.proceed_leave(out);
    }

    /// Takes `peer` out of the directory. Are pages lost?
    pub(crate) fn sweep(
        &mut self,
        peer: DomainId,
        how: Down,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let mut losses = false;
        for page in 0..self.table.pages() {
            let entry = self.table.get(page);
            if !entry.holders.has(peer) {
                continue;
            }
            let lost = entry.exclusive && how == Down::Died;
            let holders = entry.holders.without(peer);
            let exclusive = entry.exclusive && !holders.is_empty();
            self.table.set(page, Entry { holders, exclusive, lost, ..entry });
            if lost {
                losses = true;
                out.perform(Effect::Lost { page });
            }
        }
        losses
    }

    fn orphan_requests(&mut self, peer: DomainId) {
        for id in self.ids().filter(|id| id.domain == peer) {
            self.unqueue(id);
            if let Request::Active { wish, acks, .. } = self.request(id) {
                let orphan = Request::Active { wish, acks, orphan: true, next: None };
                self.set_request(id, orphan);
            }
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.desk.any(|request| matches!(request, Request::Active { .. }))
    }

    pub(crate) fn has_losses(&self) -> bool {
        (0..self.table.pages()).any(|page| self.table.get(page).lost)
    }

    /// Forgets what the directory says; not what this domain holds.
    pub(crate) fn clear_directory(&mut self) {
        self.desk = Grid::new(&self.config);
        for page in 0..self.table.pages() {
            let hold = self.table.hold(page);
            self.table.set(page, Entry { hold, ..Entry::FREE });
        }
    }

    /// Writes into the directory that `domain` holds `page`.
    pub(crate) fn record(&mut self, domain: DomainId, page: Page, written: bool) {
        let entry = self.table.get(page);
        let holders = entry.holders.with(domain);
        let exclusive = written || self.config.protocol == Protocol::TwoState;
        self.table.set(page, Entry { holders, exclusive, ..entry });
    }

    /// Writes down what this domain itself holds.
    pub(crate) fn record_own(&mut self) {
        for page in 0..self.table.pages() {
            let hold = self.table.hold(page);
            if hold != Hold::None {
                self.record(self.config.me, page, hold != Hold::Read);
            }
        }
    }
}
