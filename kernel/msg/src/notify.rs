//! When the doorbell must be rung, and how a core stops polling without sleeping through a message.
//!
//! Each core has a word in its domain's page: 1 while the core is in kernel code and will look at
//! the rings again before it leaves it (waiting cores poll, and so does each release of a lock), 0
//! while it runs program code or idles in WFI. A sender rings only when no core of the target
//! attends.
//!
//! ```text
//!                   enter (any trap into the kernel)
//!   +------+ ------------------------------------------------> +-----------+
//!   | away |                                                   | attending |--+ polls
//!   +------+ <------------- nothing there --- [0; barrier; <-- +-----------+<-+
//!                                              look again]           ^
//!                                                   | something      |
//!                                                   +---- [1] -------+
//! ```
//! Sender: `publish; barrier; load attending`. Core: `store 0; barrier; look at the rings`. Of
//! the two loads at least one comes after the other side's store (Dekker), so either the sender
//! sees 0 and rings, or the core sees the message and stays. `enter` needs no barrier: a sender
//! that still sees 0 rings once too often.
//!
//! Between `leave` and WFI interrupts are masked, so that a ring ends the WFI. A ring is an edge
//! that is lost while the target's controller is being set up: after enabling it, look at the
//! rings once more. The word of an INACTIVE or OFF domain says what it was when it stopped: look
//! at its state in the chip page and wake it through the soc before relying on a ring.
//!
//! Nothing here is a queue: rings coalesce, and one too many is harmless.

use abi::boot::MAX_CORES;
use abi::soc::DomainPage;
use base::id::CoreId;
use base::port::Words;

/// Offset of the attending word of `core` in a domain's page.
const fn attending(core: usize) -> usize {
    core::mem::offset_of!(DomainPage, attending) + 8 * core
}

/// Must the target be rung? `page` is its [`DomainPage`], `cores` how many it has. Call after
/// `begin`, `notice` or `reply` returned: they end with the barrier that this needs.
pub fn must_ring(page: &impl Words, cores: usize) -> bool {
    (0..cores.min(MAX_CORES)).all(|core| page.load(attending(core)) != 1)
}

/// Where a core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In kernel code; it will look again before it leaves.
    Attending,
    /// In program code or in WFI; it must be rung.
    Away,
}

/// The attending word of one core, which only that core writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attendance {
    word: usize,
    place: Place,
}

impl Attendance {
    /// For `core`, which is away until its first `enter`.
    pub const fn new(core: CoreId) -> Attendance {
        Attendance { word: attending(core.index()), place: Place::Away }
    }

    /// Into kernel code. `page` is this domain's own [`DomainPage`].
    pub fn enter(&mut self, page: &impl Words) {
        if self.place == Place::Away {
            page.store(self.word, 1);
            self.place = Place::Attending;
        }
    }

    /// About to leave kernel code, interrupts masked. `waiting` looks at the rings and replies of
    /// all peers (when a lock keeps it from looking: true). On [`Place::Attending`] the core must
    /// poll and try again; on [`Place::Away`] it may go.
    pub fn leave(&mut self, page: &impl Words, waiting: impl FnOnce() -> bool) -> Place {
        page.store(self.word, 0);
        // The word before the look; pairs with the barrier behind each publish.
        page.barrier();
        self.place = Place::Away;
        if waiting() {
            self.enter(page);
        }
        self.place
    }

    /// Where the core is.
    pub fn place(&self) -> Place {
        self.place
    }
}
