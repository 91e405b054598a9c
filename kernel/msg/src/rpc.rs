//! The words that callers and servers share: classes, levels, names of calls, errors.

use abi::msg::{LEVELS, status};
use base::id::{DomainId, Epoch};

/// The two links between this kernel and one peer.
#[derive(Clone, Copy, Debug)]
pub struct Wires<W> {
    /// Link (me, peer): only this kernel stores here.
    pub mine: W,
    /// Link (peer, me): only the peer stores here.
    pub theirs: W,
}

/// How the target may run a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Non-blockable: the handler runs to completion wherever the kernel polls, waiting cores
    /// included. It may not call, wait or sleep; it may send notices and give up when they do not
    /// fit.
    Urgent = 0,
    /// Blockable: a handler thread runs it; it may sleep and call on, one level deeper.
    Blockable = 1,
}

/// Both, in the order of the rings in a link.
pub const CLASSES: [Class; 2] = [Class::Urgent, Class::Blockable];

/// How deep a call is nested: 0 from a thread of this kernel, `request.level.deeper()` from the
/// handler of a request. Each level has reply slots of its own, so a call only ever waits for
/// deeper ones; that order is why no mix of nested calls can deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Level(pub u8);

impl Level {
    /// Level of the calls that a handler of this level makes; [`CallError::TooDeep`] is what a
    /// call beyond the last level gets.
    pub const fn deeper(self) -> Level {
        Level(self.0.saturating_add(1))
    }
    /// Is there such a level?
    pub const fn exists(self) -> bool {
        (self.0 as usize) < LEVELS
    }
}

/// Names one call of this kernel to one peer. A stale one names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// Reply slot.
    pub slot: u8,
    /// Epoch of the peer that was called.
    pub epoch: Epoch,
    /// How many calls that slot has seen, this one included.
    pub sequence: u32,
}

/// Where a reply goes: plain data, so that it can wait in a service's state. It is good for one
/// reply; a second one, or one to a caller that died, is refused and reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyTo {
    /// The caller.
    pub peer: DomainId,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its reply slot.
    pub slot: u8,
    /// Its sequence number.
    pub sequence: u32,
}

/// How a call can fail for good. Each call ends exactly once, with a reply or one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallError {
    /// The peer died, restarted, or broke the protocol.
    PeerLost,
    /// Payload larger than `MAX_PAYLOAD`, or a reply larger than a reply slot or the caller's
    /// buffer.
    TooLarge,
    /// Nested deeper than `LEVELS`.
    TooDeep,
    /// The peer refused.
    Refused(Refusal),
    /// Not now: nothing was sent. Wait through attend for it to change, or give up.
    Busy(Busy),
}

/// Why a call could not be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Busy {
    /// All reply slots of this class and level are in use.
    NoSlot,
    /// The ring has no room; the peer's next poll makes some.
    RingFull,
    /// The peer has not opened a session with this epoch of ours yet (one of the two just started).
    NoSession,
}

/// What a server may answer instead of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// No such procedure.
    NoSuchProc,
    /// The reply does not fit.
    TooLarge,
    /// No memory, or no handler left: the answer of the out-of-memory handler.
    NoMemory,
    /// The request makes no sense, or the caller may not do it.
    Refused,
    /// The handler failed.
    Fault,
}

impl Refusal {
    /// As in a reply's status word.
    pub const fn code(self) -> u16 {
        match self {
            Refusal::NoSuchProc => status::NO_SUCH_PROC,
            Refusal::TooLarge => status::TOO_LARGE,
            Refusal::NoMemory => status::NO_MEMORY,
            Refusal::Refused => status::REFUSED,
            Refusal::Fault => status::FAULT,
        }
    }
    /// From a status word that is not OK; what a peer should never write counts as `Fault`.
    pub const fn from_code(code: u16) -> Refusal {
        match code {
            status::NO_SUCH_PROC => Refusal::NoSuchProc,
            status::TOO_LARGE => Refusal::TooLarge,
            status::NO_MEMORY => Refusal::NoMemory,
            status::REFUSED => Refusal::Refused,
            _ => Refusal::Fault,
        }
    }
}

/// A peer wrote what the protocol does not allow. Other kernels are peers, not trusted memory: the
/// ring stays shut until the peer comes back under a new epoch, and nothing of it was believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PeerFault {
    /// Its index is further ahead than the ring is long.
    Index(u32),
    /// A message longer than what it published, or than `MAX_PAYLOAD`.
    Length(u16),
    /// A header that is not of this place in the ring, or of no known kind.
    Header(u64),
    /// A reply slot that does not exist, is of another class or level, or is still in use.
    Slot(u8),
}
