//! Messages of fields alone to and from other kernels, without the queues; and threads that wait
//! for them without sleep.
//!
//! Contract: as in [`super::plain`]. Between two settled ends ([`kernel_channel::Settled`]) such a
//! message goes straight into the stream, and from there to the thread that waits for it. A thread
//! that [watches](crate::watch) takes the answer to its call from the ring itself, if it is the
//! next message there; any other core gives it to the thread at its seat.

use super::contracts::permits_fields;
use super::stream::{is_ours, of_words, split_plain, words_of};
use super::{Channels, State};
use crate::peers::{Peers, Sent, Take};
use crate::watch::{Pause, watch};
use arch::lock::Guard;
use base::id::DomainId;
use kernel_channel::wire::Plain;
use kernel_channel::{EndId, Life};
use kernel_contract::Hash;
use kernel_contract::exchange::{Brief, Called, Known};
use kernel_msg::Payload;
use kernel_node::Node;
use kernel_sched::{Handoff, ThreadId};

/// Longer fields take so long to copy that interrupts are handled before the answer.
const BRIEF: usize = 256;

impl State {
    /// Sends a message of fields alone to an end on another kernel. Returns that kernel. `None`:
    /// nothing has happened.
    pub(super) fn send_far<'a>(
        &mut self,
        peers: &Peers,
        id: EndId,
        message @ (tag, fields): (u16, &[u8]),
        contracts: impl Fn(&Hash) -> Option<&'a Known>,
    ) -> Option<DomainId> {
        let State { table, rest } = self;
        let (mut sender, length) = (table.settled(id)?, fields.len() as u32);
        let next = sender.next((tag, length), |contract, state, side| {
            permits_fields(contracts, (contract, state, side), message)
        })?;
        let to = sender.to;
        let words = words_of(&sender.message(tag, next), false)?;
        peers.stream(to, Payload { words: &words, bytes: fields }).ok()?;
        sender.send(next, length);
        rest.sent = rest.sent.wrapping_add(1);
        Some(to)
    }

    /// Gives a message of another kernel to the thread that waits for it. Returns the thread, which
    /// the caller wakes. `None`: nothing has happened.
    pub(super) fn deliver_far(&mut self, from: Life, payload: &[u8]) -> Option<ThreadId> {
        let State { table, rest } = self;
        let (plain, has_block, fields) = split_plain(payload)?;
        let arrival = table.arrival(from, plain.to, plain.sequence)?;
        if has_block || fields.len() > arrival.bytes as usize {
            return None;
        }
        let thread = rest.seats.deliver(arrival.id, (plain.tag, fields))?;
        arrival.deliver(plain.state);
        Some(thread)
    }

    /// Receives a message of another kernel with so many bytes of fields, for the thread that waits
    /// for it, which takes those itself. `None`: nothing has happened.
    #[inline]
    fn take_far(
        &mut self,
        from: Life,
        (id, thread): (EndId, u64),
        (plain, bytes): (Plain, usize),
    ) -> Option<()> {
        let State { table, rest } = self;
        let arrival = table.arrival_at(id, from, plain.to, plain.sequence)?;
        let fits = bytes <= arrival.bytes as usize;
        if !fits || !rest.seats.vacate(id, thread, bytes) {
            return None;
        }
        arrival.deliver(plain.state);
        Some(())
    }
}

impl Channels {
    /// Does what [`Channels::call_plain`] does if the peer is on another kernel, and watches for
    /// the answer.
    #[inline(never)]
    pub(super) fn call_far<'a>(
        &self,
        (node, peers): (&Node, &Peers),
        mut state: Guard<'_, State>,
        (id, thread, end): (EndId, u64, u64),
        call: &mut Brief<'_>,
        contracts: impl Fn(&Hash) -> Option<&'a Known>,
        handoff: &mut Handoff<'_>,
    ) -> Option<Called> {
        let Some(to) = state.send_far(peers, id, (call.tag, call.fields), contracts) else {
            return Some(Called::Refused);
        };
        let called = state.sit_down(thread, id, call, handoff);
        drop(state);
        if called.is_some() {
            peers.wake_stopped(node, to, handoff);
            return called;
        }
        debug_assert!(peers.are_served() && !handoff.has_thread(), "it was sent to a peer");
        // A kernel that answers at once does not rest, and is not looked at.
        let mut may_rest = true;
        let mut pause = |handoff: &mut Handoff<'_>| {
            if core::mem::take(&mut may_rest) {
                peers.wake_stopped(node, to, handoff);
            }
        };
        if call.fields.len() > BRIEF {
            pause(handoff);
            handoff.breathe();
        }
        let (mut taken, into) = (None, &mut *call.into);
        let mut take = |sent: Sent| {
            if sent.by == to {
                taken = self.take_front((peers, sent), (id, thread), into);
            }
            taken.is_some()
        };
        let by = (id, thread);
        if !self.watch_for((node, peers), by, handoff, (&mut take, &mut pause)) {
            pause(handoff);
            return None;
        }
        taken.or_else(|| Some(self.take_plain((thread, end), call, handoff)))
    }

    /// Takes a message that another kernel has sent, if it is one of fields alone for which the
    /// calling thread waits.
    #[inline]
    fn take_front(
        &self,
        (peers, sent): (&Peers, Sent),
        by: (EndId, u64),
        into: &mut [u8],
    ) -> Option<Called> {
        peers.take_front(sent, |epoch, words, bytes| {
            let into = into.get_mut(..bytes)?;
            let (plain, _) = of_words(words).filter(|(_, has_block)| !has_block)?;
            let from = Life { kernel: sent.by, epoch };
            self.state.try_lock()?.take_far(from, by, (plain, bytes))?;
            Some((into, Called::Arrived { tag: plain.tag, length: bytes as u16 }))
        })
    }

    /// Watches for a short time instead of sleeping, for the calling thread, which waits for an end
    /// whose peer may be on another kernel. Returns whether the thread need not wait any more.
    /// Interrupts are masked then, as after [`Handoff::begin`].
    pub fn watch(
        &self,
        (node, peers): (&Node, &Peers),
        end: u64,
        handoff: &mut Handoff<'_>,
    ) -> bool {
        let Ok(id) = self.id(end) else { return false };
        let may_watch = peers.are_served() && !handoff.has_thread();
        if !may_watch || !self.state.lock().table.is_far(id) {
            return false;
        }
        let thread = node.scheduler.current().token();
        self.watch_for((node, peers), (id, thread), handoff, (&mut |_| false, &mut |_| ()))
    }

    /// Does so for a thread with a seat at an end whose peer is on another kernel. It may `take`
    /// the message itself; `pause` is called each time before other threads may run.
    fn watch_for(
        &self,
        (node, peers): (&Node, &Peers),
        (id, thread): (EndId, u64),
        handoff: &mut Handoff<'_>,
        (take, pause): (Take<'_>, Pause<'_>),
    ) -> bool {
        // This thread looks for itself.
        let wake = |woken: ThreadId| {
            if woken.token() != thread {
                node.scheduler.wake(woken)
            }
        };
        let mut hear = |kernel, epoch, payload: &[u8]| {
            if is_ours(payload) {
                return self.hear((node, peers), Life { kernel, epoch }, payload, &wake);
            }
            peers.execute(kernel, epoch, payload);
        };
        let is_over = || !self.state.lock().rest.seats.waits(id, thread);
        watch((node, peers), handoff, (&mut hear, take, pause), is_over)
    }
}
