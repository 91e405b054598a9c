//! When a doorbell is needed, and how a core stops polling without sleeping through a message.
//!
//! Each core has a word in its domain's page. It is 1 from an interrupt until the core sleeps in
//! WFI or returns to program code, and the core polls the rings again before that: waiting cores
//! poll, and so does every release of a lock meanwhile. Else it is 0, also in a call of a program
//! that no interrupt made wait. A sender rings only if no core of the target is attending.
//!
//! ```text
//!                   enter (an interrupt)          
//!   +------+ ------------------------------------------------> +-----------+
//!   | away |                                                   | attending |--+ polls
//!   +------+ <------------- nothing there --- [0; barrier; <-- +-----------+<-+
//!                                              look again]           ^
//!                                                   | something      |
//!                                                   +---- [1] -------+
//! ```
//! Sender: `publish; barrier; load attending`. Core: `store 0; barrier; poll the rings`. At least
//! one of the two loads comes after the other side's store (Dekker), so either the sender sees 0
//! and rings, or the core sees the message and stays. `enter` needs no barrier: a sender that still
//! sees 0 rings once too often.
//!
//! Interrupts are masked between `leave` and WFI, so that a ring ends the WFI. A ring is an edge,
//! and is lost while the target's interrupt controller is being set up: poll the rings once after
//! enabling it. The word of an INACTIVE or OFF domain is the one from when it stopped: check its
//! state in the chip page, and wake it through the soc, before relying on a ring.
//!
//! There is no queue here: rings coalesce, and an extra one is harmless.

use abi::boot::MAX_CORES;
use abi::soc::DomainPage;
use base::id::CoreId;
use base::port::Words;

/// Offset of `core`'s attending word in its domain's page.
const fn attending(core: usize) -> usize {
    core::mem::offset_of!(DomainPage, attending) + 8 * core
}

/// Returns whether the target needs a ring. `page` is its [`DomainPage`], `cores` its number of
/// cores. Call it after `begin`, `notice` or `reply`, which end with the required barrier.
pub fn must_ring(page: &impl Words, cores: usize) -> bool {
    (0..cores.min(MAX_CORES)).all(|core| page.load(attending(core)) != 1)
}

/// Whether a core polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// The core polls again before it sleeps or returns to program code.
    Attending,
    /// The core needs a doorbell.
    Away,
}

/// The attending word of one core, written only by that core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attendance {
    word: usize,
    presence: Presence,
}

impl Attendance {
    /// The core is away until its first `enter`.
    pub const fn new(core: CoreId) -> Attendance {
        Attendance { word: attending(core.index()), presence: Presence::Away }
    }

    /// Reports that the core enters kernel code. `page` is the [`DomainPage`] of its own domain.
    pub fn enter(&mut self, page: &impl Words) {
        if self.presence == Presence::Away {
            page.store(self.word, 1);
            self.presence = Presence::Attending;
        }
    }

    /// Reports that the core is about to leave kernel code, with interrupts masked. `waiting` looks
    /// at the rings and replies of all peers. It waits for their locks: if a lock that is taken
    /// counted as a message, cores that leave at the same time could keep each other polling
    /// without end. If the result is [`Presence::Attending`], the core polls and tries again; if it
    /// is [`Presence::Away`], it may leave.
    pub fn leave(&mut self, page: &impl Words, waiting: impl FnOnce() -> bool) -> Presence {
        page.store(self.word, 0);
        // The store comes before the poll; pairs with the barrier after each publish.
        page.barrier();
        self.presence = Presence::Away;
        if waiting() {
            self.enter(page);
        }
        self.presence
    }

    pub fn presence(&self) -> Presence {
        self.presence
    }
}
