//! Outgoing calls to peers: sending, waiting, retrying, giving up.

use super::{Peer, Peers, Procedure};
use abi::soc::{command, state};
use arch::time::soc_time;
use base::id::DomainId;
use core::sync::atomic::Ordering;
use kernel_msg::endpoint::peer_epoch;
use kernel_msg::retry::{RetryAction, RetryTimer};
use kernel_msg::{Busy, CallError, CallId, Class, Level, Refusal};
use kernel_node::Node;
use kernel_sched::WaitQueue;

/// A pending call rings its peer again after this long, because a doorbell that arrives while the
/// peer sets up its interrupt controller is lost.
const RING_AGAIN_NS: u64 = 20_000_000;

/// A thread that found the ring full tries again after this long. The peer does not announce that
/// it has freed room, which saves a barrier on its common path. (A thread may poll only for what a
/// peer does: by polling for a thread of its own kernel, it could keep that thread from running.)
const TRY_AGAIN_NS: u64 = 300_000;

/// The parameters of a call.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// 0 for a thread that acts for this kernel. `request.level.deeper()` for a handler that acts
    /// for a peer's request; it must have called [`Peers::will_block`].
    pub level: Level,
    /// If the peer shows no sign of life for this long (ns), the call fails with
    /// [`CallFailure::Silent`]. With `None` it lasts until the peer answers or dies.
    pub patience: Option<u64>,
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The peer died before it answered, or does not exist.
    PeerLost,
    /// The peer is not dead, but showed no sign of life.
    Silent,
    /// The peer refused.
    Refused(Refusal),
    /// Request, reply or nesting is beyond the limits.
    Limits,
    /// The peer died while the caller waited for a reply slot or for room in the ring; the request
    /// was not sent.
    Busy,
}

impl CallFailure {
    pub fn text(self) -> &'static str {
        match self {
            CallFailure::PeerLost => "PeerLost: that kernel is not running, or died meanwhile",
            CallFailure::Silent => "Silent: that kernel runs, but does not answer; call dropped",
            CallFailure::Refused(Refusal::NoMemory) => "that kernel has no memory for it",
            CallFailure::Refused(Refusal::NoSuchProc) => "that kernel does not know this call",
            CallFailure::Refused(_) => "that kernel refused",
            CallFailure::Limits => "larger or deeper nested than a call can be",
            CallFailure::Busy => "not sent: that kernel stopped while other calls to it waited",
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
    /// Calls a procedure of peer `id`, and waits for the reply. Wakes the peer if it is asleep.
    /// Returns the reply's size; its bytes are in `buffer`. The caller must hold no leaf lock; for
    /// a blockable procedure it must be a thread.
    pub fn call(
        &self,
        node: &Node,
        terms: Terms,
        id: DomainId,
        procedure: Procedure,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, CallFailure> {
        let peer = self.peer(id).ok_or(CallFailure::PeerLost)?;
        let call = Call { node, peer, vector: self.vector, terms, procedure, payload };
        peer.wake_if_asleep(node);
        match procedure.class() {
            Class::Urgent => call.urgent(buffer),
            Class::Blockable => call.blockable(buffer),
            // No procedure is of this class, which has no replies.
            Class::Stream => Err(CallFailure::Limits),
        }
    }
}

/// Repeats `look` until it succeeds. Its error is the time in ns after which to look again. `look`
/// is not called again after it has succeeded.
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

/// A call in progress.
struct Call<'a> {
    node: &'a Node,
    peer: &'a Peer,
    vector: u32,
    terms: Terms,
    procedure: Procedure,
    payload: &'a [u8],
}

impl Call<'_> {
    /// Sends the request. `Err(ns)`: there is no reply slot or no room in the ring; try again after
    /// `ns`. Threads that wait for a slot are also woken when one is freed.
    fn begin(&self, token: u64) -> Result<Result<CallId, CallFailure>, u64> {
        let (class, level) = (self.procedure.class(), self.terms.level);
        let mut caller = self.peer.caller.lock();
        let proc = self.procedure as u16;
        match caller.begin(&self.peer.wires, class, level, proc, self.payload, token) {
            Err(CallError::Busy(Busy::NoSlot)) if !self.is_gone() => Err(RING_AGAIN_NS),
            Err(CallError::Busy(_)) if !self.is_gone() => Err(TRY_AGAIN_NS),
            result => Ok(result.map_err(explain)),
        }
    }

    /// Ends the call if it was answered or failed. `Err(ns)`: not yet, look again after `ns`.
    fn finish(&self, id: CallId, buffer: &mut [u8]) -> Result<Result<usize, CallFailure>, u64> {
        let ended = self.peer.caller.lock().finish(&self.peer.wires, id, buffer);
        ended.map(|result| result.map_err(explain)).ok_or(RING_AGAIN_NS)
    }

    /// Returns whether the peer cannot answer: it is dead, or never started.
    fn is_gone(&self) -> bool {
        peer_epoch(self.node.soc.state_word(self.peer.id)).is_none()
    }

    fn announce(&self) {
        self.peer.sent.fetch_add(1, Ordering::Relaxed);
        self.peer.ring(self.vector);
    }

    fn abandon(&self, id: CallId) -> CallFailure {
        self.peer.caller.lock().abandon(id);
        CallFailure::Silent
    }

    /// Called after a look that found nothing: rings the peer if it is time to, and returns whether
    /// to give up. A peer that is asleep may have answered before; so before waking it, this looks
    /// once more (`done`).
    fn gives_up(&self, retry: &mut RetryTimer, mut done: impl FnMut() -> bool) -> bool {
        let action = retry.action(soc_time());
        if action == RetryAction::Ring && !(self.peer.is_asleep(self.node) && done()) {
            self.peer.nudge(self.node, self.vector);
        }
        action == RetryAction::GiveUp
    }

    /// Waits in `attend` until `look` succeeds. Returns `None` when patience ends.
    fn attend<T>(&self, look: impl FnMut() -> Result<T, u64>) -> Option<T> {
        let mut search = Search::new(look);
        let mut retry = RetryTimer::new(soc_time(), RING_AGAIN_NS, self.terms.patience);
        arch::attend::until(|| search.done() || self.gives_up(&mut retry, || search.done()));
        search.found.ok()
    }

    /// Calls an urgent procedure and waits in `attend`. Not preempted: otherwise a thread of higher
    /// priority could take the core and wait for the reply slot that this call holds.
    fn urgent(&self, buffer: &mut [u8]) -> Result<usize, CallFailure> {
        self.node.scheduler.unpreempted(|| {
            let id = self.attend(|| self.begin(0)).unwrap_or(Err(CallFailure::Silent))?;
            self.announce();
            let ended = self.attend(|| self.finish(id, buffer));
            ended.unwrap_or_else(|| Err(self.abandon(id)))
        })
    }

    /// Calls a blockable procedure; the thread sleeps until the reply.
    fn blockable(&self, buffer: &mut [u8]) -> Result<usize, CallFailure> {
        let scheduler = &self.node.scheduler;
        let token = scheduler.current().token();
        let begun = self.sleep(&self.peer.room, || self.begin(token));
        let id = begun.unwrap_or(Err(CallFailure::Silent))?;
        self.announce();
        let ended = self.sleep(&WaitQueue::new(), || self.finish(id, buffer));
        self.peer.room.wake_all(scheduler);
        ended.unwrap_or_else(|| Err(self.abandon(id)))
    }

    /// Sleeps in `queue` until `look` succeeds. A handler may take as long as it needs: when
    /// patience ends, the peer gets an urgent call, and only if that fails, too, this returns
    /// `None`. Each of the two waits gets half of the patience.
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
                let echo = Call { terms, procedure: Procedure::Echo, payload: &[], ..*self };
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
    /// Wakes the peer if it is off, cold, INACTIVE or resting. If that fails, the call ends with
    /// `PeerLost`, or the wake is repeated with the next ring.
    pub fn wake_if_asleep(&self, node: &Node) {
        if self.is_asleep(node) && node.soc.request(command::WAKE, u64::from(self.id.0), 0).is_ok()
        {
            self.look(node);
        }
    }

    fn is_asleep(&self, node: &Node) -> bool {
        state::is_asleep(node.soc.state(self.id).1)
    }

    /// Rings again, in case the last ring was lost or the peer fell asleep.
    fn nudge(&self, node: &Node, vector: u32) {
        self.wake_if_asleep(node);
        arch::doorbell::ring(self.slot, vector);
        self.look(node);
    }
}
