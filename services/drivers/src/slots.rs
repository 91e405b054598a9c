//! Requests in flight, each in a slot with its own buffer, and the callers that they belong to.
//!
//! ```text
//!             begin                complete                release
//!    Free ------------> Busy -------------------> Done ------------> Free
//!     ^   the device may |  caller is gone          | caller is gone
//!     |   use the buffer v                          |
//!     +------------- Busy, orphaned                 |
//!     ^   complete                                  |
//!     +---------------------------------------------+
//! ```
//! The device may use the buffer of a busy slot until it has completed it or was reset, even if
//! no caller waits for it any more.

use crate::driver::Collected;
use share::{Device, Token};
use virtio::queue::{Completion, ENTRIES, Queue};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Free,
    /// With the device; `None`: its caller is gone.
    Busy(Option<Token>),
    /// Completed with so many bytes written by the device, for this caller.
    Done(Token, u32),
}

#[derive(Debug)]
pub struct Slots<const N: usize> {
    slots: [Slot; N],
    /// The slot of each request, by its head in the queue.
    of_head: [u8; ENTRIES],
}

impl<const N: usize> Slots<N> {
    pub const fn new() -> Self {
        Slots { slots: [Slot::Free; N], of_head: [0; ENTRIES] }
    }

    pub fn get(&self, slot: usize) -> Slot {
        self.slots.get(slot).copied().unwrap_or(Slot::Free)
    }

    /// Returns the slot with the request of `token`.
    pub fn of(&self, token: Token) -> Option<(usize, Slot)> {
        let is_its = |slot: &Slot| match *slot {
            Slot::Free => false,
            Slot::Busy(owner) => owner == Some(token),
            Slot::Done(owner, _) => owner == token,
        };
        let at = self.slots.iter().position(is_its)?;
        Some((at, self.slots[at]))
    }

    /// Returns the number of free slots.
    pub fn free(&self) -> usize {
        self.slots.iter().filter(|slot| **slot == Slot::Free).count()
    }

    pub fn first_free(&self) -> Option<usize> {
        self.slots.iter().position(|slot| *slot == Slot::Free)
    }

    /// The device has got the request of `token` under `head`.
    pub fn begin(&mut self, slot: usize, token: Token, head: u16) {
        self.slots[slot] = Slot::Busy(Some(token));
        self.of_head[usize::from(head) % ENTRIES] = slot as u8;
    }

    /// Takes over what the device has completed in its queue.
    pub fn collect(&mut self, queue: &mut Option<Queue>, device: &Device<'_>) -> Collected {
        let mut works = false;
        while let Some(done) = queue.as_mut().and_then(|it| it.complete(&device.words)) {
            self.complete(done);
            works = true;
        }
        Collected { works, more: false }
    }

    /// The device has completed a request.
    fn complete(&mut self, done: Completion) {
        let slot = usize::from(self.of_head[usize::from(done.head) % ENTRIES]);
        let Some(slot) = self.slots.get_mut(slot) else { return };
        *slot = match *slot {
            Slot::Busy(Some(owner)) => Slot::Done(owner, done.bytes),
            Slot::Busy(None) => Slot::Free,
            other => other,
        };
    }

    /// The caller has its answer.
    pub fn release(&mut self, slot: usize) {
        self.slots[slot] = Slot::Free;
    }

    /// The device was reset: what was in flight is dropped. Results are kept.
    pub fn drop_busy(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Busy(_) = slot {
                *slot = Slot::Free;
            }
        }
    }

    /// The callers for which `gone` is true do not come again.
    pub fn forget(&mut self, gone: impl Fn(Token) -> bool) {
        for slot in &mut self.slots {
            match *slot {
                Slot::Busy(Some(owner)) if gone(owner) => *slot = Slot::Busy(None),
                Slot::Done(owner, _) if gone(owner) => *slot = Slot::Free,
                _ => {}
            }
        }
    }

    /// Returns whether the request of `token` is with the device.
    pub fn is_busy(&self, token: Token) -> bool {
        self.slots.contains(&Slot::Busy(Some(token)))
    }
}
