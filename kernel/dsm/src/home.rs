//! The home's side: the directory, and the queue of requests.
//!
//! ```text
//!              first for its page             all holders have given up the page
//!   +--------+ ----------------> +--------+ ------------------------------> directory updated,
//!   | Queued |                   | Active |                                 grant, next request
//!   +--------+ <---------------- +--------+ --- requester gone: finished without a grant;
//!      ^      Get                               its later request is queued
//! ```
//! One request per page is active at a time; the others wait in order of arrival. All messages
//! about a page are between its home and one other domain, so the order of a link suffices: a grant
//! is received before the revocation that follows it.

use base::id::DomainId;

use crate::dsm::{Dsm, HomeState, Leaving, PageRequest, Request};
use crate::effect::{Effect, Perform};
use crate::grid::Grid;
use crate::message::Message;
use crate::table::{Entry, Store};
use crate::types::{DomainSet, Down, Hold, Keep, Page, Protocol, RequestId, Want};

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Returns whether this domain is the home and is not handing over.
    pub(crate) fn is_serving(&self) -> bool {
        self.home_state == HomeState::Home
            && !matches!(self.leaving, Leaving::Handing(_) | Leaving::Gone)
    }

    fn request(&self, id: RequestId) -> Request {
        self.requests.get(id)
    }

    fn set_request(&mut self, id: RequestId, request: Request) {
        self.requests.set(id, request);
    }

    pub(crate) fn on_get(
        &mut self,
        now: u64,
        id: RequestId,
        wanted: PageRequest,
        out: &mut (impl Perform + ?Sized),
    ) {
        if self.is_serving() && self.up().has(id.domain) {
            self.enqueue(now, id, wanted, out);
        }
    }

    /// Queues a request. A request that is repeated after a change of homes replaces the first.
    pub(crate) fn enqueue(
        &mut self,
        now: u64,
        id: RequestId,
        wanted: PageRequest,
        out: &mut (impl Perform + ?Sized),
    ) {
        match self.request(id) {
            Request::Active { wanted: same, orphan: false, .. } if same == wanted => {}
            // The active request finishes without a grant: its requester was gone meanwhile, or the
            // request was repeated around a change of homes and has been answered before.
            Request::Active { wanted: active, acks, .. } => {
                let next = Some(wanted);
                let orphan = Request::Active { wanted: active, acks, orphan: true, next };
                self.set_request(id, orphan);
            }
            Request::Queued { rank, .. } => self.set_request(id, Request::Queued { wanted, rank }),
            Request::Idle => {
                let queued = self.ids().filter(|id| self.rank(*id).is_some()).count();
                let rank = queued as u8 + 1;
                self.set_request(id, Request::Queued { wanted, rank });
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

    /// Removes a request from the queue; later ones move up.
    fn dequeue(&mut self, id: RequestId) {
        let Some(gone) = self.rank(id) else { return };
        self.set_request(id, Request::Idle);
        self.requests.change(|request| match request {
            Request::Queued { wanted, rank } if rank > gone => {
                Request::Queued { wanted, rank: rank - 1 }
            }
            other => other,
        });
    }

    /// Activates every queued request that can start, in order. Each one stays in the queue or
    /// leaves it for good, so this terminates.
    pub(crate) fn start_requests(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        if self.requests.is_idle() || !self.is_serving() {
            return;
        }
        let mut rank = 1;
        while let Some(id) = self.ids().find(|id| self.rank(*id) == Some(rank)) {
            let Request::Queued { wanted, .. } = self.request(id) else { return };
            if self.may_start(id, wanted, rank) {
                self.dequeue(id);
                self.activate(now, id, wanted, out);
                // A grant may have queued or started other requests.
                rank = 1;
            } else {
                rank += 1;
            }
        }
    }

    fn may_start(&self, id: RequestId, wanted: PageRequest, rank: u8) -> bool {
        let slot = self.revokes.get(id);
        let in_front = |other: Request| match other {
            Request::Idle => false,
            Request::Queued { wanted: of, rank: first } => of.page == wanted.page && first < rank,
            Request::Active { wanted: of, .. } => of.page == wanted.page,
        };
        let own_shootdown = slot != crate::dsm::Revoke::Idle || self.is_unmapping(wanted.page);
        !own_shootdown && !self.requests.any(in_front)
    }

    fn activate(
        &mut self,
        now: u64,
        id: RequestId,
        wanted: PageRequest,
        out: &mut (impl Perform + ?Sized),
    ) {
        let entry = self.table.get(wanted.page);
        let (acks, keep) = self.victims(&entry, id.domain, wanted.want);
        self.set_request(id, Request::Active { wanted, acks, orphan: false, next: None });
        if wanted.want != Want::Reset && !entry.lost {
            self.record_move(now, &entry, id.domain, wanted.page, out);
        }
        if acks.is_empty() {
            return self.finish(now, id, out);
        }
        let message = Message::Revoke { id, page: wanted.page, keep };
        let me = self.config.me;
        acks.without(me).iter().for_each(|to| out.perform(Effect::Send { to, message }));
        if acks.has(me) {
            // `may_start` has checked that this slot is idle.
            let _ = self.on_revoke(now, id, wanted.page, keep, out);
        }
    }

    /// Returns the holders that must give up the page before `requester` can have it, and what they
    /// may keep.
    pub(crate) fn victims(
        &self,
        entry: &Entry,
        requester: DomainId,
        want: Want,
    ) -> (DomainSet, Keep) {
        if entry.lost {
            return (DomainSet::EMPTY, Keep::Nothing);
        }
        let others = entry.holders.without(requester);
        #[cfg(test)]
        if self.is_mutant(crate::proof::Mutant::ForgetReaders) && !entry.exclusive {
            return (DomainSet::EMPTY, Keep::Nothing);
        }
        match (want, self.config.protocol) {
            (Want::Reset, _) => (DomainSet::EMPTY, Keep::Nothing),
            (Want::Read, Protocol::ThreeState) if entry.exclusive => (others, Keep::Read),
            (Want::Read, Protocol::ThreeState) => (DomainSet::EMPTY, Keep::Nothing),
            (Want::Read | Want::Write, _) => (others, Keep::Nothing),
            (Want::Device, _) => (entry.holders, Keep::Nothing),
        }
    }

    pub(crate) fn on_ack(
        &mut self,
        now: u64,
        from: DomainId,
        id: RequestId,
        page: Page,
        out: &mut (impl Perform + ?Sized),
    ) {
        let Request::Active { wanted, acks, orphan, next } = self.request(id) else { return };
        if self.home_state != HomeState::Home || wanted.page != page || !acks.has(from) {
            return; // The sender slept or died meanwhile, which counted as its answer.
        }
        let acks = acks.without(from);
        self.set_request(id, Request::Active { wanted, acks, orphan, next });
        if acks.is_empty() {
            self.finish(now, id, out);
            self.start_requests(now, out);
            self.continue_leaving(out);
        }
    }

    /// Completes a request that all holders have answered.
    fn finish(&mut self, now: u64, id: RequestId, out: &mut (impl Perform + ?Sized)) {
        let Request::Active { wanted, orphan, next, .. } = self.request(id) else { return };
        self.set_request(id, Request::Idle);
        let entry = self.table.get(wanted.page);
        let lost = entry.lost && wanted.want != Want::Reset;
        if wanted.want == Want::Reset {
            self.forget_losses(wanted);
        } else if !lost {
            let receiver = if orphan { None } else { Some(id.domain) };
            let after = self.entry_after(&entry, id.domain, receiver, wanted.want);
            self.table.set(wanted.page, after);
        }
        if let Some(wanted) = next {
            return self.enqueue(now, id, wanted, out);
        }
        if orphan {
            return;
        }
        let PageRequest { page, want, .. } = wanted;
        if id.domain == self.config.me {
            self.granted(now, id.core, page, want, lost, out);
        } else {
            let message = Message::Grant { core: id.core, page, want, lost };
            out.perform(Effect::Send { to: id.domain, message });
        }
    }

    /// Returns the directory entry after `requester`'s request, granted to `receiver` if there is
    /// one.
    pub(crate) fn entry_after(
        &self,
        entry: &Entry,
        requester: DomainId,
        receiver: Option<DomainId>,
        want: Want,
    ) -> Entry {
        let (gone, keep) = self.victims(entry, requester, want);
        let left = match keep {
            Keep::Read => entry.holders,
            Keep::Nothing => DomainSet(entry.holders.0 & !gone.0),
        };
        let with = receiver.map_or(left, |receiver| left.with(receiver));
        let reads = want == Want::Read && self.config.protocol == Protocol::ThreeState;
        let same = entry.exclusive && entry.holders == with;
        let exclusive = if reads { same } else { !with.is_empty() };
        Entry { holders: with, exclusive, ..*entry }
    }

    /// Counts the move of a page to another domain, and reports thrashing.
    pub(crate) fn record_move(
        &mut self,
        now: u64,
        entry: &Entry,
        to: DomainId,
        page: Page,
        out: &mut (impl Perform + ?Sized),
    ) {
        if !entry.holders.is_empty()
            && !entry.holders.has(to)
            && let Some(moves) = self.thrash_detector.moved(page, now)
        {
            out.perform(Effect::Thrash { page, moves });
        }
    }

    fn forget_losses(&mut self, wanted: PageRequest) {
        for page in wanted.page..wanted.page + wanted.count {
            let entry = self.table.get(page);
            self.table.set(page, Entry { lost: false, ..entry });
        }
    }

    /// Removes members that are gone. The order matters: first all of their requests are orphaned,
    /// then all of their pages are released, and only then requests that waited for them continue.
    /// Otherwise a member that comes back could be granted what it requested before it was gone.
    pub(crate) fn home_lost_peers(
        &mut self,
        now: u64,
        gone: DomainSet,
        died: DomainSet,
        out: &mut (impl Perform + ?Sized),
    ) {
        gone.iter().for_each(|peer| self.orphan_requests(peer));
        let mut losses = false;
        for peer in gone.iter() {
            let how = if died.has(peer) { Down::Died } else { Down::Slept };
            losses |= self.remove_holder(peer, how, out);
        }
        if self.is_serving() {
            self.member_epochs = self.members();
            let message = Message::Home { round: self.round, member_epochs: self.member_epochs };
            self.broadcast(message, out);
        }
        if losses {
            self.broadcast(Message::Losses, out);
        }
        for peer in gone.iter() {
            for id in self.ids() {
                if let Request::Active { wanted, .. } = self.request(id) {
                    self.on_ack(now, peer, id, wanted.page, out);
                }
            }
        }
        self.start_requests(now, out);
        self.continue_leaving(out);
    }

    /// Removes `peer` from the directory. Returns whether pages are lost.
    pub(crate) fn remove_holder(
        &mut self,
        peer: DomainId,
        how: Down,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let mut losses = false;
        self.for_each_used(|dsm, page| {
            let entry = dsm.table.get(page);
            if !entry.holders.has(peer) {
                return;
            }
            let lost = entry.exclusive && how == Down::Died;
            let holders = entry.holders.without(peer);
            let exclusive = entry.exclusive && !holders.is_empty();
            dsm.table.set(page, Entry { holders, exclusive, lost, ..entry });
            if lost {
                losses = true;
                out.perform(Effect::Lost { page });
            }
        });
        losses
    }

    fn orphan_requests(&mut self, peer: DomainId) {
        for id in self.ids().filter(|id| id.domain == peer) {
            self.dequeue(id);
            if let Request::Active { wanted, acks, .. } = self.request(id) {
                let orphan = Request::Active { wanted, acks, orphan: true, next: None };
                self.set_request(id, orphan);
            }
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.requests.any(|request| matches!(request, Request::Active { .. }))
    }

    pub(crate) fn has_losses(&self) -> bool {
        self.table.used(0).any(|page| self.table.get(page).lost)
    }

    /// Clears the directory, but not this domain's own rights.
    pub(crate) fn clear_directory(&mut self) {
        self.requests = Grid::new(&self.config);
        self.for_each_used(|dsm, page| {
            let hold = dsm.table.hold(page);
            dsm.table.set(page, Entry { hold, ..Entry::FREE });
        });
    }

    pub(crate) fn record(&mut self, domain: DomainId, page: Page, written: bool) {
        let entry = self.table.get(page);
        let holders = entry.holders.with(domain);
        let exclusive = written || self.config.protocol == Protocol::TwoState;
        self.table.set(page, Entry { holders, exclusive, ..entry });
    }

    /// Adds this domain's own pages to the directory.
    pub(crate) fn record_own(&mut self) {
        self.for_each_used(|dsm, page| {
            let hold = dsm.table.hold(page);
            if hold != Hold::None {
                dsm.record(dsm.config.me, page, hold != Hold::Read);
            }
        });
    }

    /// Calls `work` for each page that is not free, in order; it may change the page.
    pub(crate) fn for_each_used(&mut self, mut work: impl FnMut(&mut Self, Page)) {
        let mut next = 0;
        while let Some(page) = self.table.next_used(next) {
            work(self, page);
            next = page + 1;
        }
    }
}
