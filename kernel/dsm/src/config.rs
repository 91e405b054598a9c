//! The protocol's configuration, which the board file decides.

use base::id::DomainId;

use crate::thrash::Limit;
use crate::types::Protocol;

/// The protocol's configuration for one domain, from the board file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The same in all domains.
    pub protocol: Protocol,
    pub me: DomainId,
    /// Number of domains, at least 1.
    pub domains: u8,
    /// The largest number of cores of any domain, at least 1.
    pub cores: u8,
    /// Number of pages in the coherent region.
    pub pages: u32,
    /// How long a granted page stays at least, in ns.
    pub hold: u64,
    /// How long it stays at most if its instruction is not known to have retired, in ns.
    pub limit: u64,
    pub thrash: Limit,
    /// The deliberate bug of this machine, with which tests show that the checks find it.
    #[cfg(test)]
    pub mutant: Option<crate::proof::Mutant>,
}
