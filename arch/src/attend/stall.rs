//! Waits that take long. The kernel wakes domains that are stopped, and reports a wait for another
//! domain to the soc, which decides whether a domain hangs (`docs/design/hangs.md`).

use super::percore::hook;
use crate::{cpu, time};
use abi::hang::{Item, REPORT_NS};
use base::id::DomainId;

hook! { static STALLED: fn(Stall); }
hook! { static RESUMED: fn(); }
hook! { static CORE_STALLED: fn(); }

/// A wait for another domain that has taken long so far.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    pub item: Item,
    /// The domain that holds it up, as far as this domain knows; not needed for a lock.
    pub suspect: Option<DomainId>,
    /// Whether it must be reported.
    pub is_late: bool,
}

/// Installs the hooks of a long wait for another domain: one that runs from time to time while it
/// lasts and may wait itself, and one for the end of a wait that was reported. Called once, before
/// a second core runs.
pub fn install_stalled(stalled: fn(Stall), resumed: fn()) {
    STALLED.set(stalled);
    RESUMED.set(resumed);
}

/// Installs the hook that runs from time to time while this core waits for a step of another one.
/// Called once, before a second core runs.
pub fn install_core_stalled(stalled: fn()) {
    CORE_STALLED.set(stalled);
}

/// This core still waits for a step of another one. Not called within a round of `attend`.
#[cold]
#[inline(never)]
pub(crate) fn core_stalled() {
    if let Some(hook) = CORE_STALLED.get() {
        hook();
    }
}

/// The length of one wait, from the first call of [`Patience::lasts`].
#[derive(Debug, Default)]
pub struct Patience {
    begun: Option<u64>,
    is_reported: bool,
}

impl Patience {
    /// The wait continues. Called from time to time, not within a round of `attend`.
    #[cold]
    #[inline(never)]
    pub fn lasts(&mut self, item: Item, suspect: Option<DomainId>) {
        let now = cpu::clock();
        let begun = *self.begun.get_or_insert(now);
        let is_late = time::to_ns(now.wrapping_sub(begun), cpu::clock_hz()) >= REPORT_NS;
        self.is_reported |= is_late;
        if let Some(hook) = STALLED.get() {
            hook(Stall { item, suspect, is_late });
        }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        if self.is_reported
            && let Some(hook) = RESUMED.get()
        {
            hook();
        }
    }
}
