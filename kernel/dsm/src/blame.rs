//! Which domain holds up a request that takes too long. The soc follows these answers from the
//! domain that waits to one that hangs (`docs/design/hangs.md`).

use abi::hang::Blame;
use base::id::CoreId;

use crate::dsm::{Dsm, HomeState, Leaving, Request, Revoke};
use crate::table::Store;
use crate::types::{DomainSet, Page};

/// Returns the first of these domains.
fn first(of: DomainSet) -> Blame {
    of.iter().next().map_or(Blame::Nothing, |domain| Blame::Peer(domain.0))
}

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Returns what holds up a request for `page`, or this domain's leaving, as far as this domain
    /// knows: a pin or a shootdown here, or another domain. The driver has handled all messages
    /// that have arrived.
    pub fn blame(&self, page: Page) -> Blame {
        let unmaps = |revoke| matches!(revoke, Revoke::Unmapping { .. });
        if self.leaving == Leaving::Unmapping || self.revokes.any(unmaps) {
            return Blame::Here;
        }
        let deferred = |revoke| matches!(revoke, Revoke::Deferred { page: of, .. } if of == page);
        if !self.revokes.any(deferred) {
            return self.blame_others(page);
        }
        #[cfg(test)]
        if self.is_mutant(crate::proof::Mutant::BlamePins) {
            return Blame::Here;
        }
        // A core that waits for the second page of its access has the first one pinned.
        let mut others = self.cores().filter_map(|core| self.awaited(core));
        others.find(|&other| other != page).map_or(Blame::Here, |other| self.blame_others(other))
    }

    /// Returns the page that a core waits for.
    pub fn awaited(&self, core: CoreId) -> Option<Page> {
        let pending = self.cores.get(core.index())?.pending?;
        Some(pending.page + pending.got)
    }

    fn blame_others(&self, page: Page) -> Blame {
        match (self.home_state, self.leaving) {
            (HomeState::Home, Leaving::Handing(to)) => Blame::Peer(to.0),
            (HomeState::Home, _) => self.blame_as_home(page),
            (HomeState::Known(home, _), _) => Blame::Peer(home.0),
            (HomeState::Claiming { waiting, .. }, _) => first(waiting),
            (HomeState::Waiting, Leaving::Gone) => Blame::Nothing,
            (HomeState::Waiting, _) => first(self.up()),
        }
    }

    fn blame_as_home(&self, page: Page) -> Blame {
        let me = self.config.me;
        let mut holders = DomainSet::EMPTY;
        for request in self.requests.cells() {
            if let Request::Active { wanted, acks, .. } = request
                && (wanted.page..wanted.page + wanted.count).contains(&page)
            {
                holders = DomainSet(holders.0 | acks.0);
            }
        }
        if holders.has(me) { Blame::Here } else { first(holders) }
    }
}
