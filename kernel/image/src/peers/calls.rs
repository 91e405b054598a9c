//! Our calls to the other kernels: how they are made, waited for, and given up.

use super::{Ask, Peer, Peers};
use crate::node::Node;
use abi::soc::{command, state};
use arch::time::soc_time;
use base::id::DomainId;
use core::sync::atomic::Ordering;
use kernel_msg::endpoint::peer_epoch;
use kernel_msg::retry::{RetryAction, RetryTimer};
use kernel_msg::{Busy, CallError, CallId, Class, Level, Refusal};
use kernel_sched::WaitQueue;

/// A pending call rings its peer again after this long: an edge can be lost while the peer's
/// controller is being set up.
const RING_AGAIN_NS: u64 = 20_000_000;

/// A thread that found the ring full looks again after this long: the peer frees room without
/// telling, so that its common path has one barrier less. Nobody polls like this for what a thread
/// of its own kernel does: at a higher priority it would keep that thread from doing it.
const TRY_AGAIN_NS: u64 = 300_000;

/// On what terms a call is made.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// 0 from a thread of this kernel's own; `request.level.deeper()` on behalf of a request, whose
    /// handler has told the pool that it blocks.
    pub level: Level,
    /// A peer that shows no sign of life for this long (ns) is given up as [`CallFailure::Silent`].
    /// Without it the call lasts as long as the peer is not known to be dead.
    pub patience: Option<u64>,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The peer died before it answered, or is not there.
    PeerLost,
    /// The peer is not dead, but showed no sign of life.
    Silent,
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
            CallFailure::Silent => "Silent: that kernel runs, but does not answer; given up",
            CallFailure::Refused(Refusal::NoMemory) => "that kernel has no memory for it",
            CallFailure::Refused(Refusal::NoSuchProc) => "that kernel does not know this call",
            CallFailure::Refused(_) => "that kernel refused",
            CallFailure::Limits => "larger or deeper nested than a call can be",
            CallFailure::Busy => "too many calls under way",
        }
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

impl Peers {
    /// Calls, and waits for the answer. From a thread without leaf locks.
    pub fn call(
        &self,
        node: &Node,
        terms: Terms,
        id: DomainId,
        ask: Ask,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, CallFailure> {
        let peer = self.peer(id).ok_or(CallFailure::PeerLost)?;
        let call = Call { node, peer, vector: self.vector, terms, ask, payload };
        peer.wake_if_asleep(node);
        match ask.class() {
            Class::Urgent => call.urgent(buffer),
            Class::Blockable => call.blockable(buffer),
        }
    }
}

/// A search for what `look` finds. It is not repeated once it has found something; until then it
/// says in how many ns another look is worth its while.
struct Search<T, L> {
    look: L,
    found: Result<T, u64>,
}

impl<T, L: FnMut() -> Result<T, u64>> Search<T, L> {
    fn new(look: L) -> Self {
        Search { look, found: Err(0) }
    }

    fn done(&mut self) -> bool {
        if self.found.is_err() {
            self.found = (self.look)();
        }
        self.found.is_ok()
    }

    fn again(&self) -> u64 {
        self.found.as_ref().err().copied().unwrap_or(0)
    }
}

/// One call under way.
struct Call<'a> {
    node: &'a Node,
    peer: &'a Peer,
    vector: u32,
    terms: Terms,
    ask: Ask,
    payload: &'a [u8],
}

impl Call<'_> {
    /// `Err`: not now. Whoever frees a slot wakes those who wait for one; room in the ring has to
    /// be looked for.
    fn begin(&self, token: u64) -> Result<Result<CallId, CallFailure>, u64> {
        let (class, level) = (self.ask.class(), self.terms.level);
        let mut caller = self.peer.caller.lock();
        let proc = self.ask as u16;
        match caller.begin(&self.peer.wires, class, level, proc, self.payload, token) {
            Err(CallError::Busy(Busy::NoSlot)) if !self.is_gone() => Err(RING_AGAIN_NS),
            Err(CallError::Busy(_)) if !self.is_gone() => Err(TRY_AGAIN_NS),
            result => Ok(result.map_err(explain)),
        }
    }

    /// `Err`: not yet.
    fn finish(&self, id: CallId, buffer: &mut [u8]) -> Result<Result<usize, CallFailure>, u64> {
        let ended = self.peer.caller.lock().finish(&self.peer.wires, id, buffer);
        ended.map(|result| result.map_err(explain)).ok_or(RING_AGAIN_NS)
    }

    /// Can the peer not answer: dead, or never started?
    fn is_gone(&self) -> bool {
        peer_epoch(self.node.soc.state_word(self.peer.id)).is_none()
    }

    fn sent(&self) {
        self.peer.sent.fetch_add(1, Ordering::Relaxed);
        self.peer.ring(self.vector);
    }

    fn abandon(&self, id: CallId) -> CallFailure {
        self.peer.caller.lock().abandon(id);
        CallFailure::Silent
    }

    /// A look found nothing: is it to be the last one? One that goes to sleep has answered before,
    /// so who sleeps is looked at once more before it is woken for an answer that is there.
    fn gives_up(&self, retry: &mut RetryTimer, mut done: impl FnMut() -> bool) -> bool {
        let action = retry.action(soc_time());
        if action == RetryAction::Ring && !(self.peer.is_asleep(self.node) && done()) {
            self.peer.nudge(self.node, self.vector);
        }
        action == RetryAction::GiveUp
    }

    /// Waits in `attend` until `look` finds something, or out of patience.
    fn attend<T>(&self, look: impl FnMut() -> Result<T, u64>) -> Option<T> {
        let mut search = Search::new(look);
        let mut retry = RetryTimer::new(soc_time(), RING_AGAIN_NS, self.terms.patience);
        arch::attend::until(|| search.done() || self.gives_up(&mut retry, || search.done()));
        search.found.ok()
    }

    /// Waits in `attend`: from any context without leaf locks. Nobody else runs on this core
    /// meanwhile, who might wait for the reply slot that this call holds, and take the core for it.
    fn urgent(&self, buffer: &mut [u8]) -> Result<usize, CallFailure> {
        self.node.scheduler.unpreempted(|| {
            let id = self.attend(|| self.begin(0)).unwrap_or(Err(CallFailure::Silent))?;
            self.sent();
            let ended = self.attend(|| self.finish(id, buffer));
            ended.unwrap_or_else(|| Err(self.abandon(id)))
        })
    }

    /// Sleeps; from a thread only.
    fn blockable(&self, buffer: &mut [u8]) -> Result<usize, CallFailure> {
        let scheduler = &self.node.scheduler;
        let token = scheduler.current().token();
        let begun = self.sleep(&self.peer.room, || self.begin(token));
        let id = begun.unwrap_or(Err(CallFailure::Silent))?;
        self.sent();
        let ended = self.sleep(&WaitQueue::new(), || self.finish(id, buffer));
        self.peer.room.wake_all(scheduler);
        ended.unwrap_or_else(|| Err(self.abandon(id)))
    }

    /// Sleeps in `queue` until `look` finds something. A handler may take as long as it likes: when
    /// patience ends, a kernel that answers an urgent call lives.
    fn sleep<T>(&self, queue: &WaitQueue, look: impl FnMut() -> Result<T, u64>) -> Option<T> {
        let mut search = Search::new(look);
        let half = self.terms.patience.map(|patience| patience / 2);
        let mut retry = RetryTimer::new(soc_time(), RING_AGAIN_NS, half);
        while !search.done() {
            let until = Some(soc_time() + search.again());
            if self.node.scheduler.wait_until(queue, until, || search.done()) {
                break;
            }
            if self.gives_up(&mut retry, || search.done()) {
                let terms = Terms { patience: half, ..self.terms };
                let echo = Call { terms, ask: Ask::Echo, payload: &[], ..*self };
                if echo.urgent(&mut []) == Err(CallFailure::Silent) {
                    break;
                }
                retry.restart();
            }
        }
        search.found.ok()
    }
}

impl Peer {
    /// A call wakes a peer that sleeps, however it came to sleep; what cannot be woken is
    /// `PeerLost` or stays as it is until somebody tries again.
    fn wake_if_asleep(&self, node: &Node) {
        if self.is_asleep(node) && node.soc.request(command::WAKE, u64::from(self.id.0), 0).is_ok()
        {
            self.look(node);
        }
    }

    fn is_asleep(&self, node: &Node) -> bool {
        matches!(node.soc.state(self.id).1, state::OFF | state::COLD | state::INACTIVE)
    }

    /// Rings again, in case the last ring was lost or the peer went to sleep over it.
    fn nudge(&self, node: &Node, vector: u32) {
        self.wake_if_asleep(node);
        arch::doorbell::ring(self.slot, vector);
        self.look(node);
    }
}
