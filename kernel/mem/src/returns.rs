//! Foreign frees: frames of another kernel's block that are freed here go home, later.
//!
//! ```text
//!   free of a foreign frame         batch n, again until it is acknowledged
//!  ------------------------> Outbox ---------------------------------------> Inbox --> free
//!                              ^                                               |
//!                              +-------------- acknowledged n -----------------+
//! ```
//! An [`Outbox`] a peer keeps frames until the peer says that it has taken them; an [`Inbox`] a
//! peer takes each batch once, by its number, however often it comes. Batches are messages of
//! [`MAX_BATCH`] words and go one at a time, so that neither side needs memory for more.
//!
//! **Full**: [`Outbox::put`] returns [`Full`] and the frame stays the caller's, who sends the
//! batch that is due (it makes room for as many) and tries again, waiting as everybody waits.
//! **Death**: an outbox belongs to an epoch of its peer. When that is over its frames are void, for
//! their blocks go to the pool whole; when ours is over, the peer takes back what it had lent us,
//! and from then on nothing that is still under way ([`Inbox::over`]).

use base::addr::{PAGE, PhysAddr};
use base::id::Epoch;

/// Frames that wait for one peer.
pub const CAPACITY: usize = 128;
/// Frames of a batch.
pub const MAX_BATCH: usize = 31;

/// Chunks of frames in one word: `address | order`, for addresses are multiples of a page.
const fn pack(at: PhysAddr, order: u8) -> u64 {
    at.0 | order as u64
}

/// Takes it apart.
pub const fn unpack(word: u64) -> (PhysAddr, u8) {
    (PhysAddr(word & !(PAGE - 1)), (word & (PAGE - 1)) as u8)
}

/// There is no room; the frame is still the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A batch on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Counts up; 0 is none.
    pub number: u64,
    /// Epoch of the peer whose frames these are.
    pub to: Epoch,
    /// Frames, see [`unpack`].
    pub frames: &'a [u64],
}

/// Frames of one peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outbox {
    peer: Epoch,
    /// The batch under way is the first `sent` of these.
    frames: [u64; CAPACITY],
    count: usize,
    sent: usize,
    number: u64,
}

impl Outbox {
    /// Empty, for a peer in `epoch`.
    pub const fn new(epoch: Epoch) -> Outbox {
        Outbox { peer: epoch, frames: [0; CAPACITY], count: 0, sent: 0, number: 0 }
    }

    /// Keeps a chunk until it is home.
    pub fn put(&mut self, at: PhysAddr, order: u8) -> Result<(), Full> {
        let slot = self.frames.get_mut(self.count).ok_or(Full)?;
        *slot = pack(at, order);
        self.count += 1;
        Ok(())
    }

    /// Frames that wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The batch to send now: the one not yet acknowledged, or else a new one.
    pub fn due(&mut self) -> Option<Batch<'_>> {
        if self.sent == 0 {
            self.sent = self.count.min(MAX_BATCH);
            self.number += u64::from(self.sent != 0);
        }
        let frames = &self.frames[..self.sent];
        (!frames.is_empty()).then_some(Batch { number: self.number, to: self.peer, frames })
    }

    /// The peer has taken batch `number`; another number changes nothing.
    pub fn acknowledged(&mut self, number: u64) {
        if self.sent != 0 && number == self.number {
            self.frames.copy_within(self.sent..self.count, 0);
            self.count -= self.sent;
            self.sent = 0;
        }
    }

    /// The peer has begun another life: how many frames became void.
    pub fn restart(&mut self, epoch: Epoch) -> usize {
        let void = self.count;
        // The number goes on: the new life knows none of it.
        *self = Outbox { number: self.number, ..Outbox::new(epoch) };
        void
    }
}

/// What to do with a batch that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Free its frames, then acknowledge it.
    Take,
    /// It was taken before: acknowledge it only.
    Again,
    /// It is for another life, or comes too late: nothing.
    Stale,
}

/// What came from one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inbox {
    me: Epoch,
    from: Epoch,
    taken: u64,
}

impl Inbox {
    /// Of a kernel in epoch `me`, from a peer in epoch `from`.
    pub const fn new(me: Epoch, from: Epoch) -> Inbox {
        Inbox { me, from, taken: 0 }
    }

    /// The peer's life `epoch` is over; batches of it are stale.
    pub fn over(&mut self, epoch: Epoch) {
        if epoch >= self.from {
            *self = Inbox::new(self.me, Epoch(epoch.0 + 1));
        }
    }

    /// Batch `number` of the peer's epoch `from` for our epoch `to` came.
    pub fn came(&mut self, from: Epoch, to: Epoch, number: u64) -> Verdict {
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
