//! Leaving: a domain that powers down hands over all of its pages at once.
//!
//! It unmaps and cleans everything it has; then one message to the home gives all of it up, for
//! memory has it. If it is the home itself, one message makes another domain the home, which asks
//! the others what they hold (with two domains there is nobody to ask). Nothing needs to wake the
//! domain after that: nobody has it as a holder, and no request is at it. Requests that came to
//! it meanwhile are sent again by their requesters when they hear of the new home.

use crate::dsm::{Dsm, Leaving, Revoke, Seat};
use crate::effect::{Effect, Perform};
use crate::table::Store;
use crate::word::{Hold, Keep, LeaveError};

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Begins to leave. No core of this domain may access coherent pages from now on;
    /// [`Effect::Left`] ends it.
    pub fn leave(&mut self, out: &mut (impl Perform + ?Sized)) -> Result<(), LeaveError> {
        let waits = self.cores.iter().any(|core| core.task.is_some());
        let unmapping = |revoke: Revoke| matches!(revoke, Revoke::Unmapping { .. });
        let pages = 0..self.table.pages();
        let device = |page| self.table.hold(page) == Hold::Device;
        if waits
            || self.leaving != Leaving::No
            || self.revokes.any(unmapping)
            || pages.clone().any(device)
        {
            return Err(LeaveError::Busy);
        }
        if self.seat == Seat::Home && self.has_losses() {
            return Err(LeaveError::LostPages);
        }
        self.cores.iter_mut().for_each(|core| core.pins.clear());
        self.leaving = Leaving::Unmapping;
        out.perform(Effect::UnmapAll);
        Ok(())
    }

    /// The shootdown of [`Effect::UnmapAll`] is over.
    pub fn all_unmapped(&mut self, now: u64, out: &mut (impl Perform + ?Sized)) {
        if self.leaving != Leaving::Unmapping {
            return;
        }
        for page in 0..self.table.pages() {
            self.give_up(page, Keep::Nothing, out);
        }
        self.all_empty(now, out);
    }

    /// Changes its mind, as long as it has told nobody. False when it is too late.
    pub fn stay(&mut self) -> bool {
        let early = self.leaving == Leaving::Empty;
        if early {
            self.leaving = Leaving::No;
        }
        early
    }
}
