//! Vocabulary of callers and servers: classes, levels, call ids, errors.

use abi::msg::{self, LEVELS, status};
use base::id::{DomainId, Epoch};

/// The two links between this kernel and a peer.
#[derive(Clone, Copy, Debug)]
pub struct LinkPair<W> {
    /// Link (this kernel, peer), which only this kernel writes.
    pub mine: W,
    /// Link (peer, this kernel), which only the peer writes.
    pub theirs: W,
}

/// How the callee may run a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Non-blockable: the handler runs to completion wherever the kernel polls, on waiting cores
    /// too. It must not call, wait or sleep. It may send notices, and drops them if they do not
    /// fit.
    Urgent = 0,
    /// Blockable: a handler thread runs it, and may sleep and make calls, one level deeper.
    Blockable = 1,
    /// Notices only, which arrive in order, and without loss while both kernels live. The handler
    /// is like an urgent one; one core at a time executes those of a peer. A sender that finds no
    /// room is notified when there is room ([`Caller::take_room`](crate::Caller::take_room)).
    Stream = 2,
}

/// All classes, in the order of their rings in a link.
pub const CLASSES: [Class; msg::RING_COUNT] = [Class::Urgent, Class::Blockable, Class::Stream];

/// Nesting depth of a call: 0 from a thread of this kernel, `request.level.deeper()` from the
/// handler of a request. Each level has its own reply slots, so a call waits only for deeper ones;
/// this order is why nested calls cannot deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Level(pub u8);

impl Level {
    /// Returns the level of calls that a handler of this level makes. Beyond the last level, a call
    /// fails with [`CallError::TooDeep`].
    pub const fn deeper(self) -> Level {
        Level(self.0.saturating_add(1))
    }
    pub const fn exists(self) -> bool {
        (self.0 as usize) < LEVELS
    }
}

/// Identifies a call of this kernel to a peer. A stale id matches no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// Index of the reply slot.
    pub slot: u8,
    /// Epoch of the callee.
    pub epoch: Epoch,
    /// Number of calls that have used this slot, including this one.
    pub sequence: u32,
}

/// Destination of a reply: plain data, so that it can be kept in a service's state. Valid for one
/// reply; a second one, or one to a dead caller, is refused and not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyTo {
    pub peer: DomainId,
    pub epoch: Epoch,
    pub slot: u8,
    pub sequence: u32,
}

/// Why a call failed. All but [`CallError::Busy`] are final: an accepted call ends exactly once,
/// with a reply or one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallError {
    PeerLost,
    /// The payload exceeds `MAX_PAYLOAD`, or the reply exceeds a reply slot or the caller's buffer.
    TooLarge,
    /// Nested deeper than `LEVELS`.
    TooDeep,
    Refused(Refusal),
    /// Not possible now; nothing was sent. The caller waits in attend and tries again, or gives up.
    Busy(Busy),
}

/// Reason why a call could not be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Busy {
    NoSlot,
    /// The ring has no room until the peer polls.
    RingFull,
    /// The peer has not opened a session with our epoch yet; one of the two has just started.
    NoSession,
}

/// Reason that a server returns instead of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    NoSuchProc,
    /// The reply does not fit in a reply slot.
    TooLarge,
    /// No memory or no handler left; sent by the out-of-memory handler.
    NoMemory,
    /// The request is malformed, or the caller is not permitted to make it.
    Refused,
    Fault,
}

impl Refusal {
    /// Returns the code in a reply's status word.
    pub const fn code(self) -> u16 {
        match self {
            Refusal::NoSuchProc => status::NO_SUCH_PROC,
            Refusal::TooLarge => status::TOO_LARGE,
            Refusal::NoMemory => status::NO_MEMORY,
            Refusal::Refused => status::REFUSED,
            Refusal::Fault => status::FAULT,
        }
    }
    /// Decodes a status word other than OK. Unknown codes count as `Fault`.
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

/// Violation of the protocol by a peer. Peers are not trusted: the ring stays closed until the peer
/// has a new epoch, and nothing of the message is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PeerFault {
    /// An index that is further ahead than the ring is long.
    Index(u32),
    /// A message longer than what was published, or than `MAX_PAYLOAD`.
    Length(u16),
    /// A header for another position in the ring, or of an unknown kind.
    Header(u64),
    /// A reply slot that does not exist, is of another class or level, or is in use.
    Slot(u8),
}
