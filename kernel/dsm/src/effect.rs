//! What the state machine asks of its driver. Effects are performed in order: before the event's
//! call returns or, at the latest, before any later effect of the same machine.
//!
//! No effect waits. [`Effect::Unmap`] and [`Effect::UnmapAll`] only start a TLB shootdown of the
//! domain's other cores; the driver reports its end with [`crate::Dsm::unmapped`] or
//! [`crate::Dsm::all_unmapped`]. With one core that is immediately, but still after the call that
//! caused the effect has returned.

use base::id::{CoreId, DomainId};

use crate::message::Message;
use crate::types::{AccessError, Keep, Page, RequestId};

/// How a page is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rights {
    Read,
    Write,
}

/// One action of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send a message on the link to `to`.
    Send { to: DomainId, message: Message },
    /// Map the page on all cores of this domain. A core whose TLB still has a weaker entry faults
    /// again; the driver makes each core drop the page's entry when its access is complete.
    Map { page: Page, rights: Rights },
    /// Remove the mapping or its write permission on all cores, then call `unmapped(work)`.
    Unmap { page: Page, keep: Keep, work: RequestId },
    /// Unmap all coherent pages, then call `all_unmapped()`.
    UnmapAll,
    /// Write back the page's dirty lines; they may stay in the cache.
    Clean { page: Page },
    /// Write back the page's dirty lines and drop all of its lines.
    CleanAndInvalidate { page: Page },
    /// Drop the lines of a page that this domain has not written.
    Invalidate { page: Page },
    /// The core's access is complete or has failed.
    Complete { core: CoreId, result: Result<(), AccessError> },
    /// The page's contents died with its owner: discard the service whose arena contains it.
    Lost { page: Page },
    /// The page moves too often between domains.
    Thrash {
        page: Page,
        /// Number of moves within the window.
        moves: u32,
    },
    /// Leaving failed: this domain is the home, and pages were lost meanwhile. It can leave after
    /// they have been reset.
    Stays,
    /// This domain holds nothing and will not be asked for anything: it may power down. The driver
    /// must execute a full barrier before the chip page says so, so that cleaned data is in memory.
    /// Sending a message implies such a barrier, but possibly none was sent.
    Left,
}

/// Performs effects; implemented for closures.
pub trait Perform {
    fn perform(&mut self, effect: Effect);

    /// Performs [`Effect::Unmap`] if it can be completed immediately. Returns false if other cores
    /// must be interrupted; the page may then be unmapped on this core already, and the machine
    /// issues the effect.
    fn unmap_now(&mut self, _page: Page, _keep: Keep) -> bool {
        false
    }
}

impl<F: FnMut(Effect) + ?Sized> Perform for F {
    #[inline]
    fn perform(&mut self, effect: Effect) {
        self(effect);
    }
}

/// Any performer.
pub type Out<'a> = &'a mut dyn FnMut(Effect);
