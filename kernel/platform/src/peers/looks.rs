//! Whether a peer has sent something, mostly without a lock.
//!
//! Contract: a core that takes messages stores the producer word with which the ring is empty,
//! under the server's lock. A look that loads the same word knows that nothing is waiting; one that
//! finds another word looks again under the lock.

use super::Peer;
use core::sync::atomic::Ordering;
use kernel_msg::ring::producer_word;
use kernel_msg::{Class, Server};

impl Peer {
    /// Returns false if no message of `class` is waiting. One load.
    #[inline]
    pub(super) fn may_have_sent(&self, class: Class) -> bool {
        self.sent_word(class).is_some()
    }

    /// Returns the producer word, if a message may be waiting. One load.
    #[inline]
    pub(super) fn sent_word(&self, class: Class) -> Option<u64> {
        let known = self.empty[class as usize].load(Ordering::Relaxed);
        Some(producer_word(&self.wires, class)).filter(|word| *word != known)
    }

    #[inline]
    pub(super) fn note_empty(&self, server: &Server, class: Class) {
        self.empty[class as usize].store(server.empty_word(class), Ordering::Relaxed);
    }

    /// Returns whether a message of `class` is waiting.
    pub(super) fn has_sent(&self, server: &Server, class: Class) -> bool {
        self.note_empty(server, class);
        server.is_waiting(&self.wires, class)
    }

    #[inline]
    pub(super) fn is_requested(&self, class: Class) -> bool {
        self.may_have_sent(class) && self.looks_requested(class)
    }

    #[inline(never)]
    fn looks_requested(&self, class: Class) -> bool {
        self.has_sent(&self.server.lock(), class)
    }
}
