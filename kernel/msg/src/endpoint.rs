//! All peers of one kernel in one value, for the simulator and for kernels that need only one lock.
//! Others use [`Caller`] and [`Server`] separately, each with its own lock.
//!
//! `poll` takes every message and never waits for a handler. `out` must accept every request (see
//! [`crate::pool`] for what happens when no handler can run). A peer that breaks the protocol is
//! reported once and is lost until its next epoch.

use abi::boot::MAX_DOMAINS;
use abi::msg::{Layout, MAX_PAYLOAD};
use base::id::{DomainId, Epoch};
use base::port::Words;

use crate::caller::Caller;
use crate::ring::Payload;
use crate::rpc::{CLASSES, CallError, CallId, Class, Level, LinkPair, PeerFault, Refusal, ReplyTo};
use crate::server::{ReplyError, Request, Server};

/// Both directions of the link to one peer.
#[derive(Clone, Debug)]
pub struct Peer<W> {
    pub wires: LinkPair<W>,
    pub caller: Caller,
    pub server: Server,
}

/// Result of a poll.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request or notice. The payload is valid during the callback only.
    Request(Request, &'a [u8]),
    /// A call has ended; fetch the result with [`Endpoint::finish`].
    Ended(DomainId, CallId, u64),
    /// The peer broke the protocol and is lost.
    Fault(DomainId, PeerFault),
    /// A stream to the peer that had stalled may continue.
    Room(DomainId),
    /// The peer's stream had stalled and may continue; ring its doorbell if `notify::must_ring`.
    Notify(DomainId),
}

#[derive(Clone, Debug)]
pub struct Endpoint<W> {
    layout: &'static Layout,
    epoch: Epoch,
    peers: [Option<Peer<W>>; MAX_DOMAINS],
}

impl<W: Words> Endpoint<W> {
    /// Starts without peers.
    pub fn new(layout: &'static Layout, epoch: Epoch) -> Endpoint<W> {
        Endpoint { layout, epoch, peers: [const { None }; MAX_DOMAINS] }
    }

    /// Adds a peer, which counts as lost until `peer_changed`. An id of [`MAX_DOMAINS`] or above is
    /// ignored.
    pub fn add(&mut self, id: DomainId, wires: LinkPair<W>) {
        let caller = Caller::new(self.layout, self.epoch);
        let server = Server::new(self.layout, id, self.epoch);
        if let Some(place) = self.peers.get_mut(id.index()) {
            *place = Some(Peer { wires, caller, server });
        }
    }

    /// Reports the peer's epoch according to the chip page, see [`peer_epoch`]. Poll afterwards,
    /// because calls may have ended.
    pub fn peer_changed(&mut self, id: DomainId, epoch: Option<Epoch>) {
        if let Some(peer) = self.peer_mut(id) {
            peer.caller.peer_changed(&peer.wires, epoch);
            peer.server.peer_changed(&peer.wires, epoch);
        }
    }

    /// See [`Caller::begin`].
    pub fn begin(
        &mut self,
        to: DomainId,
        class: Class,
        level: Level,
        proc: u16,
        payload: &[u8],
        token: u64,
    ) -> Result<CallId, CallError> {
        let peer = self.peer_mut(to).ok_or(CallError::PeerLost)?;
        peer.caller.begin(&peer.wires, class, level, proc, payload, token)
    }

    /// See [`Caller::notice`].
    pub fn notice(
        &mut self,
        to: DomainId,
        class: Class,
        proc: u16,
        payload: &[u8],
    ) -> Result<(), CallError> {
        let peer = self.peer_mut(to).ok_or(CallError::PeerLost)?;
        peer.caller.notice(&peer.wires, class, proc, Payload::of(payload))
    }

    /// See [`Caller::finish`].
    pub fn finish(
        &mut self,
        to: DomainId,
        call: CallId,
        buffer: &mut [u8],
    ) -> Option<Result<usize, CallError>> {
        let Some(peer) = self.peer_mut(to) else { return Some(Err(CallError::PeerLost)) };
        peer.caller.finish(&peer.wires, call, buffer)
    }

    /// See [`Server::reply`].
    pub fn reply(&mut self, to: ReplyTo, result: Result<&[u8], Refusal>) -> Result<(), ReplyError> {
        let peer = self.peer_mut(to.peer).ok_or(ReplyError::Stale)?;
        peer.server.reply(&peer.wires, to, result)
    }

    /// Takes all messages of all peers, urgent requests before blockable ones, and reports the
    /// calls that have ended, and room for streams that have stalled. With `blockable` false,
    /// blockable requests stay in their rings, for contexts that must not start threads.
    pub fn poll(
        &mut self,
        blockable: bool,
        buffer: &mut [u8; MAX_PAYLOAD],
        out: &mut dyn FnMut(Event<'_>),
    ) {
        for (i, peer) in self.peers.iter_mut().enumerate() {
            let Some(peer) = peer else { continue };
            let id = DomainId(i as u8);
            for class in CLASSES {
                if blockable || class != Class::Blockable {
                    peer.receive_all(id, class, buffer, out);
                }
            }
            if peer.server.must_notify(&peer.wires) {
                out(Event::Notify(id));
            }
            if peer.caller.take_room(&peer.wires) {
                out(Event::Room(id));
            }
            peer.caller.poll(&peer.wires, &mut |call, token| out(Event::Ended(id, call, token)));
        }
    }

    /// Returns whether `poll` would find something; for the check before sleep.
    pub fn is_waiting(&self) -> bool {
        self.peers.iter().flatten().any(|peer| {
            let request = |class| peer.server.is_waiting(&peer.wires, class);
            CLASSES.into_iter().any(request) || peer.caller.is_waiting(&peer.wires)
        })
    }

    pub fn peer(&self, id: DomainId) -> Option<&Peer<W>> {
        self.peers.get(id.index())?.as_ref()
    }

    pub fn peer_mut(&mut self, id: DomainId) -> Option<&mut Peer<W>> {
        self.peers.get_mut(id.index())?.as_mut()
    }
}

impl<W: Words> Peer<W> {
    /// Takes at most one ring's worth of messages, so that a peer that never stops sending cannot
    /// occupy this core forever.
    fn receive_all(
        &mut self,
        id: DomainId,
        class: Class,
        buffer: &mut [u8; MAX_PAYLOAD],
        out: &mut dyn FnMut(Event<'_>),
    ) {
        for _ in 0..abi::msg::LAYOUT.blockable_slots {
            let Some(epoch) = self.server.peer() else { return };
            match self.server.receive(&self.wires, class, buffer) {
                Ok(Some(request)) => out(Event::Request(request, &buffer[..request.bytes])),
                Ok(None) => return,
                Err(fault) => {
                    self.caller.lose(epoch);
                    return out(Event::Fault(id, fault));
                }
            }
        }
    }
}

/// Returns the epoch of a peer that can still answer, from its state word in the chip page. OFF and
/// INACTIVE domains keep their memory and their sessions; calls to them wait until they are woken.
pub fn peer_epoch(state_word: u64) -> Option<Epoch> {
    let (epoch, state) = abi::soc::unpack_state(state_word);
    let epoch = Epoch(epoch as u16);
    (!abi::soc::state::is_over(state) && epoch.0 != 0).then_some(epoch)
}
