//! Which domain holds up a request that takes too long. The soc follows these answers from the
//! domain that waits to one that hangs (`docs/design/hangs.md`).

use base::id::{CoreId, DomainId};

use crate::dsm::{Dsm, HomeState, Leaving, Request, Revoke};
use crate::table::Store;
use crate::types::{DomainSet, Page};

/// What a request for a page waits for, as far as one domain knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// For nothing of this domain: a message is under way.
    Nothing,
    /// For this domain: a pin, or a TLB shootdown by its cores.
    Here,
    /// For this other domain.
    Peer(DomainId),
}

impl Blame {
    fn first(of: DomainSet) -> Blame {
        of.iter().next().map_or(Blame::Nothing, Blame::Peer)
    }
}

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Returns what a request for `page` waits for, or what this domain's leaving waits for. The
    /// driver has handled all messages that have arrived.
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
            (HomeState::Home, Leaving::Handing(to)) => Blame::Peer(to),
            (HomeState::Home, _) => self.blame_as_home(page),
            (HomeState::Known(home, _), _) => Blame::Peer(home),
            (HomeState::Claiming { waiting, .. }, _) => Blame::first(waiting),
            (HomeState::Waiting, Leaving::Gone) => Blame::Nothing,
            (HomeState::Waiting, _) => Blame::first(self.up()),
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
        if holders.has(me) { Blame::Here } else { Blame::first(holders) }
    }
}
