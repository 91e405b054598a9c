//! The requester's and the holder's side: accesses, grants, revocations, pins.
//!
//! ```text
//! a page in this domain       Get/Grant Read        Get/Grant Write, or two-state: locally
//!   +------+ -----------------------> +------+ ------------------------> +-------+
//!   | None |                          | Read |                           | Write |
//!   +------+ <----------------------- +------+ <------------------------ +-------+
//!    ^  |  ^   Revoke Nothing: unmap,          Revoke Read: unmap,          |
//!    |  |  |   invalidate                      clean                        |
//!    |  |  +----------------------------------------------------------------+
//!    |  |                      Revoke Nothing: unmap, clean, invalidate
//!    |  +--- Grant Device ---> +--------+  transfer done: to Read
//!    +------- (never) -------- | Device |  Revoke waits until then
//!                              +--------+
//! ```
//! A page with a revocation in progress ([`Revoke`] not idle) does not count as held for a new
//! access: the access goes to the home and queues after the request that caused the revocation.
//! So no sequence of accesses keeps a page forever.

use base::id::CoreId;

use crate::dsm::{Core, Dsm, HomeState, Leaving, PageRequest, PendingAccess, Revoke};
use crate::effect::{Effect, Perform, Rights};
use crate::fast::hold_after;
use crate::message::Message;
use crate::table::Store;
use crate::types::{Access, AccessError, Handled, Hold, Keep, Page, Protocol, RequestId, Want};

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Starts an access on which `core` faulted. [`Effect::Complete`] ends it, possibly before this
    /// returns; until then the core polls for messages.
    pub fn access(
        &mut self,
        now: impl Fn() -> u64,
        core: CoreId,
        access: Access,
        out: &mut (impl Perform + ?Sized),
    ) -> Result<(), AccessError> {
        let count = if access.crosses { 2 } else { 1 };
        if count == 1 && self.fast_access(&now, core, access.page, access.want, out) {
            return Ok(());
        }
        if access.want == Want::Reset || access.crosses && access.want == Want::Device {
            return Err(AccessError::Range);
        }
        self.start_access(
            now(),
            core,
            PageRequest { page: access.page, want: access.want, count },
            out,
        )
    }

    /// Makes lost pages usable again. The state of the service that used them must have been
    /// discarded.
    pub fn reset(
        &mut self,
        now: u64,
        core: CoreId,
        page: Page,
        count: u32,
        out: &mut (impl Perform + ?Sized),
    ) -> Result<(), AccessError> {
        self.start_access(now, core, PageRequest { page, want: Want::Reset, count }, out)
    }

    /// Reports that the instruction whose access was completed for `core` has retired.
    pub fn retired(&mut self, now: u64, core: CoreId, out: &mut (impl Perform + ?Sized)) {
        if let Some(core) = self.cores.get_mut(core.index()) {
            core.pins.retire(now);
        }
        self.tick(now, out);
    }

    /// Returns whether `core` has pinned pages.
    pub fn has_pins(&self, core: CoreId) -> bool {
        self.cores.get(core.index()).is_some_and(|core| !core.pins.is_empty())
    }

    /// Reports that `core` released the service lock under which it obtained its pages.
    pub fn released(&mut self, now: u64, core: CoreId, out: &mut (impl Perform + ?Sized)) {
        if let Some(core) = self.cores.get_mut(core.index()) {
            core.pins.release(now);
        }
        self.tick(now, out);
    }

    /// Reports the end of a device transfer.
    pub fn device_done(&mut self, now: u64, page: Page, out: &mut (impl Perform + ?Sized)) {
        if self.hold(page) == Some(Hold::Device) {
            self.table.set_hold(page, Hold::Read);
            out.perform(Effect::Map { page, rights: Rights::Read });
            self.tick(now, out);
        }
    }

    /// Reports the end of the shootdown that [`Effect::Unmap`] started: no core of this domain can
    /// access the page (or write it, if reading was kept).
    pub fn unmapped(&mut self, now: u64, work: RequestId, out: &mut (impl Perform + ?Sized)) {
        let Revoke::Unmapping { page, keep, orphan } = self.revokes.get(work) else { return };
        self.revokes.set(work, Revoke::Idle);
        self.give_up(page, keep, out);
        if !orphan {
            self.answer(now, work, page, out);
        }
        self.serve_deferred(now, out);
        self.start_requests(now, out);
    }

    fn start_access(
        &mut self,
        now: u64,
        core: CoreId,
        wanted: PageRequest,
        out: &mut (impl Perform + ?Sized),
    ) -> Result<(), AccessError> {
        if self.leaving != Leaving::No {
            return Err(AccessError::Leaving);
        }
        if !self.in_region(wanted.page, wanted.count) {
            return Err(AccessError::Range);
        }
        let PageRequest { page, want, count } = wanted;
        let on_device = |page: &Page| self.table.hold(*page) == Hold::Device;
        if want != Want::Reset && (page..page + count).any(|page| on_device(&page)) {
            return Err(AccessError::Device);
        }
        let Core { pending, pins } = self.cores.get_mut(core.index()).ok_or(AccessError::Range)?;
        if pending.is_some() {
            return Err(AccessError::Busy);
        }
        pins.retire(now);
        *pending = Some(PendingAccess { page, count, got: 0, want, sent: false });
        self.advance(now, core, out);
        self.serve_deferred(now, out);
        Ok(())
    }

    /// Pins the pages that are held, and requests the first one that is not.
    pub(crate) fn advance(&mut self, now: u64, core: CoreId, out: &mut (impl Perform + ?Sized)) {
        while let Some(pending) = self.cores[core.index()].pending {
            if pending.got == pending.count {
                return self.complete(now, core, Ok(()), out);
            }
            let page = self.next_page(&pending);
            if pending.want == Want::Reset || !self.holds(page, pending.want, out) {
                return self.ask_home(now, core, out);
            }
            self.pin(core, page, pending.want);
        }
    }

    fn next_page(&self, pending: &PendingAccess) -> Page {
        #[cfg(test)]
        let odd = self.config.me.0 % 2 == 1 && pending.want != Want::Reset;
        #[cfg(test)]
        if odd && self.is_mutant(crate::proof::Mutant::Descending) {
            return pending.page + pending.count - 1 - pending.got;
        }
        pending.page + pending.got
    }

    fn pin(&mut self, core: CoreId, page: Page, want: Want) {
        let Core { pending, pins } = &mut self.cores[core.index()];
        pins.open(page, want == Want::Write);
        if let Some(pending) = pending {
            pending.got += 1;
        }
    }

    fn complete(
        &mut self,
        now: u64,
        core: CoreId,
        result: Result<(), AccessError>,
        out: &mut (impl Perform + ?Sized),
    ) {
        let (hold, limit) = (self.config.hold, self.config.limit);
        let Core { pending, pins } = &mut self.cores[core.index()];
        // A device's page needs no pin: it stays until the transfer is done.
        let device = pending.take().is_some_and(|pending| pending.want == Want::Device);
        match result {
            Ok(()) if !device => pins.set(now.saturating_add(hold), now.saturating_add(limit)),
            _ => pins.drop_open(),
        }
        #[cfg(test)]
        if self.config.mutant == Some(crate::proof::Mutant::NoPin) {
            self.cores[core.index()].pins.clear();
        }
        out.perform(Effect::Complete { core, result });
    }

    /// Returns whether the page is held for this purpose. In the two-state protocol the owner may
    /// upgrade a page to writing without asking the home.
    fn holds(&mut self, page: Page, want: Want, out: &mut (impl Perform + ?Sized)) -> bool {
        let hold = self.table.hold(page);
        if self.is_revoked(page) {
            return false;
        }
        match (want, hold) {
            (Want::Read, Hold::Read | Hold::Write) | (Want::Write, Hold::Write) => true,
            (Want::Write, Hold::Read) if self.config.protocol == Protocol::TwoState => {
                self.table.set_hold(page, Hold::Write);
                out.perform(Effect::Map { page, rights: Rights::Write });
                true
            }
            _ => false,
        }
    }

    fn is_revoked(&self, page: Page) -> bool {
        self.revokes.any(|revoke| match revoke {
            Revoke::Idle => false,
            Revoke::Deferred { page: of, .. } | Revoke::Unmapping { page: of, .. } => of == page,
        })
    }

    pub(crate) fn is_unmapping(&self, page: Page) -> bool {
        self.revokes
            .any(|revoke| matches!(revoke, Revoke::Unmapping { page: of, .. } if of == page))
    }

    /// Sends the core's request to the home. Without a home the request stays pending, and
    /// `send_parked` sends it later.
    pub(crate) fn ask_home(&mut self, now: u64, core: CoreId, out: &mut (impl Perform + ?Sized)) {
        let Some(pending) = self.cores[core.index()].pending.filter(|pending| !pending.sent) else {
            return;
        };
        let count = if pending.want == Want::Reset { pending.count } else { 1 };
        let wanted = PageRequest { page: self.next_page(&pending), want: pending.want, count };
        let serving = self.is_serving();
        match self.home_state {
            HomeState::Home if serving => {}
            HomeState::Known(home, _) if self.up().has(home) => {
                let PageRequest { page, want, count } = wanted;
                out.perform(Effect::Send {
                    to: home,
                    message: Message::Get { core, page, want, count },
                });
            }
            _ => return,
        }
        self.cores[core.index()].pending = Some(PendingAccess { sent: true, ..pending });
        if serving {
            self.enqueue(now, RequestId { domain: self.config.me, core }, wanted, out);
        }
    }

    pub(crate) fn on_grant(
        &mut self,
        now: u64,
        core: CoreId,
        (page, want): (Page, Want),
        lost: bool,
        out: &mut (impl Perform + ?Sized),
    ) -> Handled {
        if self.is_unmapping(page) {
            return Handled::Later;
        }
        self.granted(now, core, page, want, lost, out);
        Handled::Done
    }

    /// Handles a grant of the home, which may be this domain.
    pub(crate) fn granted(
        &mut self,
        now: u64,
        core: CoreId,
        page: Page,
        want: Want,
        lost: bool,
        out: &mut (impl Perform + ?Sized),
    ) {
        let Some(pending) = self.cores[core.index()].pending else { return };
        if !pending.sent || pending.want != want || self.next_page(&pending) != page {
            return; // The core no longer waits for this.
        }
        if lost {
            return self.complete(now, core, Err(AccessError::Lost), out);
        }
        if want == Want::Reset {
            return self.complete(now, core, Ok(()), out);
        }
        let had = self.table.hold(page);
        if had == Hold::Device {
            return self.complete(now, core, Err(AccessError::Device), out);
        }
        self.take(page, want, had, out);
        self.cores[core.index()].pending = Some(PendingAccess { sent: false, ..pending });
        self.pin(core, page, want);
        self.advance(now, core, out);
    }

    fn take(&mut self, page: Page, want: Want, had: Hold, out: &mut (impl Perform + ?Sized)) {
        let hold = match want {
            Want::Read | Want::Reset => had.max(Hold::Read),
            Want::Write => Hold::Write,
            Want::Device => Hold::Device,
        };
        self.table.set_hold(page, hold);
        match hold {
            Hold::Read => out.perform(Effect::Map { page, rights: Rights::Read }),
            Hold::Write => out.perform(Effect::Map { page, rights: Rights::Write }),
            Hold::None | Hold::Device => {}
        }
    }

    pub(crate) fn on_revoke(
        &mut self,
        now: u64,
        id: RequestId,
        page: Page,
        keep: Keep,
        out: &mut (impl Perform + ?Sized),
    ) -> Handled {
        if self.revokes.get(id) != Revoke::Idle {
            return Handled::Later;
        }
        self.revokes.set(id, Revoke::Deferred { page, keep });
        self.serve(now, id, out);
        Handled::Done
    }

    /// Continues the deferred revocations that pins no longer block.
    pub(crate) fn serve_deferred(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        if !self.revokes.is_idle() {
            self.ids().for_each(|id| self.serve(now, id, out));
        }
    }

    fn serve(&mut self, now: u64, id: RequestId, out: &mut (impl Perform + ?Sized)) {
        let Revoke::Deferred { page, keep } = self.revokes.get(id) else { return };
        let hold = self.table.hold(page);
        let mut state = Revoke::Idle;
        if !is_within(hold, keep) {
            let pinned = self.pinned_until(page, keep).is_some_and(|end| now < end);
            // A revocation by a former home may still be unmapping the page, and leave fewer
            // rights.
            if pinned || self.is_unmapping(page) || self.leaving == Leaving::Unmapping {
                return;
            }
            state = Revoke::Unmapping { page, keep, orphan: false };
        }
        self.revokes.set(id, state);
        if state == Revoke::Idle {
            self.answer(now, id, page, out);
        } else {
            out.perform(Effect::Unmap { page, keep, work: id });
        }
    }

    /// Returns the time until which pins block a revocation of the page that leaves `keep`.
    pub(crate) fn pinned_until(&self, page: Page, keep: Keep) -> Option<u64> {
        if self.table.hold(page) == Hold::Device {
            return Some(u64::MAX);
        }
        self.cores[..self.config.cores as usize]
            .iter()
            .filter_map(|core| core.pins.until(page, keep))
            .max()
    }

    /// Writes back and drops the cached lines of a page that is no longer mapped, and records the
    /// rights that `keep` leaves.
    pub(crate) fn give_up(&mut self, page: Page, keep: Keep, out: &mut (impl Perform + ?Sized)) {
        let hold = self.table.hold(page);
        if !is_within(hold, keep) {
            self.write_back(page, hold, keep, out);
            self.table.set_hold(page, hold_after(keep));
        }
    }

    /// Writes back and drops cached lines of a page held as `hold`, except what `keep` allows.
    #[inline(always)]
    pub(crate) fn write_back(
        &self,
        page: Page,
        hold: Hold,
        keep: Keep,
        out: &mut (impl Perform + ?Sized),
    ) {
        let written = hold == Hold::Write;
        #[cfg(test)]
        let written = written && !self.is_mutant(crate::proof::Mutant::NoClean);
        #[cfg(test)]
        if self.is_mutant(crate::proof::Mutant::NoInvalidate) {
            return out.perform(Effect::Clean { page });
        }
        match (written, keep) {
            (true, Keep::Nothing) => out.perform(Effect::CleanAndInvalidate { page }),
            (false, Keep::Nothing) => out.perform(Effect::Invalidate { page }),
            (true, Keep::Read) => out.perform(Effect::Clean { page }),
            (false, Keep::Read) => {}
        }
    }

    fn answer(&mut self, now: u64, id: RequestId, page: Page, out: &mut (impl Perform + ?Sized)) {
        match self.home_state {
            HomeState::Home => self.on_ack(now, self.config.me, id, page, out),
            HomeState::Known(to, _) => {
                out.perform(Effect::Send { to, message: Message::Ack { id, page } })
            }
            HomeState::Claiming { .. } | HomeState::Waiting => {}
        }
    }
}

/// Returns whether `hold` is no more than `keep` allows.
fn is_within(hold: Hold, keep: Keep) -> bool {
    hold == Hold::None || keep == Keep::Read && hold == Hold::Read
}
