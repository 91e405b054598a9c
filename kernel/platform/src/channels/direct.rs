//! Messages of fields alone to and from other kernels, without the queues; and threads that wait
//! for them without sleep.
//!
//! Contract: as in [`super::plain`]. Between two settled ends ([`kernel_channel::Settled`]) such a
//! message goes straight into the stream, and from there to the thread that waits for it, which
//! [watches](crate::watch).

use super::contracts::permits_fields;
use super::stream::{is_ours, put_plain, split_plain};
use super::{Channels, State};
use crate::peers::Peers;
use crate::watch::watch;
use arch::lock::Guard;
use base::id::DomainId;
use kernel_channel::{EndId, Life};
use kernel_contract::Hash;
use kernel_contract::exchange::{Brief, Called, Known};
use kernel_node::Node;
use kernel_sched::{Handoff, ThreadId};

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
        let bytes = &mut rest.buffers.bytes;
        let head = put_plain(&sender.message(tag, next), false, &mut **bytes)?;
        let message = bytes.get_mut(..head + fields.len())?;
        message.get_mut(head..)?.copy_from_slice(fields);
        peers.stream(to, message).ok()?;
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
        if peers.is_stopped(node, to) {
            // That may wait.
            handoff.end();
            peers.wake_sleeper(node, to);
        }
        if called.is_some() || !self.watch((node, peers), end, handoff) {
            return called;
        }
        Some(self.take_plain((thread, end), call, handoff))
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
        let thread = node.scheduler.current();
        // This thread looks for itself.
        let wake = |woken: ThreadId| {
            if woken != thread {
                node.scheduler.wake(woken)
            }
        };
        let mut hear = |kernel, epoch, payload: &[u8]| {
            if is_ours(payload) {
                return self.hear((node, peers), Life { kernel, epoch }, payload, &wake);
            }
            peers.execute(kernel, epoch, payload);
        };
        let is_over = || !self.state.lock().rest.seats.waits(id, thread.token());
        watch((node, peers), handoff, &mut hear, is_over)
    }
}
