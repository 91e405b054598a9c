//! Leaving: a domain that powers down gives up all of its pages at once.
//!
//! It unmaps and cleans everything, so memory is up to date; then one message to the home gives up
//! all pages. If the domain is the home itself, one message makes another domain the home, which
//! asks the others what they hold (with two domains there is none to ask). Afterwards no event
//! needs the domain awake: it holds nothing, and no request is queued there. Requesters whose
//! requests reached it in the meantime repeat them when they learn of the new home.

use crate::dsm::{Dsm, HomeState, Leaving, Revoke};
use crate::effect::{Effect, Perform};
use crate::table::Store;
use crate::types::{Hold, Keep, LeaveError};

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Starts to leave. From now on no core of this domain may access coherent pages, until
    /// [`Effect::Left`] or, if the domain must stay, [`Effect::Stays`].
    pub fn leave(&mut self, out: &mut (impl Perform + ?Sized)) -> Result<(), LeaveError> {
        let waits = self.cores.iter().any(|core| core.pending.is_some());
        let unmapping = |revoke: Revoke| matches!(revoke, Revoke::Unmapping { .. });
        let device = |page| self.table.hold(page) == Hold::Device;
        if waits
            || self.leaving != Leaving::No
            || self.revokes.any(unmapping)
            || self.table.used(0).any(device)
        {
            return Err(LeaveError::Busy);
        }
        if self.home_state == HomeState::Home && self.has_losses() {
            return Err(LeaveError::LostPages);
        }
        self.cores.iter_mut().for_each(|core| core.pins.clear());
        self.leaving = Leaving::Unmapping;
        out.perform(Effect::UnmapAll);
        Ok(())
    }

    /// Reports the end of the shootdown that [`Effect::UnmapAll`] started.
    pub fn all_unmapped(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        if self.leaving != Leaving::Unmapping {
            return;
        }
        self.for_each_used(|dsm, page| dsm.give_up(page, Keep::Nothing, out));
        self.all_given_up(now, out);
    }

    /// Cancels leaving, if all pages have been given up and no request to leave is outstanding at
    /// another domain. Otherwise returns false and changes nothing.
    pub fn cancel_leave(&mut self) -> bool {
        let early = self.leaving == Leaving::Empty;
        if early {
            self.leaving = Leaving::No;
        }
        early
    }
}
