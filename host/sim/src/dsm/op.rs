//! The operations of a simulated kernel, and what they report to the world.

use kernel_dsm::{Page, PeerStatus, Start};

use super::losses::Losses;

/// An operation of a kernel.
#[derive(Clone, Debug)]
pub enum Op {
    /// Polls the messages of a peer.
    Poll(usize),
    /// Lets a core continue.
    Core(usize),
    /// Completes the oldest shootdown.
    Unmapped,
    /// Expires pins.
    Tick,
    /// Reads the chip page: the states of the peers, and whether pages may have been lost since the
    /// last domain has left.
    Learn(Vec<PeerStatus>, bool),
    /// Reads the chip page and joins.
    Start(Vec<PeerStatus>, bool, Start),
    /// Requests to leave, after reading these losses from the chip page.
    Leave(Losses),
}

/// An event that the world must know.
#[derive(Clone, Debug)]
pub enum Told {
    /// A core read this value.
    Saw(Page, u64),
    /// A core stored this value.
    Stored(Page, u64),
    /// The home has lost this page.
    Lost(Page),
    /// An access succeeded.
    Done,
    /// An access found a lost page.
    Failed,
    /// The domain may power down. It has handled these losses ([`Losses::settled`]).
    Left(u64),
    /// A page ping-pongs.
    Thrash,
    /// An invariant is violated.
    Broken(String),
}
