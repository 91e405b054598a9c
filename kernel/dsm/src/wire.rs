//! The links that carry messages: in each direction a ring of self-describing slots in words that
//! two domains share, separate from the RPC rings so that messages never wait for calls. The
//! layout is in [`abi::dsm`].
//!
//! Contract: aligned 64-bit loads and stores only, and one writer per word. A full barrier
//! separates a message from the header that publishes it, that header from the receiver's loads of
//! the message, and the header from the sender's check whether it must ring the doorbell.
//!
//! A session is a pair of epochs, named in each header, so a slot left over from an earlier epoch
//! of either side matches no session. Sequence numbers count from 0 in each session; a domain that
//! sleeps and wakes keeps its epoch and its sessions.
//!
//! **A ring cannot fill**, so nothing counts free slots. In one direction there are at most
//! - one [`Message::Get`] or [`Message::Grant`] per core of the client: the next one follows the
//!   answer (`cores`; twice that around a change of homes, when requests are repeated),
//! - one [`Message::Revoke`] per request of any domain, or its [`Message::Ack`]: the home keeps the
//!   request until it is answered (`domains * cores`; twice around a change of homes),
//! - one other message, or its answer, per change of the chip page. If a peer reads nothing while
//!   the chip page changes [`abi::dsm::CONTROL`] times, the receiver detects the gap in the
//!   sequence ([`PeerFault::Overrun`]) and the session ends as with any other fault.
//!
//! The models check this bound in every state.

use abi::dsm::{BODY, FIRST, HEADER, SECOND, SLOT, pack_header, unpack_header};
use base::id::Epoch;
use base::port::Words;

use crate::message::Message;
use crate::types::PeerFault;

/// One end of a session; the same for sender and receiver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct End {
    me: Epoch,
    peer: Epoch,
    slots: u32,
    sequence: u32,
}

impl End {
    const fn new(me: Epoch, slots: u32) -> End {
        End { me, peer: Epoch(0), slots, sequence: 0 }
    }

    fn start(&mut self, peer: Epoch) {
        if self.peer != peer {
            (self.peer, self.sequence) = (peer, 0);
        }
    }

    fn slot(&self) -> usize {
        (self.sequence % self.slots) as usize * SLOT
    }
}

/// The sending end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outbox(End);

impl Outbox {
    /// Creates the end for a kernel of epoch `me`; `slots` comes from [`abi::dsm::slots`].
    pub const fn new(me: Epoch, slots: u32) -> Outbox {
        Outbox(End::new(me, slots))
    }

    /// Starts a session with the peer's epoch, unless it is the current one.
    pub fn start(&mut self, peer: Epoch) {
        self.0.start(peer);
    }

    /// Sends a message, which is visible to the peer when this returns. `mine` is the memory of the
    /// link (me, peer).
    pub fn send(&mut self, mine: &impl Words, message: &Message) {
        self.send_words(mine, message.encode());
    }

    /// Sends an encoded message.
    pub fn send_words(&mut self, mine: &impl Words, [body, first, second]: [u64; 3]) {
        let slot = self.0.slot();
        mine.store(slot + BODY, body);
        if !Message::is_short(body) {
            mine.store(slot + FIRST, first);
            mine.store(slot + SECOND, second);
        }
        // Orders the message, and data cleaned before it, before the header that publishes it.
        mine.barrier();
        let End { me, peer, sequence, .. } = self.0;
        mine.store(slot + HEADER, pack_header(me.0, peer.0, sequence));
        // Orders the header before the sender's check whether the peer is polling.
        mine.barrier();
        self.0.sequence = sequence.wrapping_add(1);
    }
}

/// The receiving end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inbox(End);

impl Inbox {
    /// Creates the end for a kernel of epoch `me`; `slots` as for the sender.
    pub const fn new(me: Epoch, slots: u32) -> Inbox {
        Inbox(End::new(me, slots))
    }

    /// Starts a session with the peer's epoch, unless it is the current one.
    pub fn start(&mut self, peer: Epoch) {
        self.0.start(peer);
    }

    pub fn peer(&self) -> Epoch {
        self.0.peer
    }

    /// Returns whether a message has arrived. Costs one load.
    #[inline]
    pub fn is_waiting(&self, theirs: &impl Words) -> bool {
        let header = unpack_header(theirs.load(self.0.slot() + HEADER));
        let End { me, peer, sequence, .. } = self.0;
        peer.0 != 0 && header == (peer.0, me.0, sequence)
    }

    /// Returns the first word of the next message, which stays the next one until [`Inbox::done`].
    #[inline]
    pub fn peek(&self, theirs: &impl Words) -> Result<Option<u64>, PeerFault> {
        let slot = self.0.slot();
        let (sender, receiver, sequence) = unpack_header(theirs.load(slot + HEADER));
        let End { me, peer, sequence: expected, .. } = self.0;
        if peer.0 == 0 || (sender, receiver) != (peer.0, me.0) {
            return Ok(None);
        }
        match sequence.wrapping_sub(expected) {
            0 => {}
            ahead if ahead < 1 << 31 => return Err(PeerFault::Overrun),
            _ => return Ok(None),
        }
        // Orders the header before the message, and before data that the sender cleaned.
        theirs.barrier();
        Ok(Some(theirs.load(slot + BODY)))
    }

    /// Returns the message that starts with `body`, which [`Inbox::peek`] returned.
    pub fn message(&self, theirs: &impl Words, body: u64) -> Result<Message, PeerFault> {
        let slot = self.0.slot();
        let [first, second] = match Message::is_short(body) {
            true => [0; 2],
            false => [FIRST, SECOND].map(|word| theirs.load(slot + word)),
        };
        Message::decode([body, first, second])
    }

    /// Removes the message that [`Inbox::peek`] returned.
    pub fn done(&mut self) {
        self.0.sequence = self.0.sequence.wrapping_add(1);
    }
}
