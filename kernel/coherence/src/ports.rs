//! What the driver needs of the kernel that it is in.

use base::addr::VirtAddr;
use base::id::DomainId;

/// The kernel, as the driver sees it. From the fault path too: nothing here may allocate or sleep.
pub trait Ports: Copy + Send + Sync {
    /// A flush that was asked of the other cores of this domain.
    type Flushed: Copy + Send;

    /// Epoch and state of a domain, as the chip page has them.
    fn state_word(self, domain: DomainId) -> u64;

    /// Wakes a domain that was stopped wherever it was. It may fail; the caller tries again.
    fn wake_stopped(self, domain: DomainId);

    /// Flushes translations of `[start, start + bytes)` here, and asks the other cores to.
    fn flush(self, start: VirtAddr, bytes: u64) -> Self::Flushed;

    /// Have all cores done so?
    fn is_flushed(self, flushed: Self::Flushed) -> bool;

    /// Does a flush on this core reach all cores of its domain?
    fn is_alone(self) -> bool;
}
