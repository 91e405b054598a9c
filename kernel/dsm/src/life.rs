//! What a domain records of a peer's epoch, and the encoding of epochs as one byte per domain in
//! messages.

use base::id::{DomainId, Epoch};

use crate::types::Page;

/// The state of a peer according to the chip page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    Unknown,
    Up,
    /// Left, with all of its pages in memory.
    Slept,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    pub epoch: Epoch,
    pub life: Life,
    /// Round and base of an unanswered `Message::Ask`.
    pub asked: Option<(u8, Page)>,
}

/// Whether this domain must read the chip page before it takes over from a home that hands over.
///
/// ```text
///   NotNeeded --TakeHome names a member that does not run here--> Needed --chip--> Done
///      ^                                                                            |
///      +---------------------------------- TakeHome --------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChipPageRead {
    NotNeeded,
    /// That member may have started meanwhile and hold pages.
    Needed,
    Done,
}

/// Encodes `epoch` for `Message::Home`; never 0.
pub(crate) const fn byte(epoch: Epoch) -> u64 {
    (epoch.0 as u64 - 1) % 255 + 1
}

pub(crate) fn with_byte(sum: u64, domain: DomainId, epoch: Epoch) -> u64 {
    sum | byte(Epoch(epoch.0.max(1))) << (8 * domain.0)
}

pub(crate) const fn byte_of(sum: u64, domain: DomainId) -> u64 {
    sum >> (8 * domain.0) & 0xff
}
