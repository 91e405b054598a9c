//! Messages between kernels. Five kinds, each bounded, none answered synchronously.
//!
//! A message names the end that it is for. A kernel that has a stand-in of that end passes the
//! message on; one that knows nothing of the end drops it, and closes the ends that it carries.

use crate::bounds::{Bounds, CARRIED};
use crate::name::{ContractId, EndName, Life, Lives};

/// What one kernel sends to another.
#[expect(clippy::large_enum_variant, reason = "one at a time is made, and nothing allocates")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message<B> {
    /// A program's message to this end.
    Data { to: EndName, data: Data<B> },
    /// An end for a program that starts on the receiver, which knows it by the ticket.
    Hand { record: Record, ticket: u64 },
    /// What the peer of this end says about itself.
    News { to: EndName, news: News },
    /// The stand-in of this end is no longer needed, if the end left there with at most this
    /// number of moves. If the end is closed or broken, the stand-in tells the peer its last News.
    Retire { end: EndName, moves: u32, last: Option<News> },
    /// The receiver may send so many more ends here.
    Room { ends: u16 },
}

/// A program's message on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Data<B> {
    /// The number of messages that the same end has sent before.
    pub sequence: u64,
    pub tag: u16,
    /// State of the contract after this message.
    pub state: u16,
    pub payload: B,
    pub carried: [Cargo; CARRIED],
}

/// A place for an end in a message between kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cargo {
    Nothing,
    /// The end was closed on its way, with a kernel that died or for lack of room.
    Lost,
    End(Record),
}

/// What an end says about itself. Always its whole state: the newest edition replaces all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct News {
    /// Rises with each News of this end.
    pub edition: u32,
    pub at: Life,
    /// How often the end has moved between kernels.
    pub moves: u32,
    /// How many messages it had sent before it arrived there.
    pub before: u64,
    /// Kernels through which some of those may still come.
    pub trail: Lives,
    pub status: Status,
    /// The newest move of the receiver that it knows, how many messages it had sent when it
    /// learned of it, and whether all that the receiver sent before that move has reached it.
    pub heard: u32,
    pub switched: u64,
    pub has_all: bool,
}

/// Whether an end is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Open,
    /// It was closed after so many messages. All of them arrive.
    Closed(u64),
    /// Messages may have been lost with a kernel. What has not arrived does not.
    Broken,
}

/// Everything about an end that moves with it. Its unread messages follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    pub name: EndName,
    pub contract: ContractId,
    /// State of the contract.
    pub state: u16,
    pub bounds: Bounds,
    pub moves: u32,
    pub edition: u32,
    pub sent: u64,
    /// Messages that the holders have received.
    pub read: u64,
    /// Messages that were sent before the last move.
    pub before: u64,
    /// Kernels that have a stand-in of this end.
    pub trail: Lives,
    pub is_broken: bool,
    pub peer: Peer,
}

/// What an end knows of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Where it is, or was.
    pub at: Life,
    pub moves: u32,
    pub edition: u32,
    /// Messages that this end had sent when it learned of the peer's last move: all that went
    /// anywhere else.
    pub switched: u64,
    /// Until `before` messages have been received, some may come through these kernels.
    pub awaited: Lives,
    pub before: u64,
    /// The peer sends only so many messages.
    pub closed: Option<u64>,
    /// The peer need not be told anything any more.
    pub is_gone: bool,
    /// What the peer's last News said about this end.
    pub heard: u32,
    pub heard_switched: u64,
    pub heard_all: bool,
}

/// A kernel broke the protocol. Its session ends: the caller reports its life as dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerFault {
    /// No such session.
    Stranger,
    /// Words that are no message.
    Malformed,
    /// A message outside of the contract's bounds, or one twice.
    Bound,
    /// An end that is here already, or more ends than it has room for.
    Arrival,
}
