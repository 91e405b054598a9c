//! Peers: calls to the other kernels, and calls from them.
//!
//! The protocol is `kernel_msg` (docs/design/messages.md); this module connects it to locks,
//! threads, doorbells and the chip page. Each peer has two leaf locks: one for outgoing calls
//! ([`calls`]), one for incoming calls. Urgent requests are executed by the core that polls: in a
//! doorbell interrupt, after it has released a lock, or while it waits. Blockable requests are
//! executed by handler threads ([`handlers`]). Messages of streams are executed like urgent
//! requests, those of a peer one at a time ([`streams`]).
//!
//! A poll takes at most one ring's worth of messages from each peer, so a peer that sends without
//! pause does not occupy a core. The rest is found by the next poll, which comes before the core
//! sleeps.

mod calls;
mod handlers;
mod looks;
mod procedure;
mod streams;

use abi::boot::Blob;
use abi::msg::{LAYOUT, LINK_SIZE, MAX_PAYLOAD};
use abi::soc::{DomainPage, state};
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::lock::{Guard, Lock, Once};
use arch::shared::Window;
use base::addr::PhysAddr;
use base::id::{DomainId, Epoch};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use kernel_msg::endpoint::peer_epoch;
use kernel_msg::rpc::CLASSES;
use kernel_msg::{Busy, CallError, Caller, Class, LinkPair, Payload, Refusal, Request, Server};
use kernel_node::Node;
use kernel_sched::{Handoff, ThreadId, WaitQueue};

pub use calls::{CallFailure, Terms};
use handlers::{Blocked, Handlers};
pub use procedure::{Procedure, Procedures, with_room};
pub use streams::{Execute, Heard, Sent, Take};

/// One other kernel.
pub struct Peer {
    pub id: DomainId,
    slot: u32,
    cores: usize,
    page: Window,
    wires: LinkPair<Window>,
    caller: Lock<Caller>,
    server: Lock<Server>,
    /// Held while a message of its stream is taken and executed.
    turn: Lock<()>,
    /// For each class, the producer word with which no message was waiting when a core last looked
    /// under the server's lock. A look that finds the same word needs no lock.
    empty: [AtomicU64; CLASSES.len()],
    /// Threads that wait for a reply slot or for room in a ring.
    room: WaitQueue,
    sent: AtomicU64,
    served: AtomicU64,
    /// How often the peer has violated the protocol.
    faults: AtomicU64,
    /// Notices from it that were refused.
    dropped: AtomicU64,
}

/// All other kernels.
pub struct Peers {
    /// By domain; `None` for this one.
    peers: Vec<Option<Box<Peer>>>,
    handlers: Handlers,
    /// For each core, a buffer for urgent requests and messages of streams.
    urgent: Vec<Lock<Scratch>>,
    vector: u32,
    /// Threads that wait for a change of a peer's state.
    pub changed: WaitQueue,
    open: AtomicBool,
    /// Executes the peers' requests; set by [`Peers::start`].
    procedures: Once<&'static dyn Procedures>,
}

/// Whether a poll of urgent requests waits for a peer's lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Waits for each peer's lock, and so sees all messages that have arrived.
    All,
    /// Skips peers whose lock is taken. For a core that waits: it polls again soon, and it may hold
    /// other locks.
    Free,
}

impl Look {
    fn take<T>(self, lock: &Lock<T>) -> Option<Guard<'_, T>> {
        match self {
            Look::All => Some(lock.lock()),
            Look::Free => lock.try_lock(),
        }
    }
}

struct Scratch {
    request: [u8; MAX_PAYLOAD],
    reply: [u8; MAX_PAYLOAD],
}

impl Peers {
    /// Creates the links to all other domains of the board. Nothing is served until
    /// [`Peers::open`].
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
            urgent: (0..cores).map(|_| Lock::new(kernel_node::ranks::SCRATCH, scratch())).collect(),
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

    /// Returns whether the board has other domains.
    pub fn exist(&self) -> bool {
        self.iter().next().is_some()
    }

    /// Returns whether there are peers and this kernel polls for their messages. It starts to poll
    /// before it runs the first program.
    #[inline]
    pub fn are_served(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Spawns the first handler threads, which execute `procedures`.
    pub fn start(&self, procedures: &'static dyn Procedures) {
        let _ = self.procedures.set(procedures);
        self.handlers.start(procedures);
    }

    /// Declares that the calling handler thread is about to do something that may block. It counts
    /// as blocked until the returned guard is dropped, even while it runs. Must not be nested.
    pub fn will_block(&self, node: &Node) -> Blocked<'_> {
        self.handlers.will_block(self, node)
    }

    /// The body of a handler thread that [`Procedures::spawn_handler`] has created with `argument`.
    pub fn work(&self, node: &Node, procedures: &'static dyn Procedures, argument: usize) {
        self.handlers.work(node, self, procedures, argument);
    }

    fn procedures(&self) -> Option<&'static dyn Procedures> {
        self.procedures.get().copied()
    }

    /// Starts serving peers. Without peers, polls stay disabled.
    pub fn open(&self, node: &Node) {
        self.open.store(self.exist(), Ordering::Release);
        self.look_at_chip(node);
        self.poll(node);
    }

    /// Adapts to the states of the peers. Called when the chip page has changed.
    pub fn look_at_chip(&self, node: &Node) {
        for peer in self.iter() {
            peer.look(node);
        }
        self.changed.wake_all(&node.scheduler);
    }

    /// Serves urgent requests without waiting for a peer's lock. For a core that waits in `attend`,
    /// with interrupts masked.
    pub fn serve_urgent(&self) {
        if self.open.load(Ordering::Acquire) {
            self.look_at_urgent(Look::Free);
        }
    }

    fn look_at_urgent(&self, look: Look) {
        // Fails only if this core is already executing this function, further up its stack.
        let Some(mut scratch) = self.urgent[arch::cpu::core().index()].try_lock() else { return };
        for peer in self.iter() {
            for _ in 0..LAYOUT.urgent_slots {
                if !self.serve_one_urgent(peer, look, &mut scratch) {
                    break;
                }
            }
        }
    }

    /// Executes what has arrived in streams. A core that waits does not: nothing that it waits for
    /// depends on them.
    fn look_at_streams(&self) {
        let Some(mut scratch) = self.urgent[arch::cpu::core().index()].try_lock() else { return };
        for peer in self.iter() {
            self.serve_stream(peer, &mut scratch.request, &mut |from, epoch, payload| {
                self.execute(from, epoch, payload);
            });
        }
    }

    /// Executes a message of a stream in the usual way. For a caller of [`Peers::hear_streams`].
    pub fn execute(&self, from: DomainId, epoch: Epoch, payload: &[u8]) {
        if let Some(procedures) = self.procedures() {
            procedures.stream(from, epoch, payload);
        }
    }

    fn serve_one_urgent(&self, peer: &Peer, look: Look, scratch: &mut Scratch) -> bool {
        if !peer.may_have_sent(Class::Urgent) {
            return false;
        }
        let Some(server) = look.take(&peer.server) else { return false };
        if !peer.has_sent(&server, Class::Urgent) {
            return false;
        }
        let received = peer.received(server, Class::Urgent, &mut scratch.request);
        let (Some(request), Some(procedures)) = (received, self.procedures()) else { return false };
        let payload = &scratch.request[..request.bytes];
        let result = procedures.urgent(&request, payload, &mut scratch.reply);
        peer.reply(self.vector, &request, result.map(|bytes| &scratch.reply[..bytes]));
        true
    }

    /// Polls for replies, for requests of all classes, and for room in streams that have stalled.
    #[inline]
    pub fn poll(&self, node: &Node) {
        if self.are_served() {
            self.look_at_all(node);
        }
    }

    #[inline(never)]
    fn look_at_all(&self, node: &Node) {
        self.look_at_calls(node);
        if self.iter().any(|peer| peer.is_requested(Class::Stream)) {
            self.look_at_streams();
        }
    }

    /// Does what [`Peers::poll`] does while peers are served, but leaves messages in the streams.
    pub(crate) fn look_at_calls(&self, node: &Node) {
        let mut is_urgent = false;
        for peer in self.iter() {
            is_urgent |= peer.is_requested(Class::Urgent);
            let is_requested = peer.is_requested(Class::Blockable);
            if peer.wake_answered(node)
                && let Some(procedures) = self.procedures()
            {
                procedures.stream_room(peer.id);
            }
            if is_requested {
                self.handlers.arrived(node, self, peer);
            }
        }
        if is_urgent {
            self.look_at_urgent(Look::All);
        }
    }

    /// Returns whether a message has arrived, or there is room for a stream that has stalled. For a
    /// core that is about to sleep or to leave kernel code; the locks are waited for
    /// ([`kernel_msg::notify::Attendance::leave`]).
    pub fn is_waiting(&self) -> bool {
        self.are_served() && self.iter().any(Peer::is_waiting)
    }

    /// Returns whether a call to a peer is in progress, or a stream to one has stalled. A kernel
    /// that rests would miss that there is room.
    pub fn are_called(&self) -> bool {
        self.iter().any(|peer| {
            let caller = peer.caller.lock();
            caller.is_calling() || caller.is_stalled()
        })
    }

    /// Answers a request that [`Peer::receive`] returned.
    pub fn reply(&self, request: &Request, result: Result<&[u8], Refusal>) {
        if let Some(peer) = self.peer(request.from) {
            peer.reply(self.vector, request, result);
        }
    }

    /// Returns the domains of the other kernels.
    pub fn ids(&self) -> impl Iterator<Item = DomainId> {
        self.iter().map(|peer| peer.id)
    }

    /// Sends a notice, which arrives at most once. Returns false if the ring has no room. From any
    /// context without leaf locks.
    pub fn notify(&self, id: DomainId, procedure: Procedure, payload: &[u8]) -> bool {
        let Some(peer) = self.peer(id) else { return true };
        let sent = {
            let mut caller = peer.caller.lock();
            caller.notice(&peer.wires, procedure.class(), procedure as u16, Payload::of(payload))
        };
        if sent.is_ok() {
            peer.ring(self.vector);
        }
        sent != Err(CallError::Busy(Busy::RingFull))
    }

    /// Wakes peer `id` if it rests. For a caller that has sent it a notice.
    pub fn wake_resting(&self, node: &Node, id: DomainId) {
        if node.soc.state(id).1 == state::RESTING {
            self.wake_sleeper(node, id);
        }
    }

    /// Wakes peer `id` if it is stopped with its threads: a doorbell does not. For a thread, which
    /// has sent it a notice.
    pub fn wake_sleeper(&self, node: &Node, id: DomainId) {
        if let Some(peer) = self.peer(id).filter(|_| self.is_stopped(node, id)) {
            peer.wake_if_asleep(node);
        }
    }

    /// Does the same for a thread with a [`Handoff`], in which it breathes if the peer is stopped.
    pub fn wake_stopped(&self, node: &Node, id: DomainId, handoff: &mut Handoff<'_>) {
        if let Some(peer) = self.peer(id).filter(|_| self.is_stopped(node, id)) {
            // That may wait.
            handoff.end();
            peer.wake_if_asleep(node);
            handoff.breathe();
        }
    }

    /// Returns whether peer `id` is stopped with its threads.
    #[inline]
    pub fn is_stopped(&self, node: &Node, id: DomainId) -> bool {
        state::is_stopped(node.soc.state(id).1)
    }

    /// Returns counters of a peer: calls sent to it, calls served for it, its violations of the
    /// protocol, notices from it that were dropped.
    pub fn counts(&self, id: DomainId) -> Option<[u64; 4]> {
        let peer = self.peer(id)?;
        let counters = [&peer.sent, &peer.served, &peer.faults, &peer.dropped];
        Some(counters.map(|count| count.load(Ordering::Relaxed)))
    }

    /// Waits until peer `id` has state `wanted`, for at most `patience_ns`. Returns whether it has.
    pub fn wait_for_state(&self, node: &Node, id: DomainId, wanted: u64, patience_ns: u64) -> bool {
        let deadline = arch::time::soc_time() + patience_ns;
        node.scheduler.wait_until(&self.changed, Some(deadline), || node.soc.state(id).1 == wanted)
    }
}

impl Peer {
    #[inline(never)] // keeps its large values off the caller's stack frame
    fn new(blob: &Blob, me: DomainId, epoch: Epoch, id: DomainId) -> Option<Self> {
        let window = &blob.window;
        let link = |from: DomainId, to: DomainId| {
            let at = window.links + blob.link_index(from.0, to.0) * LINK_SIZE;
            Window::uncached(blob, PhysAddr(at), LINK_SIZE)
        };
        let page = window.domains + u64::from(id.0) * size_of::<DomainPage>() as u64;
        Some(Peer {
            id,
            slot: blob.domains()[id.index()].slot,
            cores: blob.domains()[id.index()].cores as usize,
            page: Window::uncached(blob, PhysAddr(page), size_of::<DomainPage>() as u64)?,
            wires: LinkPair { mine: link(me, id)?, theirs: link(id, me)? },
            caller: Lock::new(kernel_node::ranks::OUTGOING, Caller::new(&LAYOUT, epoch)),
            server: Lock::new(kernel_node::ranks::INCOMING, Server::new(&LAYOUT, id, epoch)),
            turn: Lock::new(kernel_node::ranks::STREAM, ()),
            empty: [const { AtomicU64::new(0) }; CLASSES.len()],
            room: WaitQueue::new(),
            sent: AtomicU64::new(0),
            served: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Rings the peer's doorbell, unless one of its cores polls.
    fn ring(&self, vector: u32) {
        if kernel_msg::notify::must_ring(&self.page, self.cores) {
            arch::doorbell::ring(self.slot, vector);
        }
    }

    /// Returns the next blockable request, if there is one, with its payload in `buffer`.
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
        self.note_empty(&server, class);
        drop(server);
        received.unwrap_or_else(|_| {
            self.distrust(epoch);
            None
        })
    }

    /// Handles a peer that violated the protocol in `epoch`: ends all calls to it, and refuses new
    /// ones until its next epoch. The server, which has detected the violation, has already done so
    /// for calls from the peer.
    /// This may run while the core waits for any lock, so it does not log; the monitor's `peers`
    /// shows the count.
    fn distrust(&self, epoch: Epoch) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        self.caller.lock().lose(epoch);
    }

    /// Answers a call. A notice has no answer; if it was refused, it is counted.
    fn reply(&self, vector: u32, request: &Request, result: Result<&[u8], Refusal>) {
        let Some(to) = request.reply else {
            self.dropped.fetch_add(result.is_err().into(), Ordering::Relaxed);
            return;
        };
        self.served.fetch_add(1, Ordering::Relaxed);
        // Fails if the reply is stale: the caller died.
        if self.server.lock().reply(&self.wires, to, result).is_ok() {
            self.ring(vector);
        }
    }

    /// Returns whether a request or an answer has arrived, or room for a stream.
    fn is_waiting(&self) -> bool {
        CLASSES.into_iter().any(|class| self.is_requested(class))
            || self.caller.lock().is_waiting(&self.wires)
    }

    /// Wakes the threads whose calls have ended, and those that wait for room. Returns whether a
    /// stream that had stalled may continue.
    fn wake_answered(&self, node: &Node) -> bool {
        {
            // As in most looks.
            let caller = self.caller.lock();
            if !caller.is_calling() && !caller.is_stalled() {
                return false;
            }
        }
        self.wake_callers(node)
    }

    #[inline(never)] // Its memory is only needed if there are calls.
    fn wake_callers(&self, node: &Node) -> bool {
        let mut ended = [0; abi::msg::MAX_REPLIES];
        let mut count = 0;
        let has_room = {
            let mut caller = self.caller.lock();
            caller.poll(&self.wires, &mut |_, token| {
                ended[count] = token;
                count += 1;
            });
            caller.take_room(&self.wires)
        };
        for &token in ended[..count].iter().filter(|&&token| token != 0) {
            node.scheduler.wake(ThreadId::from_token(token));
        }
        if count > 0 {
            self.room.wake_all(&node.scheduler);
        }
        has_room
    }

    /// Reads the peer's state from the chip page and applies it to both sides of the link. Callers
    /// that wait with interrupts masked miss the doorbell of the chip page, so they call this. The
    /// word is read under the lock under which it is applied; otherwise a core that is delayed in
    /// between could restore an old epoch.
    fn look(&self, node: &Node) {
        let epoch = || peer_epoch(node.soc.state_word(self.id));
        {
            let mut caller = self.caller.lock();
            caller.peer_changed(&self.wires, epoch());
        }
        let mut server = self.server.lock();
        server.peer_changed(&self.wires, epoch());
        drop(server);
        // A new session is room for a peer that waits for it.
        self.notify_stalled(node.blob.vector_msg);
    }
}
