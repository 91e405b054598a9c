//! Remote frees: frames of another kernel's block that are freed here are returned to it.
//!
//! ```text
//!   free of a remote frame          batch n, repeated until acknowledged
//!  ------------------------> Outbox ---------------------------------------> Inbox --> free
//!                              ^                                               |
//!                              +--------------- acknowledge n -----------------+
//! ```
//! An [`Outbox`] per peer keeps frames until the peer acknowledges them; an [`Inbox`] per peer
//! accepts each batch once, by its number, however often it arrives. A batch is a message of up to
//! [`MAX_BATCH`] words, and one is in flight at a time, so neither side needs further memory.
//!
//! **When full**, [`Outbox::put`] returns [`Full`] and the caller keeps the frame: it sends the
//! batch that is due (which makes room) and tries again, attending meanwhile.
//! **Death**: an outbox belongs to an epoch of its peer. When that epoch ends its frames are void,
//! because their blocks return to the pool as a whole. When this kernel dies, the peer takes back
//! what it had lent, and from then on ignores batches still in flight ([`Inbox::over`]).

use base::addr::{PAGE, PhysAddr};
use base::id::Epoch;

/// Capacity of an outbox.
pub const CAPACITY: usize = 128;
/// Limit on frames per batch.
pub const MAX_BATCH: usize = 31;

/// Packs a chunk into one word, `address | order`; addresses are multiples of a page.
const fn pack(at: PhysAddr, order: u8) -> u64 {
    at.0 | order as u64
}

/// Unpacks a word of a batch.
pub const fn unpack(word: u64) -> (PhysAddr, u8) {
    (PhysAddr(word & !(PAGE - 1)), (word & (PAGE - 1)) as u8)
}

/// The outbox is full; the caller still owns the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Batches are numbered from 1.
    pub number: u64,
    /// Epoch of the peer that owns the frames.
    pub to: Epoch,
    /// Packed chunks, see [`unpack`].
    pub frames: &'a [u64],
}

/// Frames to be returned to one peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outbox {
    peer: Epoch,
    /// The batch in flight is the first `sent` of these.
    frames: [u64; CAPACITY],
    count: usize,
    sent: usize,
    number: u64,
}

impl Outbox {
    /// Creates an empty outbox for a peer in `epoch`.
    pub const fn new(epoch: Epoch) -> Outbox {
        Outbox { peer: epoch, frames: [0; CAPACITY], count: 0, sent: 0, number: 0 }
    }

    /// Adds a chunk.
    pub fn put(&mut self, at: PhysAddr, order: u8) -> Result<(), Full> {
        let slot = self.frames.get_mut(self.count).ok_or(Full)?;
        *slot = pack(at, order);
        self.count += 1;
        Ok(())
    }

    /// Returns the number of chunks.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the batch to send: the unacknowledged one, or else a new one.
    pub fn due(&mut self) -> Option<Batch<'_>> {
        if self.sent == 0 {
            self.sent = self.count.min(MAX_BATCH);
            self.number += u64::from(self.sent != 0);
        }
        let frames = &self.frames[..self.sent];
        (!frames.is_empty()).then_some(Batch { number: self.number, to: self.peer, frames })
    }

    /// Removes batch `number`, which the peer has accepted. Other numbers have no effect.
    pub fn acknowledged(&mut self, number: u64) {
        if self.sent != 0 && number == self.number {
            self.frames.copy_within(self.sent..self.count, 0);
            self.count -= self.sent;
            self.sent = 0;
        }
    }

    /// Starts over for the peer's next epoch. Returns the number of chunks that became void.
    pub fn restart(&mut self, epoch: Epoch) -> usize {
        let void = self.count;
        // The numbers continue: the new epoch has seen none of them.
        *self = Outbox { number: self.number, ..Outbox::new(epoch) };
        void
    }
}

/// What to do with a received batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Free its frames, then acknowledge it.
    Take,
    /// It was accepted before: acknowledge it only.
    Again,
    /// It is for another epoch, from an ended one, or older than the last batch accepted: ignore
    /// it.
    Stale,
}

/// Batches received from one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inbox {
    me: Epoch,
    from: Epoch,
    taken: u64,
}

impl Inbox {
    /// Creates the inbox of a kernel in epoch `me` for a peer in epoch `from`.
    pub const fn new(me: Epoch, from: Epoch) -> Inbox {
        Inbox { me, from, taken: 0 }
    }

    /// Makes batches from `epoch` of the peer stale, because that epoch has ended.
    pub fn over(&mut self, epoch: Epoch) {
        if epoch >= self.from {
            *self = Inbox::new(self.me, Epoch(epoch.0 + 1));
        }
    }

    /// Judges batch `number`, sent by the peer's epoch `from` to this kernel's epoch `to`.
    pub fn receive(&mut self, from: Epoch, to: Epoch, number: u64) -> Verdict {
        if to != self.me || from < self.from || number == 0 {
            return Verdict::Stale;
        }
        if from > self.from {
            *self = Inbox::new(self.me, from);
        }
        if number == self.taken {
            return Verdict::Again;
        }
        if number < self.taken {
            return Verdict::Stale;
        }
        self.taken = number;
        Verdict::Take
    }
}

#[cfg(test)]
mod tests;
