//! All ends of one kernel, and what programs do with them.
//!
//! Used under one lock. No method waits or allocates, and none needs another kernel. What is to be
//! sent is fetched with [`Channels::next`] while the ring to that kernel has room: what is pending
//! is state of the ends, which is bounded, and not a queue of messages.
//!
//! # What the caller does
//! - A descriptor is an [`EndId`]. [`Channels::dup`] counts a second one (dup, inheritance). The
//!   descriptors of a dead program are closed, one [`Channels::close`] each.
//! - It owns payloads (`B`), opaque here: bytes, or pages that move (bulk). A payload is in exactly
//!   one place: given to `send`, it is returned by a refusal, by `receive`, by `next` (to be sent),
//!   or by [`Effects::free`].
//! - It reports sessions and deaths of kernels in the order of their epochs, before messages of the
//!   next life. A session begins after the deaths of all earlier lives.

use alloc::collections::VecDeque;

use abi::boot::MAX_DOMAINS;
use base::id::DomainId;

use crate::bounds::{Bounds, CARRIED, MAX_LEVEL};
use crate::end::{Entry, Place, Slot};
use crate::message::{Peer, Record};
use crate::name::{ChannelName, ContractId, EndId, EndName, Life, Lives, Side};
use crate::peers::Peers;
use crate::table::Table;

/// Memory of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Ends, stand-ins included.
    pub ends: u16,
    /// The largest bound of a contract, in messages.
    pub queue: u16,
    /// Places that are kept free for the ends that one other kernel sends.
    pub arrivals: u16,
}

/// What follows from a call, besides its result.
pub trait Effects<B> {
    /// Wakes the programs that wait for this end; they look again.
    fn wake(&mut self, end: EndId);
    /// An end arrived for the program that starts with this ticket. Without such a program, the
    /// caller closes it.
    fn arrived(&mut self, ticket: u64, end: EndId);
    /// Frees a payload that no program will receive.
    fn free(&mut self, payload: B);
}

/// The answers of a contract, each in constant time.
pub trait Contract {
    /// Returns the state after a message of this kind from this side, or `None` if it may not send
    /// it. `state` may come from another kernel: any value must be endured.
    fn next(&self, state: u16, side: Side, tag: u16) -> Option<u16>;
}

/// A message that a program sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing<B> {
    pub tag: u16,
    pub bytes: u32,
    pub payload: B,
    /// Ends that move with it. Each has one descriptor, which is void afterwards.
    pub carried: [Option<EndId>; CARRIED],
}

/// A message that a program receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<B> {
    pub tag: u16,
    pub payload: B,
    pub carried: [Carried; CARRIED],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    Nothing,
    /// The end was closed on its way: a kernel died, or had no room.
    Lost,
    /// A new descriptor.
    End(EndId),
}

/// What an end is, for its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub contract: ContractId,
    pub side: Side,
    /// State of the contract.
    pub state: u16,
    /// Nothing was sent through it or received from it.
    pub is_fresh: bool,
    /// Messages may have been lost with a kernel.
    pub is_broken: bool,
    /// The channel's secret.
    pub secret: u64,
}

/// No descriptor refers to this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEnd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// No free slots beside those that other kernels have been promised.
    Full,
    /// The bounds exceed the limits.
    Bounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    BadEnd,
    /// The peer has been closed. The message is not sent.
    PeerClosed,
    /// The contract does not allow it here, or it has too many bytes.
    Contract,
    /// More messages than the contract's bound, which the contract should exclude.
    Bound,
    /// A carried end is no descriptor, or named twice.
    BadCarried,
    /// A carried end has several descriptors.
    Shared,
    /// A carried end is not of a lower level than the channel.
    Level,
    /// The kernel of the peer has no room for more ends at this time.
    NoRoom,
}

/// A message that was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused<B> {
    pub error: SendError,
    pub payload: B,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    BadEnd,
    /// Nothing to be received now.
    Empty,
    /// Nothing will be received any more.
    PeerClosed,
}

/// The ends of one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Channels<B> {
    pub(crate) table: Table<B>,
    pub(crate) peers: Peers,
    /// Ends with something to send to each kernel.
    pub(crate) ready: [VecDeque<u16>; MAX_DOMAINS],
    pub(crate) queue: u16,
    created: u64,
    /// Ends that were closed for lack of room.
    #[cfg(test)]
    pub(crate) crowded: alloc::vec::Vec<EndName>,
    #[cfg(test)]
    pub(crate) mutant: Option<crate::proof::Mutant>,
}

impl<B> Channels<B> {
    /// Takes all memory that it will ever use.
    pub fn new(me: Life, limits: Limits) -> Channels<B> {
        let table = Table::new(limits.ends, limits.queue.into());
        let ready = |_| VecDeque::with_capacity(table.len().into());
        Channels {
            ready: core::array::from_fn(ready),
            table,
            peers: Peers::new(me, limits.arrivals),
            queue: limits.queue,
            created: 0,
            #[cfg(test)]
            crowded: alloc::vec::Vec::new(),
            #[cfg(test)]
            mutant: None,
        }
    }

    /// Creates a channel. Each end has one descriptor. `secret` is a random number.
    pub fn create(
        &mut self,
        contract: ContractId,
        state: u16,
        bounds: Bounds,
        secret: u64,
    ) -> Result<[EndId; 2], CreateError> {
        if bounds.level > MAX_LEVEL || bounds.messages.iter().any(|it| *it > self.queue) {
            return Err(CreateError::Bounds);
        }
        if self.table.free() < self.peers.promised() + 2 {
            return Err(CreateError::Full);
        }
        let channel = ChannelName { creator: self.peers.me, number: self.created, secret };
        self.created += 1;
        let add = |side| {
            let record = self.new_record(EndName { channel, side }, contract, state, bounds);
            let index = self.table.add(record, Place::Held { descriptors: 1 });
            index.and_then(|index| self.table.id(index)).ok_or(CreateError::Full)
        };
        let [first, second] = [Side::First, Side::Second].map(add);
        Ok([first?, second?])
    }

    fn new_record(
        &self,
        name: EndName,
        contract: ContractId,
        state: u16,
        bounds: Bounds,
    ) -> Record {
        let peer = Peer {
            at: self.peers.me,
            moves: 0,
            edition: 0,
            switched: 0,
            awaited: Lives::NONE,
            before: 0,
            closed: None,
            is_gone: false,
            heard: 0,
            heard_switched: 0,
            heard_all: false,
        };
        Record {
            name,
            contract,
            state,
            bounds,
            moves: 0,
            edition: 0,
            sent: 0,
            read: 0,
            before: 0,
            trail: Lives::NONE,
            is_broken: false,
            peer,
        }
    }

    /// Returns what an end is.
    pub fn about(&self, end: EndId) -> Result<About, BadEnd> {
        let index = self.table.held(end).ok_or(BadEnd)?;
        let record = &self.table.get(index).ok_or(BadEnd)?.record;
        Ok(About {
            contract: record.contract,
            side: record.name.side,
            state: record.state,
            is_fresh: record.sent == 0 && record.read == 0,
            is_broken: record.is_broken,
            secret: record.name.channel.secret,
        })
    }

    /// Returns how many bytes a message to this end may have; `None` if this kernel does not know
    /// the end.
    pub fn bytes_to(&self, end: EndName) -> Option<u32> {
        Some(self.table.get(self.table.find(end)?)?.record.bounds.bytes)
    }

    /// Returns the message that [`Channels::receive`] would return next: its payload, and how many
    /// ends it carries, lost ones included.
    pub fn front(&self, end: EndId) -> Option<(&B, usize)> {
        let end = self.table.get(self.table.held(end)?)?;
        let entry = end.queue.front().filter(|_| end.is_readable())?;
        let is_place = |slot: &&Slot| !matches!(slot, Slot::Nothing);
        Some((&entry.payload, entry.carried.iter().filter(is_place).count()))
    }

    /// Counts one more descriptor of an end.
    pub fn dup(&mut self, end: EndId) -> Result<(), BadEnd> {
        let index = self.table.held(end).ok_or(BadEnd)?;
        let end = self.table.get_mut(index).ok_or(BadEnd)?;
        match &mut end.place {
            Place::Held { descriptors } if *descriptors < u16::MAX => *descriptors += 1,
            _ => return Err(BadEnd),
        }
        end.forget_permit();
        Ok(())
    }

    /// Closes a descriptor. The last one closes the end: unread messages are dropped, with the ends
    /// in them; messages that it has sent still arrive.
    pub fn close(&mut self, end: EndId, effects: &mut dyn Effects<B>) -> Result<(), BadEnd> {
        let index = self.table.held(end).ok_or(BadEnd)?;
        match self.table.get_mut(index).map(|end| &mut end.place) {
            Some(Place::Held { descriptors }) if *descriptors > 1 => *descriptors -= 1,
            _ => self.close_end(index, effects),
        }
        self.grant();
        Ok(())
    }

    /// Sends a message. In constant time; a refusal changes nothing.
    pub fn send(
        &mut self,
        end: EndId,
        message: Outgoing<B>,
        contract: &impl Contract,
        effects: &mut dyn Effects<B>,
    ) -> Result<(), Refused<B>> {
        let Outgoing { tag, bytes, payload, .. } = message;
        if message.carried == [None; CARRIED]
            && let Some(quiet) = self.quiet(end)
        {
            let next = contract.next(quiet.state, quiet.side, tag);
            let Some(state) = next.filter(|_| bytes <= quiet.bytes) else {
                return Err(Refused { error: SendError::Contract, payload });
            };
            if let Some(end) = quiet.send((tag, state), bytes, payload) {
                effects.wake(end);
            }
            return Ok(());
        }
        let checked = self.check(end, tag, bytes, &message.carried, contract);
        let (index, state, peer) = match checked {
            Ok(checked) => checked,
            Err(error) => return Err(Refused { error, payload }),
        };
        let room = self.room_for(index, &message.carried);
        let carried = message.carried.map(|id| self.carry(id, effects));
        let me = self.peers.me;
        let Some(end) = self.table.get_mut(index) else {
            return Err(Refused { error: SendError::BadEnd, payload });
        };
        let sequence = end.record.sent;
        (end.record.sent, end.record.state) = (sequence.saturating_add(1), state);
        end.bytes = end.bytes.wrapping_add(bytes.into());
        let entry = Entry { sequence, tag, state, payload, carried, room };
        match peer.filter(|_| end.is_quiet(me)) {
            Some(peer) => {
                // There is room: `check` has looked.
                let _ = self.accept_at(peer, entry, effects);
            }
            None => {
                end.outgoing.push_back(entry);
                self.settle(index, effects);
            }
        }
        Ok(())
    }

    /// Returns the sender's slot, the state after the message, and the slot of a receiver that is
    /// here.
    fn check(
        &mut self,
        end: EndId,
        tag: u16,
        bytes: u32,
        carried: &[Option<EndId>; CARRIED],
        contract: &impl Contract,
    ) -> Result<(u16, u16, Option<u16>), SendError> {
        let index = self.table.held(end).ok_or(SendError::BadEnd)?;
        let sender = self.table.get(index).ok_or(SendError::BadEnd)?;
        let record = &sender.record;
        if record.peer.closed.is_some() {
            return Err(SendError::PeerClosed);
        }
        let next = contract.next(record.state, record.name.side, tag);
        let next = next.filter(|_| bytes <= record.bounds.bytes).ok_or(SendError::Contract)?;
        let (peer, at) = (record.name.peer(), record.peer.at);
        let bound = usize::from(record.bounds.messages[peer.side.index()]);
        let local = if at == self.peers.me { self.table.find(peer) } else { None };
        let queued = local.and_then(|it| self.table.get(it)).map_or(0, |it| it.queue.len());
        if queued.max(sender.outgoing.len()) >= bound {
            return Err(SendError::Bound);
        }
        self.check_carried(record, carried)?;
        let ends = carried.iter().flatten().count() as u16;
        let has_room = ends == 0 || at == self.peers.me || {
            let known = self.peers.kernel(at).map_or(0, |kernel| kernel.room);
            known >= ends
        };
        has_room.then_some((index, next, local)).ok_or(SendError::NoRoom)
    }

    fn check_carried(
        &self,
        over: &Record,
        carried: &[Option<EndId>; CARRIED],
    ) -> Result<(), SendError> {
        for (at, id) in carried.iter().enumerate() {
            let Some(id) = id else { continue };
            let index = self.table.held(*id).filter(|_| !carried[..at].contains(&Some(*id)));
            let end = index.and_then(|it| self.table.get(it)).ok_or(SendError::BadCarried)?;
            if end.place != (Place::Held { descriptors: 1 }) {
                return Err(SendError::Shared);
            }
            if end.record.bounds.level >= over.bounds.level {
                return Err(SendError::Level);
            }
        }
        Ok(())
    }

    /// Reserves room for carried ends on the kernel of the peer. It is known to be there.
    fn room_for(&mut self, index: u16, carried: &[Option<EndId>; CARRIED]) -> Option<Life> {
        let at = self.table.get(index)?.record.peer.at;
        let ends = carried.iter().flatten().count() as u16;
        let is_remote = ends > 0 && at != self.peers.me;
        (is_remote && self.peers.take_room(at, ends)).then_some(at)
    }

    /// Takes an end away from its holder.
    fn carry(&mut self, id: Option<EndId>, effects: &mut dyn Effects<B>) -> Slot {
        let Some(index) = id.and_then(|id| self.table.held(id)) else { return Slot::Nothing };
        self.wake(index, effects);
        let Some(end) = self.table.get_mut(index) else { return Slot::Nothing };
        end.place = Place::Carried;
        end.generation = end.generation.wrapping_add(1);
        Slot::End(index)
    }

    /// Gives an end to a program that starts on another kernel, which knows it by `ticket`. Its
    /// descriptor is void afterwards.
    pub fn hand_over(
        &mut self,
        end: EndId,
        kernel: DomainId,
        ticket: u64,
        effects: &mut dyn Effects<B>,
    ) -> Result<(), SendError> {
        let index = self.table.held(end).ok_or(SendError::BadEnd)?;
        let place = self.table.get(index).map(|end| end.place);
        if place != Some(Place::Held { descriptors: 1 }) {
            return Err(SendError::Shared);
        }
        let life = self.peers.session(kernel).ok_or(SendError::NoRoom)?;
        if !self.peers.take_room(life, 1) {
            return Err(SendError::NoRoom);
        }
        let _ = self.carry(Some(end), effects);
        if let Some(end) = self.table.get_mut(index) {
            end.place = Place::Handed { to: life, ticket };
        }
        self.settle(index, effects);
        Ok(())
    }

    /// Receives the next message.
    pub fn receive(
        &mut self,
        end: EndId,
        effects: &mut dyn Effects<B>,
    ) -> Result<Received<B>, ReceiveError> {
        if let Some(taken) = self.receive_quiet(end, |_| true) {
            if taken.wakes {
                effects.wake(end);
            }
            let carried = [Carried::Nothing; CARRIED];
            return Ok(Received { tag: taken.tag, payload: taken.payload, carried });
        }
        let index = self.table.held(end).ok_or(ReceiveError::BadEnd)?;
        let end = self.table.get_mut(index).ok_or(ReceiveError::BadEnd)?;
        let is_next = end.is_readable();
        let Some(entry) = end.queue.pop_front_if(|_| is_next) else {
            return Err(match end.is_finished() {
                true => ReceiveError::PeerClosed,
                false => ReceiveError::Empty,
            });
        };
        end.record.read = entry.sequence.saturating_add(1);
        end.record.state = entry.state;
        let Entry { tag, payload, carried, .. } = entry;
        let carried = carried.map(|slot| self.hold(slot));
        self.settle(index, effects);
        Ok(Received { tag, payload, carried })
    }

    /// Gives an end to the program that received it.
    fn hold(&mut self, slot: Slot) -> Carried {
        let index = match slot {
            Slot::Nothing => return Carried::Nothing,
            Slot::Lost => return Carried::Lost,
            Slot::End(index) => index,
        };
        let Some(end) = self.table.get_mut(index) else { return Carried::Lost };
        end.place = Place::Held { descriptors: 1 };
        end.forget_permit();
        self.table.id(index).map_or(Carried::Lost, Carried::End)
    }

    /// Returns the number of slots in use: of ends, and of stand-ins of ends that have left.
    pub fn used(&self) -> usize {
        usize::from(self.table.len()) - self.table.free()
    }

    #[cfg(test)]
    pub(crate) fn is_mutant(&self, mutant: crate::proof::Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
