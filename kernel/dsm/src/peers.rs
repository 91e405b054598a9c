//! What a domain knows of its peers' epochs and states: from the chip page, which it may read late,
//! and from messages that show that its knowledge is out of date.

use base::id::{DomainId, Epoch};

use crate::dsm::Dsm;
use crate::life::{ChipPageRead, Life, Peer, byte, byte_of, with_byte};
use crate::table::Store;
use crate::types::{DomainSet, Down, PeerStatus};

impl<T: Store, const D: usize, const C: usize> Dsm<T, D, C> {
    /// Updates what is known of a peer. Returns how it went down, if it did.
    pub(crate) fn update_peer(&mut self, news: PeerStatus) -> Option<Down> {
        let known = *self.peer(news.domain)?;
        if known.epoch > news.epoch || known.epoch == news.epoch && known.life == Life::Dead {
            return None;
        }
        let life = match news.down {
            None => Life::Up,
            Some(Down::Slept) => Life::Slept,
            Some(Down::Died) => Life::Dead,
        };
        let ran = matches!(known.life, Life::Up | Life::Slept);
        let asked = known.asked.filter(|_| life == Life::Up && known.epoch == news.epoch);
        self.peers[news.domain.index()] = Peer { epoch: news.epoch, life, asked };
        match life {
            _ if ran && known.epoch != news.epoch => Some(Down::Died),
            Life::Dead if ran => Some(Down::Died),
            Life::Slept if known.life == Life::Up => Some(Down::Slept),
            _ => None,
        }
    }

    /// Returns whether a claimant knows of a death that this domain does not know of. This domain
    /// could then still believe messages of a dead home, so it must read the chip page first.
    pub(crate) fn is_behind(&self, lives: u64) -> bool {
        self.up().iter().any(|domain| {
            let theirs = byte_of(lives, domain);
            let newer = (theirs & 0x7f).wrapping_sub(life(self.peers[domain.index()].epoch)) & 0x7f;
            let dead = newer == 0 && theirs & DEAD != 0;
            dead || theirs != 0 && (1..64).contains(&newer)
        })
    }

    /// Returns whether a home that hands over names a member that, as far as this domain knows,
    /// does not run. That member may have started meanwhile and hold pages of that home, so it must
    /// be asked too.
    pub(crate) fn must_read_chip_page(&mut self, member_epochs: u64) -> bool {
        let runs = |domain: DomainId| {
            let peer = &self.peers[domain.index()];
            peer.life == Life::Up && byte(peer.epoch) == byte_of(member_epochs, domain)
        };
        let mut others = (0..self.config.domains).map(DomainId).filter(|&id| id != self.config.me);
        let strange = others.any(|domain| byte_of(member_epochs, domain) != 0 && !runs(domain));
        self.chip_page_read = match (strange, self.chip_page_read) {
            (true, ChipPageRead::NotNeeded | ChipPageRead::Needed) => ChipPageRead::Needed,
            _ => ChipPageRead::NotNeeded,
        };
        self.chip_page_read == ChipPageRead::Needed
    }

    /// Returns whether a message cannot be handled before the chip page has been read again, even
    /// if it has not changed.
    pub fn needs_chip_page(&self) -> bool {
        self.chip_page_read == ChipPageRead::Needed
    }

    /// Encodes the newest known epoch of each domain as in `Message::Ask`.
    pub(crate) fn lives(&self) -> u64 {
        let known = |peer: &Peer| match peer.life {
            Life::Unknown => 0,
            Life::Up | Life::Slept => life(peer.epoch),
            Life::Dead => life(peer.epoch) | DEAD,
        };
        let bytes = (0..self.config.domains).map(DomainId);
        bytes.fold(0, |sum, domain| {
            let byte = self.peer(domain).map_or(life(self.epoch), known);
            sum | byte << (8 * domain.0)
        })
    }

    pub(crate) fn peer(&self, domain: DomainId) -> Option<&Peer> {
        let known = domain != self.config.me && domain.0 < self.config.domains;
        self.peers.get(domain.index()).filter(|_| known)
    }

    /// Returns the peers that run.
    pub(crate) fn up(&self) -> DomainSet {
        let running = |domain: &DomainId| self.peer(*domain).is_some_and(|p| p.life == Life::Up);
        let all = (0..self.config.domains).map(DomainId);
        all.filter(running).fold(DomainSet::EMPTY, DomainSet::with)
    }

    /// Returns their epochs, one byte per domain.
    pub(crate) fn running(&self) -> u64 {
        let byte = |sum, domain: DomainId| with_byte(sum, domain, self.peers[domain.index()].epoch);
        self.up().iter().fold(0, byte)
    }
}

/// In `Message::Ask`: this epoch has ended.
const DEAD: u64 = 0x80;

/// Truncates `epoch` for `Message::Ask`. Values repeat after 128 epochs; no domain's knowledge is
/// 64 epochs old.
const fn life(epoch: Epoch) -> u64 {
    epoch.0 as u64 & 0x7f
}
