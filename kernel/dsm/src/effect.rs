//! What the machine asks of its driver, in this order and before the event's call returns or, at
//! the latest, before anything later of the same machine is performed.
//!
//! Nothing here waits except [`Effect::Unmap`] and [`Effect::UnmapAll`]: other cores of the domain
//! may have the mapping in their TLBs. The driver starts the shootdown and says so when all of
//! them have answered ([`crate::Dsm::unmapped`], [`crate::Dsm::all_unmapped`]); with one core that
//! is at once, but after the call that caused it has returned.

use base::id::{CoreId, DomainId};

use crate::message::Message;
use crate::word::{AccessError, Keep, Page, RequestId};

/// How a page is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rights {
    /// Loads only.
    Read,
    /// Loads and stores.
    Write,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Put it into the link to `to`.
    Send {
        /// The receiver.
        to: DomainId,
        /// The message.
        message: Message,
    },
    /// Map the page on this domain's cores.
    Map {
        /// The page.
        page: Page,
        /// How.
        rights: Rights,
    },
    /// Take the mapping away, or leave reading, on all cores; then say `unmapped(work)`.
    Unmap {
        /// The page.
        page: Page,
        /// What stays.
        keep: Keep,
        /// What to say when it is done.
        work: RequestId,
    },
    /// Unmap all coherent pages; then say `all_unmapped()`.
    UnmapAll,
    /// Write dirty lines of the page back; they may stay.
    Clean {
        /// The page.
        page: Page,
    },
    /// Write dirty lines back and drop all.
    CleanAndInvalidate {
        /// The page.
        page: Page,
    },
    /// Drop the lines of a page that was not written.
    Invalidate {
        /// The page.
        page: Page,
    },
    /// The core's access can go on, or never will.
    Complete {
        /// The core.
        core: CoreId,
        /// How it ended.
        result: Result<(), AccessError>,
    },
    /// The page's last value died with its owner: discard the service whose arena it is in.
    Lost {
        /// The page.
        page: Page,
    },
    /// The page moves too often between domains.
    Thrash {
        /// The page.
        page: Page,
        /// Moves within the window.
        moves: u32,
    },
    /// This domain, the home, stays: pages were lost while it was leaving. When they are reset, it
    /// can leave.
    Stays,
    /// This domain holds nothing, and nobody will ask it for anything: it may power down. Maybe no
    /// message told anybody, so a full barrier comes before the chip page says so: what was cleaned
    /// is in memory then.
    Left,
}

/// Who performs effects; a closure does.
pub trait Perform {
    /// Performs it.
    fn perform(&mut self, effect: Effect);

    /// [`Effect::Unmap`], if its end is now: false, if other cores of the domain must be asked,
    /// which the same effect will do.
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

/// A performer of any kind.
pub type Out<'a> = &'a mut dyn FnMut(Effect);
