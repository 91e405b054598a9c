//! The fast path of a call: a message of fields alone goes to an end of this kernel, and a thread
//! that waits there gets the core of its sender.
//!
//! Contract: straight checks, each of which leaves to [`super::messages`] before anything has
//! happened. The contract is asked and the thread takes its seat under the same lock, as there. A
//! short message for a thread that waits here does not pass the queue: it is put at the thread's
//! seat ([`super::seats`]), and is received from then on, whatever becomes of the thread.

use super::contracts::permits_fields;
use super::{Channels, Follow, State};
use crate::peers::Peers;
use kernel_channel::{Effects, EndId, Taken};
use kernel_contract::Hash;
use kernel_contract::exchange::{Called, Known};
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
        let takes = |end| rest.seats.takes(end, fields.len());
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
        into: &mut [u8],
        handoff: &mut Handoff<'_>,
    ) -> Option<Called> {
        if self.table.begin_poll(id) == Ok(false) {
            return self.take_seat(thread, id, into.len());
        }
        Some(self.receive_plain(id, into, handoff).unwrap_or(Called::Sent))
    }

    /// Has a thread wait at an end that is watched. `None`: it does.
    #[inline]
    fn take_seat(&mut self, thread: u64, id: EndId, room: usize) -> Option<Called> {
        let waits = self.rest.seats.add_taker(id, thread, room);
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
    /// Sends a message of fields alone, and receives one, for the thread with this token. `None`:
    /// it was sent, and the thread waits from now on, as in [`Channels::call`].
    pub fn call_plain<'a>(
        &self,
        around: (&Node, &Peers),
        (thread, end): (u64, u64),
        (message, into): ((u16, &[u8]), &mut [u8]),
        contracts: impl Fn(&Hash) -> Option<&'a Known>,
        handoff: &mut Handoff<'_>,
    ) -> Option<Called> {
        let Ok(id) = self.id(end) else { return Some(Called::Refused) };
        let mut state = self.state.lock();
        if state.deliver_plain(id, message, &contracts, handoff).is_some() {
            return state.take_seat(thread, id, into.len());
        }
        if state.send_plain(id, message, &contracts, handoff).is_none() {
            let call = (thread, end, message, into);
            return self.call_far(around, state, (id, call), &contracts, handoff);
        }
        state.sit_down(thread, id, into, handoff)
    }

    /// Receives the message for which a thread has waited. If there is none, the thread does not
    /// wait any more.
    pub fn take_plain(
        &self,
        (thread, end): (u64, u64),
        into: &mut [u8],
        handoff: &mut Handoff<'_>,
    ) -> Called {
        let Ok(id) = self.id(end) else { return Called::Sent };
        let mut state = self.state.lock();
        if let Some((tag, length)) = state.rest.seats.take(id, thread, into) {
            return Called::Arrived { tag, length };
        }
        if let Some(arrived) = state.receive_plain(id, into, handoff) {
            return arrived;
        }
        state.stand_up(id, thread);
        Called::Sent
    }
}
