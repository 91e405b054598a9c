//! The fast path for the usual case: one core wants a page, one other domain holds it, and nothing
//! else is in progress.
//!
//! Contract: each function either does everything that the slow path would, effect for effect, with
//! a shootdown that completes immediately, or changes nothing and returns false. One exception:
//! while no other domain is up, a page is not pinned, and free ones come with it (`take_alone`).
//! Drivers try it first; so do the models, the proofs and the simulation, in every state that they
//! reach.

use abi::dsm::{kind, unpack_body};
use base::id::{CoreId, DomainId, Epoch};

use crate::dsm::{Core, Dsm, HomeState, Leaving, PageRequest, PendingAccess, Request};
use crate::effect::{Effect, Perform, Rights};
use crate::life::Life;
use crate::message::{Message, keep_of, want_of};
use crate::pin::Pins;
use crate::table::{Entry, Store};
use crate::types::{DomainSet, Hold, Keep, Page, Protocol, RequestId, Want};

/// Pages that a domain takes after the one that it wants to write, while no other domain is up.
const AHEAD: Page = 7;

/// Returns the purpose if it is loads or stores, and `None` for transfers, resets and lost pages.
const fn plain(argument: u8) -> Option<Want> {
    match want_of(argument) {
        Some(want @ (Want::Read | Want::Write)) => Some(want),
        _ => None,
    }
}

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Handles a message given by its first word. If this returns false, use [`Dsm::handle`].
    pub fn handle_fast(
        &mut self,
        now: impl Fn() -> u64,
        from: DomainId,
        epoch: Epoch,
        body: u64,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        #[cfg(test)]
        if self.is_mutant(crate::proof::Mutant::NoPin) {
            return false;
        }
        let (kind, domain, core, argument, page) = unpack_body(body);
        let known = self.peers.get(from.index());
        let speaks = known.is_some_and(|peer| peer.life == Life::Up && peer.epoch == epoch);
        let id = RequestId { domain: DomainId(domain), core: CoreId(core) };
        let makes_sense = core < self.config.cores && page < self.table.pages();
        if !speaks || !makes_sense || !self.is_quiet() {
            return false;
        }
        match (kind, plain(argument)) {
            (kind::GET, Some(want)) => self.fast_get(now, from, id.core, page, want, out),
            (kind::GRANT, Some(want)) => self.fast_grant(now, from, id.core, page, want, out),
            (kind::ACK, _) => self.fast_ack(now, from, id, page, out),
            (kind::REVOKE, _) if domain < self.config.domains => {
                let Some(keep) = keep_of(argument) else { return false };
                self.fast_revoke(now, from, id, page, keep, out)
            }
            _ => false,
        }
    }

    /// Returns whether no revocation is in progress here and this domain is not leaving.
    fn is_quiet(&self) -> bool {
        self.leaving == Leaving::No && self.revokes.is_idle()
    }

    /// Starts the access of a core to a page that this domain does not hold; at the home also ends
    /// it, if no other domain has to give up the page.
    pub(crate) fn fast_access(
        &mut self,
        now: impl Fn() -> u64,
        core: CoreId,
        page: Page,
        want: Want,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        #[cfg(test)]
        if self.is_mutant(crate::proof::Mutant::NoPin) {
            return false;
        }
        let plain = matches!(want, Want::Read | Want::Write) && page < self.table.pages();
        let free = self.cores.get(core.index()).is_some_and(|core| core.pending.is_none());
        if !plain || !free || !self.is_quiet() || self.table.hold(page) != Hold::None {
            return false;
        }
        match self.home_state {
            HomeState::Known(to, _) if self.peers[to.index()].life == Life::Up => {
                let message = Message::Get { core, page, want, count: 1 };
                out.perform(Effect::Send { to, message });
            }
            HomeState::Home if self.requests.is_idle() => {
                let id = RequestId { domain: self.config.me, core };
                let entry = self.table.get(page);
                let (acks, keep) = self.victims(&entry, id.domain, want);
                if acks.is_empty() {
                    return self.fast_own(now, core, (page, entry), want, out);
                }
                let Some(to) = acks.single() else { return false };
                out.perform(Effect::Send { to, message: Message::Revoke { id, page, keep } });
                let wanted = PageRequest { page, want, count: 1 };
                self.requests.set(id, Request::Active { wanted, acks, orphan: false, next: None });
                self.record_move(now(), &entry, id.domain, page, out);
            }
            _ => return false,
        }
        let Core { pending, pins } = &mut self.cores[core.index()];
        if !pins.is_empty() {
            pins.retire(now());
        }
        *pending = Some(PendingAccess { page, count: 1, got: 0, want, sent: true });
        true
    }

    /// Takes a page at the home that no other domain has to give up.
    fn fast_own(
        &mut self,
        now: impl Fn() -> u64,
        core: CoreId,
        (page, entry): (Page, Entry),
        want: Want,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        if entry.lost {
            return false;
        }
        let me = self.config.me;
        let after = self.entry_after(&entry, me, Some(me), want);
        if self.up().is_empty() {
            self.take_alone((page, after), want, out);
            out.perform(Effect::Complete { core, result: Ok(()) });
            return true;
        }
        let now = now();
        self.record_move(now, &entry, me, page, out);
        self.cores[core.index()].pins.retire(now);
        self.fast_take(now, core, (page, after), want, out)
    }

    /// Takes a page while no other domain is up. It needs no pin: if one comes up and takes it
    /// before its instruction has executed, the next fault pins it. Memory that a domain begins to
    /// write is rarely a single page, so it takes the free ones that follow, too.
    fn take_alone(
        &mut self,
        (page, entry): (Page, Entry),
        want: Want,
        out: &mut (impl Perform + ?Sized),
    ) {
        self.map(page, entry, want, out);
        if want == Want::Write {
            let end = self.table.pages().min(page + 1 + AHEAD);
            let is_free = |&page: &Page| self.table.get(page) == Entry::FREE;
            let free = (page + 1..end).take_while(is_free).count() as Page;
            (page + 1..page + 1 + free).for_each(|page| self.map(page, entry, want, out));
        }
    }

    /// Sets the entry of a page that this domain takes, and maps it.
    fn map(&mut self, page: Page, entry: Entry, want: Want, out: &mut (impl Perform + ?Sized)) {
        let (hold, rights) = match (want, entry.hold) {
            (Want::Write, _) | (_, Hold::Write) => (Hold::Write, Rights::Write),
            _ => (Hold::Read, Rights::Read),
        };
        self.table.set(page, Entry { hold, ..entry });
        out.perform(Effect::Map { page, rights });
    }

    /// Gives up a page immediately, if it is not pinned and needs no shootdown of other cores.
    fn fast_give_up(
        &self,
        now: impl Fn() -> u64,
        (page, hold): (Page, Hold),
        keep: Keep,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let pins =
            |pins: &Pins| !pins.is_empty() && pins.until(page, keep).is_some_and(|end| now() < end);
        if !(hold == Hold::Write || hold == Hold::Read && keep == Keep::Nothing)
            || self.cores[..self.config.cores as usize].iter().any(|core| pins(&core.pins))
            || !out.unmap_now(page, keep)
        {
            return false;
        }
        self.write_back(page, hold, keep, out);
        true
    }

    #[inline(never)]
    fn fast_revoke(
        &mut self,
        now: impl Fn() -> u64,
        from: DomainId,
        id: RequestId,
        page: Page,
        keep: Keep,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let held = (page, self.table.hold(page));
        if !self.is_from_home(from) || !self.fast_give_up(now, held, keep, out) {
            return false;
        }
        out.perform(Effect::Send { to: from, message: Message::Ack { id, page } });
        self.table.set_hold(page, hold_after(keep));
        true
    }

    /// Handles a request at the home, if the home is also the only holder.
    #[inline(never)]
    fn fast_get(
        &mut self,
        now: impl Fn() -> u64,
        from: DomainId,
        core: CoreId,
        page: Page,
        want: Want,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        if self.home_state != HomeState::Home || !self.requests.is_idle() {
            return false;
        }
        let entry = self.table.get(page);
        let (acks, keep) = self.victims(&entry, from, want);
        let held = (page, entry.hold);
        if acks != DomainSet::only(self.config.me) || !self.fast_give_up(&now, held, keep, out) {
            return false;
        }
        let message = Message::Grant { core, page, want, lost: false };
        out.perform(Effect::Send { to: from, message });
        let entry = Entry { hold: hold_after(keep), ..entry };
        self.record_move(now(), &entry, from, page, out);
        self.table.set(page, self.entry_after(&entry, from, Some(from), want));
        true
    }

    #[inline(never)]
    fn fast_grant(
        &mut self,
        now: impl Fn() -> u64,
        from: DomainId,
        core: CoreId,
        page: Page,
        want: Want,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let entry = self.table.get(page);
        if !self.is_from_home(from) || !self.waits_only_for(core, page, want) || device_uses(&entry)
        {
            return false;
        }
        self.fast_take(now(), core, (page, entry), want, out)
    }

    /// Handles the answer to a request of the home's own core.
    #[inline(never)]
    fn fast_ack(
        &mut self,
        now: impl Fn() -> u64,
        from: DomainId,
        id: RequestId,
        page: Page,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let Request::Active { wanted, acks, orphan: false, next: None } = self.requests.get(id)
        else {
            return false;
        };
        let mine = self.home_state == HomeState::Home
            && id.domain == self.config.me
            && self.requests.is_single();
        let entry = self.table.get(page);
        let this = wanted.page == page && acks == DomainSet::only(from) && !entry.lost;
        let waits = this && self.waits_only_for(id.core, page, wanted.want);
        if !mine || !waits || device_uses(&entry) {
            return false;
        }
        self.requests.set(id, Request::Idle);
        let shared = wanted.want == Want::Read && self.config.protocol == Protocol::ThreeState;
        let entry = match shared {
            true => self.entry_after(&entry, id.domain, Some(id.domain), Want::Read),
            false => Entry { holders: DomainSet::only(id.domain), exclusive: true, ..entry },
        };
        self.fast_take(now(), id.core, (page, entry), wanted.want, out)
    }

    /// Returns whether this core waits for just this page, for loads or stores.
    fn waits_only_for(&self, core: CoreId, page: Page, want: Want) -> bool {
        let wanted = PendingAccess { page, count: 1, got: 0, want, sent: true };
        matches!(want, Want::Read | Want::Write)
            && self.cores.get(core.index()).is_some_and(|core| core.pending == Some(wanted))
    }

    fn fast_take(
        &mut self,
        now: u64,
        core: CoreId,
        (page, entry): (Page, Entry),
        want: Want,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        self.map(page, entry, want, out);
        let (hold, limit) = (self.config.hold, self.config.limit);
        let Core { pending, pins } = &mut self.cores[core.index()];
        *pending = None;
        pins.add(page, want == Want::Write, now.saturating_add(hold), now.saturating_add(limit));
        out.perform(Effect::Complete { core, result: Ok(()) });
        true
    }
}

fn device_uses(entry: &Entry) -> bool {
    entry.hold == Hold::Device
}

/// Returns the rights that `keep` leaves.
pub(crate) const fn hold_after(keep: Keep) -> Hold {
    match keep {
        Keep::Read => Hold::Read,
        Keep::Nothing => Hold::None,
    }
}
