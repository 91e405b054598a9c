//! The parties that access memory, and accesses.

/// A domain with a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(u8);

impl Domain {
    /// Maximum number of domains.
    pub const LIMIT: u8 = 8;

    /// Returns the domain `number`, counted from 0.
    pub const fn new(number: u8) -> Option<Domain> {
        if number < Self::LIMIT { Some(Domain(number)) } else { None }
    }

    /// Returns its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns its bit in a set of domains.
    pub(crate) const fn bit(self) -> u64 {
        1 << self.0
    }
}

/// A domain, or the devices (which have no cache and count as one party).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Party(u8);

impl Party {
    /// All accesses through the soc.
    pub const DEVICES: Party = Party(Domain::LIMIT);

    /// Returns the domain's number; 8 for devices.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns a code from 1 on; 0 means no party.
    pub(crate) const fn code(self) -> u64 {
        self.0 as u64 + 1
    }

    pub(crate) const fn from_code(code: u64) -> Option<Party> {
        match code {
            0 => None,
            code => Some(Party(code as u8 - 1)),
        }
    }

    /// Returns the first domain of a set.
    pub(crate) const fn first(set: u64) -> Option<Party> {
        if set == 0 { None } else { Some(Party(set.trailing_zeros() as u8)) }
    }
}

impl From<Domain> for Party {
    fn from(domain: Domain) -> Party {
        Party(domain.0)
    }
}

/// A party and a place in its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The party.
    pub party: Party,
    /// The program counter; for a fetch the physical address, for a device a value chosen by the
    /// caller.
    pub pc: u64,
}

/// An access by a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The domain.
    pub domain: Domain,
    /// The first byte's physical address.
    pub pa: u64,
    /// Number of bytes.
    pub len: u64,
    /// Address of the instruction.
    pub pc: u64,
}

impl Access {
    /// Returns the site of the access.
    pub(crate) fn site(&self) -> Site {
        Site { party: self.domain.into(), pc: self.pc }
    }
}
