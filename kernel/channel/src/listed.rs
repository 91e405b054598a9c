//! The table for people: what a slot has, as a copy.
//!
//! Contract: nothing changes. A caller that lists all slots may release its lock between two of
//! them; the list is then not of one moment.

use crate::channels::Channels;
use crate::end::Place;
use crate::name::{ContractId, EndId, Life, Side};

/// An end, or the stand-in of one that has left ([`Place::Away`]): then the figures are those with
/// which it left. The name lacks the channel's secret, so a list does not give what names an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    pub id: EndId,
    /// The kernel that created the channel.
    pub creator: Life,
    /// The channel's number there.
    pub number: u64,
    pub side: Side,
    pub contract: ContractId,
    pub level: u8,
    pub place: Place,
    /// Where the peer is, or was, as far as this kernel knows.
    pub peer: Life,
    /// The peer is closed.
    pub is_closed: bool,
    /// Messages may have been lost with a kernel.
    pub is_broken: bool,
    /// Messages since the channel was created, also through this end on other kernels.
    pub sent: u64,
    pub received: u64,
    /// Bytes that the end has sent from this kernel: fields, and [blocks](Channels::count_block).
    pub bytes: u64,
    /// Messages to the end that are here.
    pub unread: usize,
    /// The owner that is charged for the slot.
    pub owner: u32,
}

impl<B> Channels<B> {
    /// Returns the number of slots.
    pub fn slots(&self) -> u16 {
        self.table.len()
    }

    /// Returns what a slot has.
    pub fn listed(&self, slot: u16) -> Option<Listed> {
        let (id, end) = (self.table.id(slot)?, self.table.get(slot)?);
        let record = &end.record;
        let channel = record.name.channel;
        Some(Listed {
            id,
            creator: channel.creator,
            number: channel.number,
            side: record.name.side,
            contract: record.contract,
            level: record.bounds.level,
            place: end.place,
            peer: record.peer.at,
            is_closed: record.peer.closed.is_some(),
            is_broken: record.is_broken,
            sent: record.sent,
            received: record.read,
            bytes: end.bytes,
            unread: end.queue.len(),
            owner: end.owner,
        })
    }

    /// Counts the bytes of a block that an end has sent with a message: the table does not know
    /// them.
    pub fn count_block(&mut self, end: EndId, bytes: u64) {
        if let Some(end) = self.table.get_mut(end.index) {
            end.bytes = end.bytes.wrapping_add(bytes);
        }
    }

    /// Returns the same of an end that descriptors hold.
    pub fn listed_end(&self, end: EndId) -> Option<Listed> {
        self.listed(self.table.held(end)?)
    }
}
