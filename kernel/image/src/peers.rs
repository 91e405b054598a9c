//! The other kernels: calls to them and from them.
//!
//! The protocol is `kernel_msg`; here it meets locks, threads, doorbells and the chip page. Each
//! peer has two leaf locks, one for our calls ([`calls`]) and one for theirs. Urgent requests are
//! served by whoever looks: the doorbell, a released lock, any core that waits. Blockable ones are
//! taken by handler threads.
//!
//! A look takes at most one ring's worth of each peer, so that none that never stops sending keeps
//! a core; what is left is found by the next look, which comes before the core sleeps.

mod ask;
mod calls;
mod handlers;

use crate::node::Node;
use abi::boot::Blob;
use abi::msg::{LAYOUT, LINK_SIZE, MAX_PAYLOAD};
use abi::soc::DomainPage;
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::lock::{Guard, Lock, Once};
use arch::shared::Window;
use base::addr::PhysAddr;
use base::id::{DomainId, Epoch};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use kernel_msg::endpoint::peer_epoch;
use kernel_msg::{Caller, Class, LinkPair, Refusal, Request, Server};
use kernel_sched::{ThreadId, WaitQueue};

pub use ask::{Ask, Procedures, with_room};
pub use calls::{CallFailure, Terms};
use handlers::{Blocked, Handlers};

/// One other kernel.
pub struct Peer {
    /// Who.
    pub id: DomainId,
    slot: u32,
    cores: usize,
    page: Window,
    wires: LinkPair<Window>,
    caller: Lock<Caller>,
    server: Lock<Server>,
    /// Threads that wait for a reply slot or room in a ring.
    room: WaitQueue,
    sent: AtomicU64,
    served: AtomicU64,
    /// Times it broke the protocol.
    faults: AtomicU64,
    /// Its notices that nobody here took.
    dropped: AtomicU64,
}

/// All others.
pub struct Peers {
    /// By domain; none for this one.
    peers: Vec<Option<Box<Peer>>>,
    /// The handler threads.
    handlers: Handlers,
    /// Buffers for urgent requests, one a core.
    urgent: Vec<Lock<Scratch>>,
    vector: u32,
    /// Something ends or arrives; for those who wait for a peer's state.
    pub changed: WaitQueue,
    open: AtomicBool,
    /// What this kernel does for them, from the beginning on.
    procedures: Once<&'static dyn Procedures>,
}

/// How much a look at the urgent requests wants to see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Everything that has come by now.
    All,
    /// What nobody is looking at: it comes again soon, and may hold any lock meanwhile.
    Free,
}

struct Scratch {
    request: [u8; MAX_PAYLOAD],
    reply: [u8; MAX_PAYLOAD],
}

impl Peers {
    /// Links to all other domains of `blob`; none is open yet.
    pub fn new(blob: &Blob, me: DomainId, epoch: Epoch) -> Option<Self> {
        let mut peers = Vec::new();
        for id in (0..blob.domains().len()).map(|index| DomainId(index as u8)) {
            let peer = if id == me { None } else { Some(Peer::new(blob, me, epoch, id)?) };
            peers.push(peer.map(Box::new));
        }
        let cores = blob.domains().get(me.index())?.cores as usize;
        let scratch = || Scratch { request: [0; MAX_PAYLOAD], reply: [0; MAX_PAYLOAD] };
        Some(Peers {
            peers,
            handlers: Handlers::new(cores),
            urgent: (0..cores).map(|_| Lock::new(crate::ranks::SCRATCH, scratch())).collect(),
            vector: blob.vector_msg,
            changed: WaitQueue::new(),
            open: AtomicBool::new(false),
            procedures: Once::new(),
        })
    }

    fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().flatten().map(Box::as_ref)
    }

    fn peer(&self, id: DomainId) -> Option<&Peer> {
        self.peers.get(id.index())?.as_deref()
    }

    /// Are there any?
    pub fn exist(&self) -> bool {
        self.iter().next().is_some()
    }

    /// Are there any, and are they served? Before that no program runs.
    #[inline]
    pub fn are_served(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Makes the first handlers; `procedures` are what they do.
    pub fn start(&self, procedures: &'static dyn Procedures) {
        let _ = self.procedures.set(procedures);
        self.handlers.start(procedures);
    }

    /// This thread, a handler, is about to block or to do what may; it counts as blocked until the
    /// answer is dropped, also while it runs. Once: what it does meanwhile does not say so again.
    pub fn will_block(&self, node: &Node) -> Blocked<'_> {
        self.handlers.will_block(self, node)
    }

    /// A handler thread that [`Procedures::spawn_handler`] made, from its beginning to its end.
    pub fn work(&self, node: &Node, procedures: &'static dyn Procedures, argument: usize) {
        self.handlers.work(node, self, procedures, argument);
    }

    fn procedures(&self) -> Option<&'static dyn Procedures> {
        self.procedures.get().copied()
    }

    /// Serves from now on. Who has no peers has nothing to look at, ever.
    pub fn open(&self, node: &Node) {
        self.open.store(self.exist(), Ordering::Release);
        self.look_at_chip(node);
        self.poll(node);
    }

    /// The chip page may have changed: peers die, start, sleep.
    pub fn look_at_chip(&self, node: &Node) {
        for peer in self.iter() {
            peer.look(node);
        }
        self.changed.wake_all(&node.scheduler);
    }

    /// Between two looks of a waiting core: serves urgent requests, but waits for no lock.
    /// Interrupts masked.
    pub fn serve_urgent(&self) {
        if self.open.load(Ordering::Acquire) {
            self.look_at_urgent(Look::Free);
        }
    }

    fn look_at_urgent(&self, look: Look) {
        // Taken only when this core is serving already, further up its stack.
        let Some(mut scratch) = self.urgent[arch::cpu::core().index()].try_lock() else { return };
        for peer in self.iter() {
            for _ in 0..LAYOUT.urgent_slots {
                if !self.serve_one_urgent(peer, look, &mut scratch) {
                    break;
                }
            }
        }
    }

    fn serve_one_urgent(&self, peer: &Peer, look: Look, scratch: &mut Scratch) -> bool {
        let server = match look {
            Look::All => peer.server.lock(),
            Look::Free => match peer.server.try_lock() {
                Some(server) => server,
                None => return false,
            },
        };
        if !server.is_waiting(&peer.wires, Class::Urgent) {
            return false;
        }
        let received = peer.received(server, Class::Urgent, &mut scratch.request);
        let (Some(request), Some(procedures)) = (received, self.procedures()) else { return false };
        let payload = &scratch.request[..request.bytes];
        let result = procedures.urgent(&request, payload, &mut scratch.reply);
        peer.reply(self.vector, &request, result.map(|bytes| &scratch.reply[..bytes]));
        true
    }

    /// Looks at everything that may have come: replies, urgent requests, blockable ones.
    #[inline]
    pub fn poll(&self, node: &Node) {
        if self.are_served() {
            self.look_at_all(node);
        }
    }

    #[inline(never)]
    fn look_at_all(&self, node: &Node) {
        self.look_at_urgent(Look::All);
        for peer in self.iter() {
            peer.wake_answered(node);
            if peer.blockable_waits() {
                self.handlers.arrived(node, self, peer);
            }
        }
    }

    /// Is there anything to look at? For a core that wants to sleep; "yes" when in doubt.
    pub fn is_waiting(&self) -> bool {
        self.are_served()
            && self.iter().any(|peer| {
                let urgent = peer
                    .server
                    .try_lock()
                    .is_none_or(|server| server.is_waiting(&peer.wires, Class::Urgent));
                let answered =
                    peer.caller.try_lock().is_none_or(|caller| caller.is_waiting(&peer.wires));
                urgent || answered || peer.blockable_waits()
            })
    }

    /// Answers a request that [`Peer::receive`] gave.
    pub fn reply(&self, request: &Request, result: Result<&[u8], Refusal>) {
        if let Some(peer) = self.peer(request.from) {
            peer.reply(self.vector, request, result);
        }
    }

    /// The other kernels.
    pub fn ids(&self) -> impl Iterator<Item = DomainId> {
        self.iter().map(|peer| peer.id)
    }

    /// Sends a notice: it arrives at most once, and not at all where there is no room. Any context
    /// without leaf locks.
    pub fn tell(&self, id: DomainId, ask: Ask, payload: &[u8]) {
        let Some(peer) = self.peer(id) else { return };
        let told = {
            let mut caller = peer.caller.lock();
            caller.notice(&peer.wires, ask.class(), ask as u16, payload)
        };
        if told.is_ok() {
            peer.ring(self.vector);
        }
    }

    /// Calls sent to a peer, served for it, times it broke the protocol, notices of it dropped.
    pub fn counts(&self, id: DomainId) -> Option<[u64; 4]> {
        let peer = self.peer(id)?;
        let counters = [&peer.sent, &peer.served, &peer.faults, &peer.dropped];
        Some(counters.map(|count| count.load(Ordering::Relaxed)))
    }

    /// Waits until the chip page shows a state, for so long at most.
    pub fn wait_for_state(&self, node: &Node, id: DomainId, wanted: u64, patience_ns: u64) -> bool {
        let deadline = arch::time::soc_time() + patience_ns;
        node.scheduler.wait_until(&self.changed, Some(deadline), || node.soc.state(id).1 == wanted)
    }
}

impl Peer {
    #[inline(never)] // keeps its large values off the caller's stack frame
    fn new(blob: &Blob, me: DomainId, epoch: Epoch, id: DomainId) -> Option<Self> {
        let window = &blob.window;
        let count = blob.domains().len() as u64;
        let link = |from: DomainId, to: DomainId| {
            let index = u64::from(from.0) * count + u64::from(to.0);
            Window::uncached(blob, PhysAddr(window.links + index * LINK_SIZE), LINK_SIZE)
        };
        let page = window.domains + u64::from(id.0) * size_of::<DomainPage>() as u64;
        Some(Peer {
            id,
            slot: blob.domains()[id.index()].slot,
            cores: blob.domains()[id.index()].cores as usize,
            page: Window::uncached(blob, PhysAddr(page), size_of::<DomainPage>() as u64)?,
            wires: LinkPair { mine: link(me, id)?, theirs: link(id, me)? },
            caller: Lock::new(crate::ranks::OUTGOING, Caller::new(&LAYOUT, epoch)),
            server: Lock::new(crate::ranks::INCOMING, Server::new(&LAYOUT, id, epoch)),
            room: WaitQueue::new(),
            sent: AtomicU64::new(0),
            served: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Rings the peer, unless one of its cores polls anyway.
    fn ring(&self, vector: u32) {
        if kernel_msg::notify::must_ring(&self.page, self.cores) {
            arch::doorbell::ring(self.slot, vector);
        }
    }

    /// The next blockable request, if there is one.
    pub fn receive(&self, buffer: &mut [u8; MAX_PAYLOAD]) -> Option<Request> {
        self.received(self.server.lock(), Class::Blockable, buffer)
    }

    fn received(
        &self,
        mut server: Guard<'_, Server>,
        class: Class,
        buffer: &mut [u8; MAX_PAYLOAD],
    ) -> Option<Request> {
        let epoch = server.peer()?;
        let received = server.receive(&self.wires, class, buffer);
        drop(server);
        received.unwrap_or_else(|_| {
            self.distrust(epoch);
            None
        })
    }

    /// The peer wrote in `epoch` what the protocol does not allow: nothing of it is believed until
    /// it restarts. The serving side has found that and is shut already. May run while this core
    /// waits for any lock, so it says nothing; `peers` shows the count.
    fn distrust(&self, epoch: Epoch) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        self.caller.lock().lose(epoch);
    }

    /// Answers a call. A notice that was refused is counted: its sender hears nothing.
    fn reply(&self, vector: u32, request: &Request, result: Result<&[u8], Refusal>) {
        let Some(to) = request.reply else {
            self.dropped.fetch_add(result.is_err().into(), Ordering::Relaxed);
            return;
        };
        self.served.fetch_add(1, Ordering::Relaxed);
        // A stale reply has no one to go to: its caller died.
        if self.server.lock().reply(&self.wires, to, result).is_ok() {
            self.ring(vector);
        }
    }

    /// "Yes" when somebody else is looking.
    fn blockable_waits(&self) -> bool {
        let server = self.server.try_lock();
        server.is_none_or(|server| server.is_waiting(&self.wires, Class::Blockable))
    }

    /// Wakes the threads whose calls have ended, and those that wait for room.
    fn wake_answered(&self, node: &Node) {
        let mut ended = [0; abi::msg::MAX_REPLIES];
        let mut count = 0;
        self.caller.lock().poll(&self.wires, &mut |_, token| {
            ended[count] = token;
            count += 1;
        });
        for &token in ended[..count].iter().filter(|&&token| token != 0) {
            node.scheduler.wake(ThreadId::from_token(token));
        }
        if count > 0 {
            self.room.wake_all(&node.scheduler);
        }
    }

    /// For a waiter that may run with interrupts masked, so that nobody looks at the chip page.
    /// The word is read under the lock that it is applied under: a core that was held up in between
    /// would bring an old epoch back.
    fn look(&self, node: &Node) {
        let epoch = || peer_epoch(node.soc.state_word(self.id));
        {
            let mut caller = self.caller.lock();
            caller.peer_changed(&self.wires, epoch());
        }
        let mut server = self.server.lock();
        server.peer_changed(&self.wires, epoch());
    }
}
