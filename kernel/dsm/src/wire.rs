//! Messages over words between domains: a ring of self-describing slots in each direction, its own
//! memory, never behind the RPC rings. Layout: [`abi::dsm`].
//!
//! Contract: aligned 64-bit loads and stores only, one writer a word; a full barrier between a
//! message and the header that publishes it, between that header and the message's loads, and
//! behind the header, before the sender looks whether it must ring.
//!
//! A session is a pair of epochs, named in each header, so what an earlier life of either side
//! left in a slot is nobody's message. Sequence numbers count from 0 in each session; a domain
//! that sleeps and wakes keeps its epoch and its sessions.
//!
//! **It cannot fill**, so nothing counts free slots. In one direction there are under way at most
//! - one [`Message::Get`] or [`Message::Grant`] of each core of the client: the next one comes
//!   after the answer (`cores`; twice that around a change of homes, when it is sent again),
//! - one [`Message::Revoke`] of each request of any domain, or its [`Message::Ack`]: the home keeps
//!   the request until it is answered (`domains * cores`; twice, around a change of homes),
//! - of the others, one a change of the chip page or answer to one. A peer that takes nothing
//!   while the chip changes [`abi::dsm::CONTROL`] times is found out: the receiver sees the gap
//!   in the sequence ([`PeerFault::Overrun`]) and the session ends as with any other fault.
//!
//! The models check the bound in every state.

use abi::dsm::{BODY, FIRST, HEADER, SECOND, SLOT, pack_header, unpack_header};
use base::id::Epoch;
use base::port::Words;

use crate::message::Message;
use crate::word::PeerFault;

/// One end of a session, sending or receiving.
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
    /// For a kernel of epoch `me`; `slots` as [`abi::dsm::slots`] says.
    pub const fn new(me: Epoch, slots: u32) -> Outbox {
        Outbox(End::new(me, slots))
    }

    /// The peer runs in this epoch.
    pub fn start(&mut self, peer: Epoch) {
        self.0.start(peer);
    }

    /// Sends; visible to the peer when this returns. `mine` is the link (me, peer).
    pub fn send(&mut self, mine: &impl Words, message: &Message) {
        self.send_words(mine, message.encode());
    }

    /// The same for an encoded message.
    pub fn send_words(&mut self, mine: &impl Words, [body, first, second]: [u64; 3]) {
        let slot = self.0.slot();
        mine.store(slot + BODY, body);
        if !Message::is_short(body) {
            mine.store(slot + FIRST, first);
            mine.store(slot + SECOND, second);
        }
        // The message, and the data that was cleaned before it, before the word that publishes it
        mine.barrier();
        let End { me, peer, sequence, .. } = self.0;
        mine.store(slot + HEADER, pack_header(me.0, peer.0, sequence));
        // ... and that word before the look at who is attending.
        mine.barrier();
        self.0.sequence = sequence.wrapping_add(1);
    }
}

/// The receiving end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inbox(End);

impl Inbox {
    /// For a kernel of epoch `me`.
    pub const fn new(me: Epoch, slots: u32) -> Inbox {
        Inbox(End::new(me, slots))
    }

    /// The peer runs in this epoch.
    pub fn start(&mut self, peer: Epoch) {
        self.0.start(peer);
    }

    /// The epoch of whose messages these are.
    pub fn peer(&self) -> Epoch {
        self.0.peer
    }

    /// Is there a message? One load.
    #[inline]
    pub fn is_waiting(&self, theirs: &impl Words) -> bool {
        let header = unpack_header(theirs.load(self.0.slot() + HEADER));
        let End { me, peer, sequence, .. } = self.0;
        peer.0 != 0 && header == (peer.0, me.0, sequence)
    }

    /// The first word of the next message, which stays the next one until [`Inbox::done`].
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
        // The word that published before what it published, memory that was cleaned included.
        theirs.barrier();
        Ok(Some(theirs.load(slot + BODY)))
    }

    /// The message that begins with `body`, as [`Inbox::peek`] said.
    pub fn message(&self, theirs: &impl Words, body: u64) -> Result<Message, PeerFault> {
        let slot = self.0.slot();
        let [first, second] = match Message::is_short(body) {
            true => [0; 2],
            false => [FIRST, SECOND].map(|word| theirs.load(slot + word)),
        };
        Message::decode([body, first, second])
    }

    /// The message that was seen last is dealt with.
    pub fn done(&mut self) {
        self.0.sequence = self.0.sequence.wrapping_add(1);
    }
}
