//! The protocol's basic types: pages, rights, requests and errors.

use abi::boot::MAX_DOMAINS;
use base::id::{CoreId, DomainId, Epoch};

/// A page of the coherent region, numbered from its start.
pub type Page = u32;

/// Where a page may be valid at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// A page is valid in exactly one domain, for reading and writing.
    TwoState,
    /// A page is readable in several domains, or writable in one.
    ThreeState,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// Loads.
    Read,
    /// Stores, and loads.
    Write,
    /// A device transfer: until it is done, no cache holds the page.
    Device,
    /// Makes lost pages usable again, after their service has been discarded.
    Reset,
}

/// A domain's rights to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hold {
    /// None: not mapped, and in no cache of this domain.
    None,
    /// Mapped for reading; memory is up to date.
    Read,
    /// Mapped for writing; only this domain's caches may have the latest value.
    Write,
    /// Not mapped; a device of this domain uses the page.
    Device,
}

/// What the holder of a revoked page may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    Nothing,
    Read,
}

/// Identifies a request: each core has at most one in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    pub domain: DomainId,
    pub core: CoreId,
}

/// An access that faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The page, or the lower of two.
    pub page: Page,
    /// Whether the access extends into the next page.
    pub crosses: bool,
    pub want: Want,
}

/// Why an access failed or was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessError {
    /// The page's contents died with a domain that may have written them.
    Lost,
    /// A device of this domain uses the page.
    Device,
    /// This domain is leaving or has left.
    Leaving,
    /// No such page or core, or an invalid combination.
    Range,
    /// The core already has an access in progress.
    Busy,
}

/// Why a domain may not leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaveError {
    /// An access, a shootdown or a device transfer is in progress.
    Busy,
    /// As the home, it knows of lost pages that have not been reset.
    LostPages,
}

/// What was wrong with a peer's message. The message has had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerFault {
    /// Not a peer of this domain.
    Sender,
    /// The page is outside the region.
    Page(Page),
    /// The core or domain of the request does not exist.
    Request,
    /// The words are not a message.
    Word(u64),
    /// An answer without a question.
    Answer,
    /// Messages were overwritten before they were read.
    Overrun,
}

/// The result of handling a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Handled {
    /// Handled; remove it from the link.
    Done,
    /// Not handled: retry before any other message of this sender, after the chip page has been
    /// read again or a shootdown has ended.
    Later,
}

/// Why a peer does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Down {
    /// It left in order and holds nothing.
    Slept,
    /// It died; pages that it held and may have written are lost.
    Died,
}

/// The state of a peer according to the chip page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerStatus {
    pub domain: DomainId,
    /// Its epoch; 0 if it has never run.
    pub epoch: Epoch,
    /// `None` if it runs.
    pub down: Option<Down>,
}

/// How a kernel joins the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// The chip starts: all domains of the board are members, and the lowest one is the home.
    Founding,
    /// Others are running; one of them is the home or will become it.
    Join,
    /// No other domain is running. The chip allows one domain to be the first.
    First {
        /// Whether a domain has died since the last member left in order.
        lost: bool,
    },
}

/// A set of domains, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct DomainSet(pub u8);

impl DomainSet {
    pub const EMPTY: DomainSet = DomainSet(0);

    pub const fn only(domain: DomainId) -> DomainSet {
        DomainSet(1 << domain.0)
    }
    pub const fn has(self, domain: DomainId) -> bool {
        self.0 & 1 << domain.0 != 0
    }

    #[must_use]
    pub const fn with(self, domain: DomainId) -> DomainSet {
        DomainSet(self.0 | 1 << domain.0)
    }

    #[must_use]
    pub const fn without(self, domain: DomainId) -> DomainSet {
        DomainSet(self.0 & !(1 << domain.0))
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Returns the member of a set of one.
    pub const fn single(self) -> Option<DomainId> {
        match self.0.is_power_of_two() {
            true => Some(DomainId(self.0.trailing_zeros() as u8)),
            false => None,
        }
    }
    /// Iterates in ascending order.
    pub fn iter(self) -> impl Iterator<Item = DomainId> {
        (0..MAX_DOMAINS as u8).map(DomainId).filter(move |domain| self.has(*domain))
    }
}
