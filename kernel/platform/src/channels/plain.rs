//! The fast path of a call: a message goes to an end of this kernel, and a thread that waits there
//! gets the core of its sender. It has fields alone, or a block as well if it goes to the seat of
//! such a thread.
//!
//! Contract: straight checks, each of which leaves to [`super::messages`] before anything has
//! happened. The contract is asked and the thread takes its seat under the same lock, as there. A
//! short message for a thread that waits here does not pass the queue: it is put at the thread's
//! seat ([`super::seats`]), and is received from then on, whatever becomes of the thread.

use super::contracts::{Find, permits_block, permits_fields};
use super::{Channels, Follow, State};
use crate::peers::Peers;
use arch::lock::Guard;
use kernel_channel::{CARRIED, Effects, EndId, Taken};
use kernel_contract::exchange::{Brief, Called, Known, Outgoing};
use kernel_contract::{Block, ENDPOINTS, Hash};
use kernel_node::Node;
use kernel_sched::{Handoff, ThreadId};

impl State {
    /// Gives a message of fields alone to a thread that waits for it here. The sender's end is
    /// watched from then on. `None`: nothing has happened.
    #[inline]
    fn deliver_plain<'a>(
        &mut self,
        id: EndId,
        message @ (tag, fields): (u16, &[u8]),
        contracts: impl Fn(&Hash) -> Option<&'a Known>,
        handoff: &mut Handoff<'_>,
    ) -> Option<()> {
        let State { table, rest } = self;
        let takes = |end| rest.seats.takes(end, fields.len(), None);
        let (mut pair, length) = (table.paired(id, takes)?, fields.len() as u32);
        let next = pair.next((tag, length), |contract, state, side| {
            permits_fields(contracts, (contract, state, side), message)
        })?;
        let thread = rest.seats.deliver(pair.receiver(), message)?;
        pair.call(next, length);
        rest.sent = rest.sent.wrapping_add(1);
        handoff.wake(thread);
        Some(())
    }

    /// The same for a message with a block, if the thread has room for that.
    #[inline(never)]
    fn deliver_block(
        &mut self,
        id: EndId,
        call: &mut Brief<'_>,
        contracts: Find<'_>,
        handoff: &mut Handoff<'_>,
    ) -> Option<()> {
        let State { table, rest } = self;
        let message @ (tag, fields) = (call.tag, call.fields);
        let block = &mut *call.block.as_mut()?.block;
        if block.as_ref().is_some_and(|block| block.is_placed() || block.window().is_some()) {
            return None;
        }
        let length = block.as_ref().map(Block::len);
        let takes = |end| rest.seats.takes(end, fields.len(), length);
        let mut pair = table.paired(id, takes)?;
        let receiver = pair.receiver();
        if !rest.seats.takes(receiver, fields.len(), length) {
            return None;
        }
        let size = (tag, fields.len() as u32);
        let next = match length {
            None => pair.next(size, |contract, state, side| {
                permits_fields(contracts, (contract, state, side), message)
            }),
            Some(length) => pair.next_with_block(size, length, |contract, state, side| {
                permits_block(contracts, (contract, state, side), message, length)
            }),
        }?;
        let thread = rest.seats.deliver(receiver, message)?;
        rest.seats.add_block(receiver, block);
        pair.call(next, (fields.len() + length.unwrap_or(0)) as u32);
        rest.sent = rest.sent.wrapping_add(1);
        handoff.wake(thread);
        Some(())
    }

    /// Sends a message of fields alone to an end that is here. `None`: nothing has happened.
    #[inline]
    fn send_plain<'a>(
        &mut self,
        id: EndId,
        message @ (tag, fields): (u16, &[u8]),
        contracts: impl Fn(&Hash) -> Option<&'a Known>,
        handoff: &mut Handoff<'_>,
    ) -> Option<()> {
        let State { table, rest } = self;
        let (mut sender, length) = (table.quiet(id)?, fields.len() as u32);
        let next = sender.next((tag, length), |contract, state, side| {
            permits_fields(contracts, (contract, state, side), message)
        })?;
        let payload = rest.cells.put(fields, None)?;
        let woken = sender.send((tag, next), length, payload);
        rest.sent = rest.sent.wrapping_add(1);
        if let Some(end) = woken {
            Follow { rest, wake: |thread: ThreadId| handoff.wake(thread) }.wake(end);
        }
        Some(())
    }

    /// Receives a message of fields alone for a thread that has sent one. `None`: the thread waits
    /// for it.
    #[inline(always)]
    pub(super) fn sit_down(
        &mut self,
        thread: u64,
        id: EndId,
        call: &mut Brief<'_>,
        handoff: &mut Handoff<'_>,
    ) -> Option<Called> {
        if self.table.begin_poll(id) == Ok(false) {
            return self.take_seat(thread, id, call);
        }
        Some(self.receive_plain(id, call.into, handoff).unwrap_or(Called::Sent))
    }

    /// Has a thread wait at an end that is watched. `None`: it does.
    #[inline]
    fn take_seat(&mut self, thread: u64, id: EndId, call: &Brief<'_>) -> Option<Called> {
        let block_room = call.block.as_ref().map(|blocks| blocks.room);
        let waits = self.rest.seats.add_taker(id, thread, (call.into.len(), block_room));
        if waits { None } else { Some(Called::Sent) }
    }

    /// Receives a message of fields alone. `None`: nothing has happened.
    fn receive_plain(
        &mut self,
        id: EndId,
        into: &mut [u8],
        handoff: &mut Handoff<'_>,
    ) -> Option<Called> {
        let State { table, rest } = self;
        let Taken { tag, payload, wakes } = table.receive_quiet(id, |payload| {
            payload.block.is_none() && rest.cells.get(payload, into).is_some()
        })?;
        let length = payload.length() as u16;
        rest.cells.free(payload);
        if wakes {
            Follow { rest, wake: |thread: ThreadId| handoff.wake(thread) }.wake(id);
        }
        Some(Called::Arrived { tag, length })
    }
}

impl Channels {
    /// Sends a message, and receives one, for the thread with this token. `None`: it was sent, and
    /// the thread waits from now on, as in [`Channels::call`].
    pub fn call_plain<'a>(
        &self,
        around: (&Node, &Peers),
        (thread, end, tree): (u64, u64, u32),
        call: &mut Brief<'_>,
        contracts: impl Fn(&Hash) -> Option<&'a Known>,
        handoff: &mut Handoff<'_>,
    ) -> Option<Called> {
        let Ok(id) = self.id(end) else { return Some(Called::Refused) };
        let mut state = self.state.lock();
        let message = (call.tag, call.fields);
        let delivered = match &call.block {
            None => state.deliver_plain(id, message, &contracts, handoff),
            Some(_) => state.deliver_block(id, call, &|name| contracts(name), handoff),
        };
        if delivered.is_some() {
            return state.take_seat(thread, id, call);
        }
        if call.block.as_ref().is_some_and(|blocks| blocks.block.is_some()) {
            let by = (id, thread, tree);
            return self.send_and_wait(around, state, by, call, &|name| contracts(name), handoff);
        }
        if state.send_plain(id, message, &contracts, handoff).is_none() {
            return self.call_far(around, state, (id, thread, end), call, &contracts, handoff);
        }
        state.sit_down(thread, id, call, handoff)
    }

    /// The same for a message with a block that no thread waits for: it goes the usual way, but the
    /// caller waits in the short one.
    #[inline(never)]
    fn send_and_wait(
        &self,
        (node, peers): (&Node, &Peers),
        mut state: Guard<'_, State>,
        (id, thread, tree): (EndId, u64, u32),
        call: &mut Brief<'_>,
        contracts: Find<'_>,
        handoff: &mut Handoff<'_>,
    ) -> Option<Called> {
        let mut none = None;
        let block = call.block.as_mut().map_or(&mut none, |blocks| &mut *blocks.block);
        let message =
            Outgoing { tag: call.tag, bytes: call.fields, block, ends: [None; ENDPOINTS] };
        if state.send((id, tree), message, [None; CARRIED], contracts, handoff).is_err() {
            return Some(Called::Refused);
        }
        let called = state.sit_down(thread, id, call, handoff);
        self.leave_by(node, peers, state, handoff);
        called
    }

    /// Receives the message for which a thread has waited. If there is none, the thread does not
    /// wait any more.
    pub fn take_plain(
        &self,
        (thread, end): (u64, u64),
        call: &mut Brief<'_>,
        handoff: &mut Handoff<'_>,
    ) -> Called {
        let Ok(id) = self.id(end) else { return Called::Sent };
        let mut state = self.state.lock();
        if let Some((tag, length)) = state.rest.seats.take(id, thread, call.into) {
            if let Some(blocks) = &mut call.block {
                *blocks.block = state.rest.seats.take_block(id);
            }
            return Called::Arrived { tag, length };
        }
        if let Some(arrived) = state.receive_plain(id, call.into, handoff) {
            return arrived;
        }
        state.stand_up(id, thread);
        Called::Sent
    }
}
