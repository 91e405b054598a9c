//! What the chip page says of losses: the domains that died with pages, and the deaths that the
//! last domain that left has handled.

use crate::losses::settled;
use base::id::{DomainId, Epoch};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Losses {
    /// For each domain, its last epoch that ended although it had not left, or 0
    /// (`abi::soc::ChipPage::losses`).
    epochs: Vec<u64>,
    /// `abi::soc::ChipPage::settled`.
    pub settled: u64,
}

impl Losses {
    pub fn new(domains: usize) -> Self {
        Losses { epochs: vec![0; domains], settled: 0 }
    }

    /// Records the death of a domain that had not left.
    pub fn add(&mut self, domain: usize, epoch: Epoch) {
        self.epochs[domain] = epoch.0.into();
    }

    /// Returns whether no domain has died with pages.
    pub fn is_empty(&self) -> bool {
        self.epochs.iter().all(|epoch| *epoch == 0)
    }

    fn sum(&self) -> u64 {
        self.epochs.iter().sum()
    }

    /// Returns whether pages may have been lost since the last domain has left.
    pub fn are_unsettled(&self) -> bool {
        self.settled != self.sum()
    }

    /// Returns the `settled` word of a domain that begins to leave. `known` is what it has read of
    /// its peers: their epochs, and whether they run.
    pub fn settled_by(&self, domain: usize, known: &[(Epoch, bool)]) -> u64 {
        let id = |domain: usize| DomainId(domain as u8);
        let losses = self.epochs.iter().enumerate().map(|(domain, lost)| (id(domain), *lost));
        settled(id(domain), losses, |peer| {
            let (epoch, runs) = known[peer.index()];
            (epoch.0.into(), !runs)
        })
    }
}
