//! A transfer, and how it can end.

use abi::dma::{RING, flag, status};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum number of transfers in a batch.
pub const BATCH: usize = RING;

/// A transfer. It may have any values; the engine refuses invalid ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Transfer {
    /// Physical address, or the pattern of a fill.
    pub source: u64,
    /// Physical address.
    pub destination: u64,
    pub bytes: u64,
    /// One of [`flag`].
    pub flags: u64,
}

impl Transfer {
    /// Copies `bytes` bytes.
    pub const fn copy(source: u64, destination: u64, bytes: u64) -> Self {
        Transfer { source, destination, bytes, flags: flag::COPY }
    }

    /// Fills `bytes` bytes with the repeated eight bytes of `pattern`.
    pub const fn fill(pattern: u64, destination: u64, bytes: u64) -> Self {
        Transfer { source: pattern, destination, bytes, flags: flag::FILL }
    }
}

/// Why a transfer was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Address,
    Protected,
    /// Local memory of another domain.
    Foreign,
    Length,
    /// Source and destination overlap.
    Overlap,
    Flags,
    /// The engine found a descriptor other than the announced one.
    Queue,
    /// The session broke before the transfer ended; it may have been done or not.
    Lost,
    /// A status unknown to this driver.
    Unknown(u16),
}

impl Refusal {
    /// Returns a description for people.
    pub const fn text(self) -> &'static str {
        match self {
            Refusal::Address => "an address outside RAM",
            Refusal::Protected => "neither local nor global memory",
            Refusal::Foreign => "local memory of another domain",
            Refusal::Length => "no bytes, or more than a transfer can have",
            Refusal::Overlap => "source and destination overlap",
            Refusal::Flags => "neither a copy nor a fill",
            Refusal::Queue => "not the descriptor that was announced",
            Refusal::Lost => "the channel broke before the transfer ended",
            Refusal::Unknown(_) => "a status that this driver does not know",
        }
    }

    pub(crate) const fn of(status: u16) -> Option<Refusal> {
        Some(match status {
            status::DONE => return None,
            status::ADDRESS => Refusal::Address,
            status::PROTECTED => Refusal::Protected,
            status::FOREIGN => Refusal::Foreign,
            status::LENGTH => Refusal::Length,
            status::OVERLAP => Refusal::Overlap,
            status::FLAGS => Refusal::Flags,
            status::QUEUE => Refusal::Queue,
            other => Refusal::Unknown(other),
        })
    }
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of transfers that were done.
    pub done: u32,
    /// The first one that was not: its index in the batch, and the reason.
    pub refused: Option<(u32, Refusal)>,
    /// Soc time in ns when the engine finished the last one; 0 if all are lost.
    pub time: u64,
}
