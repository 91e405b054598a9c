//! The interface that the driver needs from its kernel.

use base::addr::VirtAddr;
use base::id::DomainId;

/// Functions of the kernel. They are called in the fault path, so they must not allocate or sleep.
pub trait Ports: Copy + Send + Sync {
    /// Identifies a TLB flush that was requested of the other cores of this domain.
    type Flushed: Copy + Send;

    /// Returns a domain's epoch and state, packed as in the chip page.
    fn state_word(self, domain: DomainId) -> u64;

    /// Returns a domain's last epoch that ended with pages of the shared block
    /// ([`abi::soc::ChipPage::losses`]).
    fn loss(self, domain: DomainId) -> u64;

    /// Returns [`abi::soc::ChipPage::settled`].
    fn settled(self) -> u64;

    /// Sets this domain's [`abi::soc::DomainPage::settled`].
    fn settle(self, settled: u64);

    /// Flushes the translations of `[start, start + bytes)` on this core, and requests the same of
    /// the other cores without waiting for them.
    fn flush(self, start: VirtAddr, bytes: u64) -> Self::Flushed;

    /// Returns whether all cores have performed the flush.
    fn is_flushed(self, flushed: Self::Flushed) -> bool;

    /// Returns whether a flush on this core is sufficient for all cores of this domain.
    fn is_alone(self) -> bool;
}
