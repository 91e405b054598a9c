//! The fast path for the usual case: one core wants a page, one other domain holds it, and nothing
//! else is in progress.
//!
//! Contract: each function either does everything that the slow path would, effect for effect, with
//! a shootdown that completes immediately, or changes nothing and returns false. Drivers try it
//! first; models, proofs and the simulation compare it with the slow path in every state they
//! reach.

use abi::dsm::{kind, unpack_body};
use base::id::{CoreId, DomainId, Epoch};

use crate::dsm::{Core, Dsm, Leaving, Request, Seat, Task, Wish};
use crate::effect::{Effect, Perform, Rights};
use crate::lives::Life;
use crate::message::{Message, keep_of, want_of};
use crate::pin::Pins;
use crate::table::{Entry, Store};
use crate::word::{Hold, Keep, Page, Protocol, RequestId, Set, Want};

/// Returns the purpose if it is loads or stores, and `None` for transfers, resets and lost pages.
const fn plain(argument: u8) -> Option<Want> {
    match want_of(argument) {
        Some(want @ (Want::Read | Want::Write)) => Some(want),
        _ => None,
    }
}

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Handles a message given by its first word. If this returns false, use [`Dsm::handle`].
    pub fn quick(
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
            (kind::GET, Some(want)) => self.quick_get(now, from, id.core, page, want, out),
            (kind::GRANT, Some(want)) => self.quick_grant(now, from, id.core, page, want, out),
            (kind::ACK, _) => self.quick_ack(now, from, id, page, out),
            (kind::REVOKE, _) if domain < self.config.domains => {
                let Some(keep) = keep_of(argument) else { return false };
                self.quick_revoke(now, from, id, page, keep, out)
            }
            _ => false,
        }
    }

    /// Returns whether no revocation is in progress here and this domain is not leaving.
    fn is_quiet(&self) -> bool {
        self.leaving == Leaving::No && self.revokes.is_idle()
    }

    /// Starts the access of a core to a page that this domain does not hold.
    pub(crate) fn quick_access(
        &mut self,
        now: impl Fn() -> u64,
        core: CoreId,
        page: Page,
        want: Want,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let plain = matches!(want, Want::Read | Want::Write) && page < self.table.pages();
        let free = self.cores.get(core.index()).is_some_and(|core| core.task.is_none());
        if !plain || !free || !self.is_quiet() || self.table.hold(page) != Hold::None {
            return false;
        }
        match self.seat {
            Seat::Known(to, _) if self.peers[to.index()].life == Life::Up => {
                let message = Message::Get { core, page, want, count: 1 };
                out.perform(Effect::Send { to, message });
            }
            Seat::Home if self.desk.is_idle() => {
                let id = RequestId { domain: self.config.me, core };
                let entry = self.table.get(page);
                let (acks, keep) = self.victims(&entry, id.domain, want);
                let Some(to) = acks.single() else { return false };
                out.perform(Effect::Send { to, message: Message::Revoke { id, page, keep } });
                let wish = Wish { page, want, count: 1 };
                self.desk.set(id, Request::Active { wish, acks, orphan: false, next: None });
                self.moves(now(), &entry, id.domain, page, out);
            }
            _ => return false,
        }
        let Core { task, pins } = &mut self.cores[core.index()];
        if !pins.is_empty() {
            pins.retire(now());
        }
        *task = Some(Task { page, count: 1, got: 0, want, sent: true });
        true
    }

    /// Gives up a page immediately, if it is not pinned and needs no shootdown of other cores.
    fn quick_give_up(
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
    fn quick_revoke(
        &mut self,
        now: impl Fn() -> u64,
        from: DomainId,
        id: RequestId,
        page: Page,
        keep: Keep,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let held = (page, self.table.hold(page));
        if !self.is_home(from) || !self.quick_give_up(now, held, keep, out) {
            return false;
        }
        out.perform(Effect::Send { to: from, message: Message::Ack { id, page } });
        self.table.set_hold(page, left_of(keep));
        true
    }

    /// Handles a request at the home, if the home is also the only holder.
    #[inline(never)]
    fn quick_get(
        &mut self,
        now: impl Fn() -> u64,
        from: DomainId,
        core: CoreId,
        page: Page,
        want: Want,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        if self.seat != Seat::Home || !self.desk.is_idle() {
            return false;
        }
        let entry = self.table.get(page);
        let (acks, keep) = self.victims(&entry, from, want);
        let held = (page, entry.hold);
        if acks != Set::only(self.config.me) || !self.quick_give_up(&now, held, keep, out) {
            return false;
        }
        let message = Message::Grant { core, page, want, lost: false };
        out.perform(Effect::Send { to: from, message });
        let entry = Entry { hold: left_of(keep), ..entry };
        self.moves(now(), &entry, from, page, out);
        self.table.set(page, self.after(&entry, from, Some(from), want));
        true
    }

    #[inline(never)]
    fn quick_grant(
        &mut self,
        now: impl Fn() -> u64,
        from: DomainId,
        core: CoreId,
        page: Page,
        want: Want,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let entry = self.table.get(page);
        if !self.is_home(from) || !self.is_sole_wish(core, page, want) || had_by_device(&entry) {
            return false;
        }
        self.quick_take(now(), core, (page, entry), want, out)
    }

    /// Handles the answer to a request of the home's own core.
    #[inline(never)]
    fn quick_ack(
        &mut self,
        now: impl Fn() -> u64,
        from: DomainId,
        id: RequestId,
        page: Page,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let Request::Active { wish, acks, orphan: false, next: None } = self.desk.get(id) else {
            return false;
        };
        let mine = self.seat == Seat::Home && id.domain == self.config.me && self.desk.is_single();
        let entry = self.table.get(page);
        let this = wish.page == page && acks == Set::only(from) && !entry.lost;
        let wanted = this && self.is_sole_wish(id.core, page, wish.want);
        if !mine || !wanted || had_by_device(&entry) {
            return false;
        }
        self.desk.set(id, Request::Idle);
        let shared = wish.want == Want::Read && self.config.protocol == Protocol::ThreeState;
        let entry = match shared {
            true => self.after(&entry, id.domain, Some(id.domain), Want::Read),
            false => Entry { holders: Set::only(id.domain), exclusive: true, ..entry },
        };
        self.quick_take(now(), id.core, (page, entry), wish.want, out)
    }

    /// Returns whether this core waits for just this page, for loads or stores.
    fn is_sole_wish(&self, core: CoreId, page: Page, want: Want) -> bool {
        let wish = Task { page, count: 1, got: 0, want, sent: true };
        matches!(want, Want::Read | Want::Write)
            && self.cores.get(core.index()).is_some_and(|core| core.task == Some(wish))
    }

    fn quick_take(
        &mut self,
        now: u64,
        core: CoreId,
        (page, entry): (Page, Entry),
        want: Want,
        out: &mut (impl Perform + ?Sized),
    ) -> bool {
        let (hold, rights) = match (want, entry.hold) {
            (Want::Write, _) | (_, Hold::Write) => (Hold::Write, Rights::Write),
            _ => (Hold::Read, Rights::Read),
        };
        self.table.set(page, Entry { hold, ..entry });
        out.perform(Effect::Map { page, rights });
        let (hold, limit) = (self.config.hold, self.config.limit);
        let Core { task, pins } = &mut self.cores[core.index()];
        *task = None;
        pins.add(page, want == Want::Write, now.saturating_add(hold), now.saturating_add(limit));
        out.perform(Effect::Complete { core, result: Ok(()) });
        true
    }
}

fn had_by_device(entry: &Entry) -> bool {
    entry.hold == Hold::Device
}

/// Returns the rights that `keep` leaves.
pub(crate) const fn left_of(keep: Keep) -> Hold {
    match keep {
        Keep::Read => Hold::Read,
        Keep::Nothing => Hold::None,
    }
}
