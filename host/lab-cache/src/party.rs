//! Who accesses memory, and one access.

/// A domain with a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(u8);

impl Domain {
    /// How many there may be.
    pub const LIMIT: u8 = 8;

    /// Domain `number`, counted from 0.
    pub const fn new(number: u8) -> Option<Domain> {
        if number < Self::LIMIT { Some(Domain(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its bit in a set of domains.
    pub(crate) const fn bit(self) -> u64 {
        1 << self.0
    }
}

/// A domain, or the devices (which have no cache, and count as one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Party(u8);

impl Party {
    /// Everything that reaches memory through the soc.
    pub const DEVICES: Party = Party(Domain::LIMIT);

    /// The domain's number; 8 for devices.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// From 1, so that 0 can stand for nobody.
    pub(crate) const fn code(self) -> u64 {
        self.0 as u64 + 1
    }

    pub(crate) const fn from_code(code: u64) -> Option<Party> {
        match code {
            0 => None,
            code => Some(Party(code as u8 - 1)),
        }
    }

    /// The first domain of a set.
    pub(crate) const fn first(set: u64) -> Option<Party> {
        if set == 0 { None } else { Some(Party(set.trailing_zeros() as u8)) }
    }
}

impl From<Domain> for Party {
    fn from(domain: Domain) -> Party {
        Party(domain.0)
    }
}

/// Who did something, and where in its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Who.
    pub party: Party,
    /// The program counter; of a fetch the physical address; of a device what the caller says.
    pub pc: u64,
}

/// An access by a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Who.
    pub domain: Domain,
    /// The first byte's physical address.
    pub pa: u64,
    /// How many bytes.
    pub len: u64,
    /// The instruction.
    pub pc: u64,
}

impl Access {
    /// The site of the access.
    pub(crate) fn site(&self) -> Site {
        Site { party: self.domain.into(), pc: self.pc }
    }
}
