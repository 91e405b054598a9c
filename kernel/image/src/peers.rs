//! The other kernels: calls to them and from them.
//!
//! The protocol is `kernel_msg`; here it meets locks, threads, doorbells and the chip page. Each
//! peer has two leaf locks, one for our calls and one for theirs. Urgent requests are served by
//! whoever looks: the doorbell, a released lock, any core that waits. Blockable ones are taken by
//! handler threads.

use crate::handlers::Handlers;
use crate::kernel::Kernel;
use crate::procs;
use abi::boot::Blob;
use abi::msg::{LAYOUT, LINK_SIZE, MAX_PAYLOAD};
use abi::soc::{DomainPage, command, state};
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::lock::{Guard, Lock};
use arch::shared::Window;
use base::addr::PhysAddr;
use base::id::{DomainId, Epoch};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use kernel_msg::endpoint::peer_epoch;
use kernel_msg::{Busy, CallError, CallId, Caller, Class, Level, Refusal, Request, Server, Wires};
use kernel_sched::{ThreadId, WaitQueue};

pub use crate::procs::Ask;

/// A pending call rings its peer again after this long: an edge can be lost while the peer's
/// controller is being set up.
const RING_AGAIN_NS: u64 = 20_000_000;

/// A thread that found the ring full looks again after this long: the peer frees room without
/// telling, so that its common path has one barrier less.
const TRY_AGAIN_NS: u64 = 300_000;

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The peer died before it answered, or is not there.
    PeerLost,
    /// The peer refused.
    Refused(Refusal),
    /// Request, answer or nesting beyond the limits.
    Limits,
    /// Not sent: no reply slot or no room, and the caller may not wait.
    Busy,
}

impl CallFailure {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            CallFailure::PeerLost => "PeerLost: that kernel is not running, or died meanwhile",
            CallFailure::Refused(Refusal::NoMemory) => "that kernel has no memory for it",
            CallFailure::Refused(Refusal::NoSuchProc) => "that kernel does not know this call",
            CallFailure::Refused(_) => "that kernel refused",
            CallFailure::Limits => "larger or deeper nested than a call can be",
            CallFailure::Busy => "too many calls under way",
        }
    }
}

/// One other kernel.
pub struct Peer {
    /// Who.
    pub id: DomainId,
    slot: u32,
    cores: usize,
    page: Window,
    wires: Wires<Window>,
    caller: Lock<Caller>,
    server: Lock<Server>,
    /// Threads that wait for a reply slot or room in a ring.
    room: WaitQueue,
    sent: AtomicU64,
    served: AtomicU64,
    /// Times it broke the protocol.
    faults: AtomicU64,
}

/// All others.
pub struct Peers {
    /// By domain; none for this one.
    peers: Vec<Option<Box<Peer>>>,
    /// The handler threads.
    pub handlers: Handlers,
    /// Buffers for urgent requests, one a core.
    urgent: Vec<Lock<Scratch>>,
    vector: u32,
    /// Something ends or arrives; for those who wait for a peer's state.
    pub changed: WaitQueue,
    open: AtomicBool,
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
        })
    }

    fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().flatten().map(Box::as_ref)
    }

    fn peer(&self, id: DomainId) -> Result<&Peer, CallFailure> {
        self.peers.get(id.index()).and_then(Option::as_deref).ok_or(CallFailure::PeerLost)
    }

    /// Serves from now on.
    pub fn open(&self, kernel: &Kernel) {
        self.open.store(true, Ordering::Release);
        self.look_at_chip(kernel);
        self.poll(kernel);
    }

    /// The chip page may have changed: peers die, start, sleep.
    pub fn look_at_chip(&self, kernel: &Kernel) {
        for peer in self.iter() {
            peer.look(kernel);
        }
        self.changed.wake_all(&kernel.scheduler);
    }

    /// Serves urgent requests of all peers, unless somebody else does. Interrupts masked; no wait.
    pub fn serve_urgent(&self, kernel: &Kernel) {
        if !self.open.load(Ordering::Acquire) {
            return;
        }
        let Some(mut scratch) = self.urgent[arch::cpu::core().index()].try_lock() else { return };
        for peer in self.iter() {
            while peer.serve_one_urgent(kernel, self.vector, &mut scratch) {}
        }
    }

    /// Looks at everything that may have come: replies, urgent requests, blockable ones.
    pub fn poll(&self, kernel: &Kernel) {
        self.serve_urgent(kernel);
        if !self.open.load(Ordering::Acquire) {
            return;
        }
        for peer in self.iter() {
            peer.wake_answered(kernel);
            if peer.blockable_waits() {
                self.handlers.arrived(kernel);
            }
        }
    }

    /// Is there anything to look at? For a core that wants to sleep; "yes" when in doubt.
    pub fn is_waiting(&self) -> bool {
        self.open.load(Ordering::Acquire)
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

    /// The next blockable request of any peer.
    pub fn receive(&self, buffer: &mut [u8; MAX_PAYLOAD]) -> Option<Request> {
        self.iter().find_map(|peer| peer.receive(Class::Blockable, buffer))
    }

    /// Answers a request that [`Peers::receive`] gave.
    pub fn reply(&self, kernel: &Kernel, request: &Request, result: Result<&[u8], Refusal>) {
        if let Ok(peer) = self.peer(request.from) {
            peer.reply(kernel, self.vector, request, result);
        }
    }

    /// Calls from a thread, or from the handler of a request of that thread; waits for the answer.
    pub fn call(
        &self,
        id: DomainId,
        ask: Ask,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, CallFailure> {
        self.call_at(Level(0), id, ask, payload, buffer)
    }

    /// [`Peers::call`] from the handler of a request of the level above.
    pub fn call_at(
        &self,
        level: Level,
        id: DomainId,
        ask: Ask,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, CallFailure> {
        let kernel = crate::kernel::get().ok_or(CallFailure::PeerLost)?;
        let peer = self.peer(id)?;
        match ask.class() {
            Class::Urgent => peer.call_urgent(kernel, self.vector, ask, payload, buffer),
            Class::Blockable => {
                let _blocked = self.handlers.will_block(kernel, level);
                peer.call_blockable(kernel, self.vector, level, ask, payload, buffer)
            }
        }
    }

    /// A call of one number for another.
    pub fn call_value(&self, id: DomainId, ask: Ask, value: u64) -> Result<u64, CallFailure> {
        let mut answer = [0; 8];
        let bytes = self.call(id, ask, &value.to_le_bytes(), &mut answer)?;
        if bytes == 8 { Ok(u64::from_le_bytes(answer)) } else { Err(CallFailure::Limits) }
    }

    /// Calls sent to a peer, served for it, and times it broke the protocol.
    pub fn counts(&self, id: DomainId) -> Option<[u64; 3]> {
        let peer = self.peers.get(id.index())?.as_ref()?;
        Some([&peer.sent, &peer.served, &peer.faults].map(|count| count.load(Ordering::Relaxed)))
    }

    /// Waits until the chip page shows a state, two seconds at most.
    pub fn wait_for_state(&self, id: DomainId, wanted: u64) -> bool {
        let Some(kernel) = crate::kernel::get() else { return false };
        let deadline = arch::time::soc_time() + 2_000_000_000;
        kernel
            .scheduler
            .wait_until(&self.changed, Some(deadline), || kernel.soc.state(id).1 == wanted)
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
            wires: Wires { mine: link(me, id)?, theirs: link(id, me)? },
            caller: Lock::new(crate::ranks::OUTGOING, Caller::new(&LAYOUT, epoch)),
            server: Lock::new(crate::ranks::INCOMING, Server::new(&LAYOUT, id, epoch)),
            room: WaitQueue::new(),
            sent: AtomicU64::new(0),
            served: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        })
    }

    /// Rings the peer, unless one of its cores polls anyway.
    fn ring(&self, vector: u32) {
        if kernel_msg::notify::must_ring(&self.page, self.cores) {
            arch::doorbell::ring(self.slot, vector);
        }
    }

    fn receive(&self, class: Class, buffer: &mut [u8; MAX_PAYLOAD]) -> Option<Request> {
        self.received(self.server.lock(), class, buffer)
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

    fn serve_one_urgent(&self, kernel: &Kernel, vector: u32, scratch: &mut Scratch) -> bool {
        let Some(server) = self.server.try_lock() else { return false };
        if !server.is_waiting(&self.wires, Class::Urgent) {
            return false;
        }
        let received = self.received(server, Class::Urgent, &mut scratch.request);
        let Some(request) = received else { return false };
        let payload = &scratch.request[..request.bytes];
        let result = procs::urgent(kernel, &request, payload, &mut scratch.reply);
        self.reply(kernel, vector, &request, result.map(|bytes| &scratch.reply[..bytes]));
        true
    }

    fn reply(&self, _: &Kernel, vector: u32, request: &Request, result: Result<&[u8], Refusal>) {
        let Some(to) = request.reply else { return };
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
    fn wake_answered(&self, kernel: &Kernel) {
        let mut ended = [0; abi::msg::MAX_REPLIES];
        let mut count = 0;
        self.caller.lock().poll(&self.wires, &mut |_, token| {
            ended[count] = token;
            count += 1;
        });
        for &token in ended[..count].iter().filter(|&&token| token != 0) {
            kernel.scheduler.wake(ThreadId::from_token(token));
        }
        if count > 0 {
            self.room.wake_all(&kernel.scheduler);
        }
    }

    fn begin(
        &self,
        class: Class,
        level: Level,
        ask: Ask,
        payload: &[u8],
        token: u64,
    ) -> Result<CallId, CallError> {
        self.caller.lock().begin(&self.wires, class, level, ask as u16, payload, token)
    }

    fn finish(&self, call: CallId, buffer: &mut [u8]) -> Option<Result<usize, CallError>> {
        self.caller.lock().finish(&self.wires, call, buffer)
    }

    /// Waits in `attend`: from any context without leaf locks.
    fn call_urgent(
        &self,
        kernel: &Kernel,
        vector: u32,
        ask: Ask,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, CallFailure> {
        self.wake_if_asleep(kernel);
        let mut begun = Err(CallError::Busy(Busy::NoSlot));
        arch::attend::until(|| {
            begun = self.begin(Class::Urgent, Level(0), ask, payload, 0);
            !matches!(begun, Err(CallError::Busy(_))) || self.is_gone(kernel)
        });
        let call = begun.map_err(explain)?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.ring(vector);
        let mut ring_at = arch::time::local_ns() + RING_AGAIN_NS;
        let mut result = None;
        arch::attend::until(|| {
            result = self.finish(call, buffer);
            if result.is_none() && arch::time::local_ns() > ring_at {
                ring_at += RING_AGAIN_NS;
                self.nudge(kernel, vector);
            }
            result.is_some()
        });
        result.unwrap_or(Err(CallError::PeerLost)).map_err(explain)
    }

    /// A call wakes a peer that sleeps, however it came to sleep; what cannot be woken is
    /// `PeerLost` or stays as it is until somebody tries again.
    fn wake_if_asleep(&self, kernel: &Kernel) {
        if matches!(kernel.soc.state(self.id).1, state::OFF | state::INACTIVE)
            && kernel.soc.request(command::WAKE, u64::from(self.id.0), 0).is_ok()
        {
            self.look(kernel);
        }
    }

    /// Rings again, in case the last ring was lost or the peer went to sleep over it.
    fn nudge(&self, kernel: &Kernel, vector: u32) {
        self.wake_if_asleep(kernel);
        arch::doorbell::ring(self.slot, vector);
        self.look(kernel);
    }

    /// Can the peer not answer: dead, or never started?
    fn is_gone(&self, kernel: &Kernel) -> bool {
        peer_epoch(kernel.soc.state_word(self.id)).is_none()
    }

    /// For a waiter that may run with interrupts masked, so that nobody looks at the chip page.
    /// The word is read under the lock that it is applied under: a core that was held up in between
    /// would bring an old epoch back.
    fn look(&self, kernel: &Kernel) {
        let epoch = || peer_epoch(kernel.soc.state_word(self.id));
        {
            let mut caller = self.caller.lock();
            caller.peer_changed(&self.wires, epoch());
        }
        let mut server = self.server.lock();
        server.peer_changed(&self.wires, epoch());
    }

    /// Sleeps; from a thread only.
    fn call_blockable(
        &self,
        kernel: &Kernel,
        vector: u32,
        level: Level,
        ask: Ask,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, CallFailure> {
        self.wake_if_asleep(kernel);
        let token = kernel.scheduler.current().token();
        let again = || Some(arch::time::soc_time() + RING_AGAIN_NS);
        let mut begun;
        loop {
            begun = Err(CallError::PeerLost);
            let soon = Some(arch::time::soc_time() + TRY_AGAIN_NS);
            let sent = kernel.scheduler.wait_until(&self.room, soon, || {
                begun = self.begin(Class::Blockable, level, ask, payload, token);
                !matches!(begun, Err(CallError::Busy(_))) || self.is_gone(kernel)
            });
            if sent {
                break;
            }
            self.nudge(kernel, vector);
        }
        let call = begun.map_err(explain)?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.ring(vector);
        let waiting = WaitQueue::new();
        let mut result = None;
        while !kernel.scheduler.wait_until(&waiting, again(), || {
            result = self.finish(call, buffer);
            result.is_some()
        }) {
            self.nudge(kernel, vector);
        }
        self.room.wake_all(&kernel.scheduler);
        result.unwrap_or(Err(CallError::PeerLost)).map_err(explain)
    }
}

fn explain(error: CallError) -> CallFailure {
    match error {
        CallError::PeerLost | CallError::Busy(Busy::NoSession) => CallFailure::PeerLost,
        CallError::TooLarge | CallError::TooDeep => CallFailure::Limits,
        CallError::Refused(refusal) => CallFailure::Refused(refusal),
        CallError::Busy(_) => CallFailure::Busy,
    }
}
