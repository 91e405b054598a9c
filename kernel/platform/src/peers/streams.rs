//! Streams: one-way messages that arrive in order, and without loss while both kernels live.
//!
//! A message is executed by a core that polls, like an urgent request, but not by one that waits
//! for something else. Another core may take the next one off the ring meanwhile, so a core holds
//! the peer's *turn* while it takes a message and executes it. The others wait for the turn if a
//! message is in the ring.
//!
//! **Full**: nothing is sent, and nothing is queued here. The peer rings when it has made room; a
//! poll then calls [`super::Procedures::stream_room`], on the sending side (`kernel_msg::ring`).
//! Each look that takes messages ends with a look at the peer's stalled word, so no peer waits for
//! nothing.
//!
//! A thread that waits for just one message may take it itself ([`Peers::take_front`]), with the
//! peer's turn: it is copied once then, from the ring to where the thread wants it.

use super::{Peer, Peers};
use abi::msg::{LAYOUT, MAX_PAYLOAD};
use base::id::{DomainId, Epoch, Life};
use kernel_msg::{CallError, Class, Payload};

/// The number of the procedure in a message of a stream. It has no meaning.
const NO_PROCEDURE: u16 = 0;

/// Executes a message of a peer's stream: of this peer, in this epoch.
pub type Execute<'a> = &'a mut dyn FnMut(DomainId, Epoch, &[u8]);

/// Takes the next message of a peer's stream ([`Peers::take_front`]), or returns false.
pub type Take<'a> = &'a mut dyn FnMut(Sent) -> bool;

/// A peer, and the producer word with which its stream has a message.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub by: DomainId,
    word: u64,
}

/// What was found in the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Nothing,
    /// Messages, which have been executed.
    Executed,
    /// A message that the caller has taken.
    Taken,
}

impl Peers {
    /// Returns whether a payload of `bytes` can be sent to peer `id` now. If not, but later in this
    /// session, [`super::Procedures::stream_room`] is called once there may be room. From any
    /// context without leaf locks of the rank `OUTGOING` or above.
    pub fn has_room_to_stream(&self, id: DomainId, bytes: usize) -> bool {
        let Some(peer) = self.peer(id) else { return false };
        peer.caller.lock().has_room(&peer.wires, Class::Stream, bytes)
    }

    /// Sends a message in the stream to peer `id`, after those sent before. Never waits. `Busy`: no
    /// room, as in [`Peers::has_room_to_stream`]. `PeerLost`: the peer does not run, or has broken
    /// the protocol; its session is over. The same contexts. A thread that has sent a message to a
    /// peer that may rest calls [`Peers::wake_sleeper`]; a doorbell does not wake it.
    pub fn stream(&self, id: DomainId, payload: Payload<'_>) -> Result<(), CallError> {
        let peer = self.peer(id).ok_or(CallError::PeerLost)?;
        peer.caller.lock().notice(&peer.wires, Class::Stream, NO_PROCEDURE, payload)?;
        peer.ring(self.vector);
        Ok(())
    }

    /// Treats peer `id` as one that violated the protocol in `epoch`: nothing more is taken from it
    /// or sent to it until its next epoch. For the receiver of a message that is malformed; also
    /// from [`super::Procedures::stream`]. Calls to the peer end with `PeerLost`.
    pub fn distrust(&self, id: DomainId, epoch: Epoch) {
        if let Some(peer) = self.peer(id) {
            peer.server.lock().lose(epoch);
            peer.distrust(epoch);
        }
    }

    /// Returns whether a life of another kernel is over: it has died, or violated the protocol.
    pub fn is_over(&self, life: Life) -> bool {
        let session = self.peer(life.kernel).and_then(|peer| peer.caller.lock().peer());
        session != Some(life.epoch)
    }

    /// Executes what has arrived in the stream of `peer`, at most one ring's worth, and notifies
    /// it that there is room again. Returns whether there was anything.
    pub(super) fn serve_stream(
        &self,
        peer: &Peer,
        buffer: &mut [u8; MAX_PAYLOAD],
        execute: Execute<'_>,
    ) -> bool {
        let mut has_taken = false;
        for _ in 0..LAYOUT.stream_slots {
            if !peer.execute_one(buffer, execute) {
                break;
            }
            has_taken = true;
        }
        if has_taken {
            peer.notify_stalled(self.vector);
        }
        has_taken
    }

    /// Executes what has arrived in the streams, by `execute`, but for a message that `take` takes.
    /// For a thread that waits for a message, with interrupts masked: without one, this is a load
    /// for each peer.
    #[inline]
    pub fn hear_streams(&self, execute: Execute<'_>, take: Take<'_>) -> Heard {
        let mut heard = Heard::Nothing;
        for peer in self.iter() {
            let Some(word) = peer.sent_word(Class::Stream) else { continue };
            if take(Sent { by: peer.id, word }) {
                return Heard::Taken;
            }
            if self.hear_stream(peer, execute) {
                heard = Heard::Executed;
            }
        }
        heard
    }

    #[inline(never)]
    fn hear_stream(&self, peer: &Peer, execute: Execute<'_>) -> bool {
        let scratch = self.urgent[arch::cpu::core().index()].try_lock();
        scratch.is_some_and(|mut it| self.serve_stream(peer, &mut it.request, execute))
    }

    /// Takes the next message of a peer's stream, if it has `N` words and `accept` accepts it. That
    /// is called with the sender's epoch, the words, and the number of bytes after them. If it
    /// returns where those go (as many), with a result, the message is taken; else it is executed
    /// in the usual way. `accept` runs with the peer's turn and the lock of its messages, so it
    /// takes locks of ranks above `INCOMING` only, and does not wait for them.
    #[inline]
    pub fn take_front<'a, const N: usize, T>(
        &self,
        Sent { by, word }: Sent,
        accept: impl FnOnce(Epoch, [u64; N], usize) -> Option<(&'a mut [u8], T)>,
    ) -> Option<T> {
        let peer = self.peer(by)?;
        // Not while another core executes the message before it.
        let _turn = peer.turn.try_lock()?;
        let mut server = peer.server.lock();
        let epoch = server.peer()?;
        let (front, words) = server.front(&peer.wires, word)?;
        let (into, result) = accept(epoch, words, front.length - size_of_val(&words))?;
        server.take::<N>(&peer.wires, &front, into);
        peer.note_empty(&server, Class::Stream);
        if server.must_notify(&peer.wires) {
            peer.ring(self.vector);
        }
        Some(result)
    }
}

impl Peer {
    /// Takes and executes the next message of the stream. Returns false if there is none.
    #[inline]
    fn execute_one(&self, buffer: &mut [u8; MAX_PAYLOAD], execute: Execute<'_>) -> bool {
        // Another core may still execute the last message; that is not waited for.
        if !self.may_have_sent(Class::Stream) {
            return false;
        }
        let _turn = self.turn.lock();
        let Some((epoch, bytes)) = self.receive_stream(buffer) else { return false };
        execute(self.id, epoch, &buffer[..bytes]);
        true
    }

    /// Returns the peer's epoch and the size of its next message, whose bytes are in `buffer`.
    fn receive_stream(&self, buffer: &mut [u8; MAX_PAYLOAD]) -> Option<(Epoch, usize)> {
        let server = self.server.lock();
        let epoch = server.peer()?;
        self.received(server, Class::Stream, buffer).map(|message| (epoch, message.bytes))
    }

    /// Rings the peer if its stream has stalled and there is room now.
    pub(super) fn notify_stalled(&self, vector: u32) {
        if self.server.lock().must_notify(&self.wires) {
            self.ring(vector);
        }
    }
}
