//! The words of the protocol: pages, rights, requests, errors, and what a board configures.

use abi::boot::MAX_DOMAINS;
use base::id::{CoreId, DomainId, Epoch};

use crate::thrash::Limit;

/// A page of the coherent region, counted from its start.
pub type Page = u32;

/// Which pages may be valid where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// A page is valid in exactly one domain, for reading and writing.
    TwoState,
    /// A page is readable in several domains, or writable in one.
    ThreeState,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// Loads.
    Read,
    /// Stores (and loads).
    Write,
    /// A device's transfer: the page is in nobody's cache until it is given back.
    Device,
    /// Nothing: lost pages count as memory again; their service has been discarded.
    Reset,
}

/// What a domain has of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hold {
    /// Nothing: not mapped, in no cache of this domain.
    None,
    /// Mapped for reading; memory has the same.
    Read,
    /// Mapped for writing; the newest value may be in this domain's caches only.
    Write,
    /// Not mapped; a device of this domain has it.
    Device,
}

/// What a holder may keep of a page that is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// Reading.
    Read,
}

/// Names a request: the one that this core of this domain has under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// Whose it is.
    pub domain: DomainId,
    /// Its core.
    pub core: CoreId,
}

/// An access that faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The (first) page.
    pub page: Page,
    /// Does it reach into the next page as well?
    pub crosses: bool,
    /// What for.
    pub want: Want,
}

/// Why an access ended, or was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessError {
    /// The page died with a domain that may have written it.
    Lost,
    /// A device of this domain has the page.
    Device,
    /// This domain is leaving, or has left.
    Leaving,
    /// No such page or core, or an access that makes no sense.
    Range,
    /// The core has an access under way.
    Busy,
}

/// Why a domain may not leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaveError {
    /// An access, a shootdown or a device transfer is under way.
    Busy,
    /// It knows of lost pages that nobody has reset.
    LostPages,
}

/// What a peer's message was wrong in. The state has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerFault {
    /// No such domain, or this one.
    Sender,
    /// A page outside of the region.
    Page(Page),
    /// A core or request that does not exist.
    Request,
    /// Not a message.
    Word(u64),
    /// An answer to nothing.
    Answer,
    /// Messages were overwritten before they were taken.
    Overrun,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Handled {
    /// It is done with.
    Done,
    /// Bring it again, before any other of its sender: this kernel must first read the chip page
    /// anew, or a shootdown must end.
    Later,
}

/// How a peer went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Down {
    /// It left in order: it holds nothing.
    Slept,
    /// What it held and may have written is lost.
    Died,
}

/// What the chip page says of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct News {
    /// Which.
    pub domain: DomainId,
    /// Its epoch; 0 when it never ran.
    pub epoch: Epoch,
    /// Why it does not run; `None` when it does.
    pub down: Option<Down>,
}

/// How a kernel comes to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// The chip starts: all domains of the board are members, the lowest is the home.
    Founding,
    /// Others are running: one of them is the home, or will be.
    Join,
    /// Nobody is running. The chip lets one domain be the first.
    First {
        /// Did anybody die since the last member left in order?
        lost: bool,
    },
}

/// What a board says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The protocol, the same in all domains.
    pub protocol: Protocol,
    /// This domain.
    pub me: DomainId,
    /// Domains of the board, at least 1.
    pub domains: u8,
    /// Most cores of any of them, at least 1.
    pub cores: u8,
    /// Pages of the coherent region.
    pub pages: u32,
    /// How long a granted page stays, in nanoseconds.
    pub hold: u64,
    /// How long it stays at most if nobody says that the instruction has retired.
    pub limit: u64,
    /// When a page counts as thrashing.
    pub thrash: Limit,
    /// What is wrong with this machine, to see that the checks find it.
    #[cfg(test)]
    pub mutant: Option<crate::proof::Mutant>,
}

/// A set of domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Set(pub u8);

impl Set {
    /// Nobody.
    pub const EMPTY: Set = Set(0);

    /// Just `domain`.
    pub const fn only(domain: DomainId) -> Set {
        Set(1 << domain.0)
    }
    /// Is `domain` in it?
    pub const fn has(self, domain: DomainId) -> bool {
        self.0 & 1 << domain.0 != 0
    }
    /// Both.
    #[must_use]
    pub const fn with(self, domain: DomainId) -> Set {
        Set(self.0 | 1 << domain.0)
    }
    /// The others.
    #[must_use]
    pub const fn without(self, domain: DomainId) -> Set {
        Set(self.0 & !(1 << domain.0))
    }
    /// Nobody in it?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// The only one in it.
    pub const fn single(self) -> Option<DomainId> {
        match self.0.is_power_of_two() {
            true => Some(DomainId(self.0.trailing_zeros() as u8)),
            false => None,
        }
    }
    /// In ascending order.
    pub fn iter(self) -> impl Iterator<Item = DomainId> {
        (0..MAX_DOMAINS as u8).map(DomainId).filter(move |domain| self.has(*domain))
    }
}
