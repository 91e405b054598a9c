//! One transfer, and how it can end.

use abi::dma::{RING, flag, status};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most transfers of a batch.
pub const BATCH: usize = RING;

/// One transfer. Anything can be asked for; the engine refuses what makes no sense.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Transfer {
    /// Physical address, or the pattern of a fill.
    pub source: u64,
    /// Physical address.
    pub destination: u64,
    /// How many.
    pub bytes: u64,
    /// One of [`flag`].
    pub flags: u64,
}

impl Transfer {
    /// Bytes at `source` go to `destination`.
    pub const fn copy(source: u64, destination: u64, bytes: u64) -> Self {
        Transfer { source, destination, bytes, flags: flag::COPY }
    }

    /// `bytes` bytes at `destination` get the eight bytes of `pattern`, again and again.
    pub const fn fill(pattern: u64, destination: u64, bytes: u64) -> Self {
        Transfer { source: pattern, destination, bytes, flags: flag::FILL }
    }
}

/// Why a transfer of a batch was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Outside RAM.
    Address,
    /// RAM that is neither local nor global memory.
    Protected,
    /// No bytes, or too many.
    Length,
    /// Source and destination share a byte.
    Overlap,
    /// Neither copy nor fill.
    Flags,
    /// The engine found another descriptor than we announced.
    Queue,
    /// The session broke before it ended; it may have been done, or not.
    Lost,
    /// A status that we do not know.
    Unknown(u16),
}

impl Refusal {
    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Refusal::Address => "an address outside RAM",
            Refusal::Protected => "neither local nor global memory",
            Refusal::Length => "no bytes, or more than a transfer can have",
            Refusal::Overlap => "source and destination overlap",
            Refusal::Flags => "neither a copy nor a fill",
            Refusal::Queue => "not the descriptor that was announced",
            Refusal::Lost => "the channel broke before it ended",
            Refusal::Unknown(_) => "a status that this driver does not know",
        }
    }

    pub(crate) const fn of(status: u16) -> Option<Refusal> {
        Some(match status {
            status::DONE => return None,
            status::ADDRESS => Refusal::Address,
            status::PROTECTED => Refusal::Protected,
            status::LENGTH => Refusal::Length,
            status::OVERLAP => Refusal::Overlap,
            status::FLAGS => Refusal::Flags,
            status::QUEUE => Refusal::Queue,
            other => Refusal::Unknown(other),
        })
    }
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Transfers that were done.
    pub done: u32,
    /// The first that was not: its number in the batch, and why.
    pub refused: Option<(u32, Refusal)>,
    /// soc time, in ns, when the engine was through with the last one; 0 when all are lost.
    pub time: u64,
}
