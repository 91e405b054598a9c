//! Messages of programs: sent, received, or sent and then received in one step.
//!
//! Contract: a thread that waits has its seat before the lock is released, so no message and no
//! close is missed. A thread that it wakes is passed to the caller's [`Handoff`], which wakes it
//! when the caller blocks, or at once if the caller does not. Other kernels are woken with
//! interrupts unmasked, because that may wait.

use super::contracts::{Find, Permitted, hash_of, how_it_ended, permits};
use super::{Brought, Channels, ENDS_OF_TREE, Failure, Follow, Rest, State, fields_of};
use crate::peers::Peers;
use arch::lock::Guard;
use kernel_channel::{CARRIED, Carried, EndId, ReceiveError, SendError};
use kernel_contract::exchange::{Arrived, Cargo, Outgoing, Room, WindowName, Windows};
use kernel_node::Node;
use kernel_sched::Handoff;

/// An end, and the tree of the process that uses it.
type User = (EndId, u32);

impl Rest {
    /// The effects of a call of the table whose first wake may wait for the caller to block.
    fn follow_by<'a>(
        &'a mut self,
        handoff: &'a mut Handoff<'_>,
    ) -> Follow<'a, impl FnMut(kernel_sched::ThreadId)> {
        Follow { rest: self, wake: |thread| handoff.wake(thread) }
    }
}

impl State {
    pub(super) fn send(
        &mut self,
        (id, tree): User,
        message: Outgoing<'_>,
        carried: [Option<EndId>; CARRIED],
        contracts: Find<'_>,
        handoff: &mut Handoff<'_>,
    ) -> Result<(), Failure> {
        let State { table, rest } = self;
        let about = table.about(id).map_err(|_| Failure::BadEnd)?;
        let contract = contracts(&hash_of(about.contract)).ok_or(Failure::NoContract)?;
        let next = permits(table, contract, &about, &message, &carried)?;
        let Outgoing { tag, bytes: fields, block, .. } = message;
        let most = table.far_bytes(id).unwrap_or(0) as usize;
        let name = rest.keep(block, (tree, about.secret), most.saturating_sub(fields.len()))?;
        let Some(payload) = rest.put(name.as_ref(), fields, block.as_ref()) else {
            rest.take_back(name, block);
            return Err(Failure::Breach);
        };
        let message =
            kernel_channel::Outgoing { tag, bytes: fields.len() as u32, payload, carried };
        let sent = table.send(id, message, &Permitted(next), &mut rest.follow_by(handoff));
        if let Err(refused) = sent {
            rest.take_back(name, block);
            rest.cells.free(refused.payload);
            return Err(refusal(refused.error));
        }
        *block = None;
        if let Some(name) = name {
            table.count_block(id, name.length.into());
        }
        rest.sent = rest.sent.wrapping_add(1);
        Ok(())
    }

    fn receive(
        &mut self,
        channels: &Channels,
        (id, tree): User,
        (room, brought): (&mut Room<'_>, &mut Option<Brought>),
        contracts: Find<'_>,
        handoff: &mut Handoff<'_>,
    ) -> Result<Arrived, Failure> {
        let State { table, rest } = self;
        if let Some((payload, ends)) = table.front(id) {
            let name = rest.block_of(payload);
            let block = name.map_or(0, |name| name.length as usize);
            let fits = rest.fields(payload, room.bytes).is_some() && block <= room.block;
            if !fits || ends > room.ends {
                return Err(Failure::Unfit { bytes: fields_of(payload), block, ends });
            }
            let new = if ends == 0 { 0 } else { table.new_ends(id, tree) };
            if new > 0 && table.charged_to(tree) + new > ENDS_OF_TREE {
                return Err(Failure::Full);
            }
            if let Some(name) = name {
                rest.can_receive(&name, room, brought.as_ref())?;
            }
        }
        let received = table.receive(id, &mut rest.follow_by(handoff));
        match received {
            Ok(received) => {
                Ok(channels.taken((table, rest), received, tree, (room.windows, brought)))
            }
            Err(ReceiveError::BadEnd) => Err(Failure::BadEnd),
            Err(ReceiveError::PeerClosed) => Err(how_it_ended(table, id, contracts)),
            Err(ReceiveError::Empty) => Err(Failure::Empty),
        }
    }

    /// Makes the calling thread wait for an end that has nothing to receive.
    fn wait(&mut self, node: &Node, id: EndId) -> Failure {
        if !self.rest.seats.add(id, node.scheduler.current().token()) {
            return Failure::Crowded;
        }
        // Nothing has come since: the lock is held.
        let _ = self.table.begin_poll(id);
        Failure::Empty
    }
}

impl Channels {
    /// Sends a message of a process of this tree.
    pub fn send(
        &self,
        (node, peers): (&Node, &Peers),
        (end, tree): (u64, u32),
        message: Outgoing<'_>,
        contracts: Find<'_>,
    ) -> Result<(), Failure> {
        let id = self.id(end)?;
        let carried = self.carried(&message)?;
        let mut handoff = Handoff::begin(&node.scheduler);
        let mut state = self.state.lock();
        state.send((id, tree), message, carried, contracts, &mut handoff)?;
        self.leave_by(node, peers, state, &mut handoff);
        Ok(())
    }

    /// Receives the next message, with ends for a process of this tree, and with its block if that
    /// is here or was brought. With `waits`, if there is no message, the calling thread is woken
    /// for the end from now on, until [`Channels::end_wait`].
    pub fn receive(
        &self,
        (node, peers): (&Node, &Peers),
        (end, tree): (u64, u32),
        into: (&mut Room<'_>, &mut Option<Brought>),
        (contracts, waits): (Find<'_>, bool),
        handoff: &mut Handoff<'_>,
    ) -> Result<Arrived, Failure> {
        let id = self.id(end)?;
        let mut state = self.state.lock();
        let received = state.receive(self, (id, tree), into, contracts, handoff);
        match received {
            Ok(arrived) => {
                self.leave_by(node, peers, state, handoff);
                Ok(arrived)
            }
            Err(Failure::Empty) if waits => Err(state.wait(node, id)),
            failed => failed,
        }
    }

    /// Sends a message without ends, and then receives as [`Channels::receive`] does, in one step.
    pub fn call(
        &self,
        (node, peers): (&Node, &Peers),
        (end, tree): (u64, u32),
        message: Outgoing<'_>,
        into: (&mut Room<'_>, &mut Option<Brought>),
        contracts: Find<'_>,
        handoff: &mut Handoff<'_>,
    ) -> Result<Arrived, Failure> {
        let id = self.id(end)?;
        let carried = self.carried(&message)?;
        let mut state = self.state.lock();
        state.send((id, tree), message, carried, contracts, handoff)?;
        let mut received = Err(Failure::Empty);
        if state.table.has_news(id) {
            received = state.receive(self, (id, tree), into, contracts, handoff);
        }
        if received == Err(Failure::Empty) {
            received = Err(state.wait(node, id));
        }
        self.leave_by(node, peers, state, handoff);
        received
    }

    /// Returns the ends that a message carries.
    fn carried(&self, message: &Outgoing<'_>) -> Result<[Option<EndId>; CARRIED], Failure> {
        let mut carried = [None; CARRIED];
        for (to, end) in carried.iter_mut().zip(message.ends) {
            let known = end.map(|end| self.id(end)).transpose();
            *to = known.map_err(|_| Failure::BadCarried)?;
        }
        Ok(carried)
    }

    /// Sends what followed from a call of a thread, and wakes kernels for it.
    #[inline]
    pub(super) fn leave_by(
        &self,
        node: &Node,
        peers: &Peers,
        mut state: Guard<'_, State>,
        handoff: &mut Handoff<'_>,
    ) {
        let sent = state.pump(node, peers);
        let has_closed = state.rest.doors.any_closed();
        drop(state);
        if sent != 0 || has_closed {
            handoff.end();
            self.wake_others(node, peers, (sent, has_closed));
        }
    }

    /// Accounts for a message that was taken from the table.
    fn taken(
        &self,
        (table, rest): (&mut kernel_channel::Channels<super::Payload>, &mut Rest),
        received: kernel_channel::Received<super::Payload>,
        tree: u32,
        (windows, brought): (Windows, &mut Option<Brought>),
    ) -> Arrived {
        let (length, name) = (fields_of(&received.payload), rest.block_of(&received.payload));
        let takes = windows == Windows::Prepared;
        let window = name.filter(|name| takes && rest.is_window(name));
        let block = name.and_then(|name| match name.is_in_message() {
            true => rest.fill(&received.payload, brought.take()),
            false => {
                let here = match window {
                    Some(name) => rest.window(&name),
                    None => rest.blocks.take(&name),
                };
                here.or_else(|| brought.take()?.block)
            }
        });
        let window = window.map(|name| WindowName(name.words()));
        rest.cells.free(received.payload);
        let ends = received.carried.map(|carried| match carried {
            Carried::Nothing => Cargo::Nothing,
            Carried::Lost => Cargo::Lost,
            Carried::End(end) => {
                table.charge(end, tree);
                Cargo::End(self.handle(end))
            }
        });
        Arrived { tag: received.tag, length, block, window, ends }
    }
}

pub(super) fn refusal(error: SendError) -> Failure {
    match error {
        SendError::BadEnd => Failure::BadEnd,
        SendError::PeerClosed => Failure::Closed,
        SendError::Contract | SendError::Bound => Failure::Breach,
        SendError::BadCarried => Failure::BadCarried,
        SendError::Shared => Failure::Shared,
        SendError::Level => Failure::Level,
        SendError::NoRoom => Failure::NoRoom,
    }
}
