//! Doors: where the ends of new channels arrive for a program that serves a name.
//!
//! A door is a channel, too: the kernel has one end, and sends each new end through it in a message
//! without fields; the program receives, polls, passes on and closes the other end as any. Its
//! level is the highest, so contracts that are served have a lower one. The name service knows a
//! door by its number, which is not used again in this life of the kernel.
//!
//! ```text
//!   client's kernel: new channel --Hand, ticket of the door--> server's kernel --> door --> server
//! ```
//! **Full**: a door has room for as many ends as a queue has messages, and the tree that has opened
//! it is charged for those that come from other kernels. An end for which there is no room, or no
//! door, is closed; its client finds the channel closed.

use super::contracts::{Permitted, terms};
use super::links::ticket_for_door;
use super::{Channels, ENDS_OF_TREE, Failure, Life, QUEUE, Rest, State};
use crate::peers::Peers;
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
use kernel_channel::{Bounds, ContractId, EndId, MAX_LEVEL, Outgoing};
use kernel_contract::exchange::Known;
use kernel_node::Node;

/// Doors of a kernel.
const DOORS: usize = 32;
/// The contract of a door, which no automaton has.
pub const CONTRACT: ContractId = ContractId([0; 2]);
/// What may be unread: ends for the program, nothing for the kernel.
const BOUNDS: Bounds = Bounds { messages: [0, QUEUE], bytes: 0, level: MAX_LEVEL };

struct Door {
    number: u64,
    /// The process tree that opened it, which is charged for ends of other kernels.
    tree: u32,
    /// The kernel's end.
    end: EndId,
    is_closed: bool,
}

/// The doors of a kernel.
pub struct Doors(Vec<Door>);

impl Doors {
    pub fn new() -> Doors {
        Doors(Vec::with_capacity(DOORS))
    }

    /// Notes that something has happened to an end. If it is that of a door, the program has closed
    /// its own.
    #[inline]
    pub fn woken(&mut self, end: EndId) {
        if let Some(door) = self.0.iter_mut().find(|door| door.end == end) {
            door.is_closed = true;
        }
    }

    fn find(&self, number: u64) -> Option<&Door> {
        self.0.iter().find(|door| door.number == number)
    }

    pub fn any_closed(&self) -> bool {
        self.0.iter().any(|door| door.is_closed)
    }

    fn take_closed(&mut self) -> Option<Door> {
        let at = self.0.iter().position(|door| door.is_closed)?;
        Some(self.0.swap_remove(at))
    }
}

impl State {
    /// Passes an end to the program that has a door. Without room or door, closes the end.
    fn deliver(&mut self, node: &Node, number: u64, end: EndId) -> bool {
        let State { table, rest } = self;
        let Rest { doors, cells, .. } = rest;
        let door = doors.find(number).map(|door| door.end);
        let sent = door.zip(cells.put(&[], None)).map(|(door, payload)| {
            let carried = [Some(end), None];
            let message = Outgoing { tag: 0, bytes: 0, payload, carried };
            table.send(door, message, &Permitted(0), &mut rest.follow(&node.scheduler))
        });
        let is_delivered = matches!(sent, Some(Ok(())));
        if !is_delivered {
            self.drop_end(node, end);
        }
        is_delivered
    }

    /// Passes on the ends that have arrived for doors.
    pub(super) fn deliver_all(&mut self, node: &Node) {
        while let Some((number, end)) = self.rest.links.next_for_door() {
            let State { table, rest } = &mut *self;
            let tree = rest.doors.find(number).map(|door| door.tree);
            if let Some(tree) = tree.filter(|tree| table.charged_to(*tree) < ENDS_OF_TREE) {
                table.charge(end, tree);
                self.deliver(node, number, end);
            } else {
                self.drop_end(node, end);
            }
        }
    }
}

impl Channels {
    /// Opens a door for a process of this tree. Returns the program's end, and the door's number.
    pub fn open_door(&self, tree: u32, secret: u64) -> Result<(u64, u64), Failure> {
        let mut state = self.state.lock();
        if state.rest.doors.0.len() == DOORS {
            return Err(Failure::Full);
        }
        let [end, program] = state.make(tree, (CONTRACT, 0, BOUNDS), secret)?;
        // Watched, so that the table reports when the program closes its end.
        let _ = state.table.begin_poll(end);
        let number = state.rest.links.number();
        state.rest.doors.0.push(Door { number, tree, end, is_closed: false });
        Ok((self.handle(program), number))
    }

    /// Makes a channel for a process of this tree, whose server's end goes to a door of kernel `to`
    /// in its life `epoch`. Returns the client's end.
    pub fn connect(
        &self,
        (node, peers): (&Node, &Peers),
        contract: &Known,
        (tree, secret): (u32, u64),
        (to, epoch, door): (DomainId, Epoch, u64),
    ) -> Result<u64, Failure> {
        let terms = terms(contract)?;
        let mut state = self.state.lock();
        let [client, server] = state.make(tree, terms, secret)?;
        let is_passed = if to == self.me {
            epoch == node.epoch && state.deliver(node, door, server)
        } else {
            let State { table, rest } = &mut *state;
            let lives = rest.links.lives(Life { kernel: to, epoch });
            let ticket = ticket_for_door(Life { kernel: self.me, epoch: node.epoch }, door);
            let is_passed = lives && {
                let follow = &mut rest.follow(&node.scheduler);
                table.hand_over(server, to, ticket, follow).is_ok()
            };
            if !is_passed {
                state.drop_end(node, server);
            }
            is_passed
        };
        if !is_passed {
            state.drop_end(node, client);
        }
        self.leave(node, peers, state);
        if is_passed { Ok(self.handle(client)) } else { Err(Failure::NoRoom) }
    }

    /// Returns a door whose program has closed its end, once.
    pub fn closed_door(&self, node: &Node) -> Option<u64> {
        let mut state = self.state.lock();
        let door = state.rest.doors.take_closed()?;
        state.drop_end(node, door.end);
        Some(door.number)
    }
}
