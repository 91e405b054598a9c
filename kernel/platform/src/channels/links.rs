//! What this kernel knows of the others: their lives, and ends that a process passes to a child on
//! another kernel, or to the door of a program there.
//!
//! Contract: an end that is passed on travels under a *ticket*, which its kernel makes and which
//! the child's start data name. Only that kernel, in the same life, can use or refuse it. An end
//! that has arrived is a child's ([`Links::take`]) or unwanted ([`Links::next_unwanted`]).
//!
//! ```text
//!   ticket:  1 | for a door: 1 bit | kernel: 6 | epoch: 16 | number, for a door the door's: 40
//!   Hand, ticket --> arrived --> taken by the child, or passed to the door
//!                          \---> refused (the child did not start), or its kernel died: closed
//! ```

use abi::boot::MAX_DOMAINS;
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
use kernel_channel::{EndId, Life};

/// A handle with this bit is a ticket: of an end that a process on another kernel has passed on.
const TICKET: u64 = 1 << 63;
/// A ticket with this bit is for a door.
const DOOR: u64 = 1 << 62;
/// Where a ticket has its kernel and that kernel's epoch.
const OF_KERNEL: u32 = 56;
const OF_EPOCH: u32 = 40;
const NUMBER: u64 = (1 << OF_EPOCH) - 1;
/// Tickets of ends that no child wants and that have not arrived.
const REFUSED: usize = 32;

/// What is known of the other kernels, and of ends that were passed on.
pub struct Links {
    /// Their epochs; 0: none yet.
    pub known: [u16; MAX_DOMAINS],
    /// The last of these that is over.
    pub gone: [u16; MAX_DOMAINS],
    /// Ends that have arrived for children, by their tickets.
    arrived: Vec<(u64, EndId)>,
    /// The last tickets that no child wants.
    refused: [u64; REFUSED],
    refusals: usize,
    tickets: u64,
    /// Tickets that other kernels are to hear of as refused.
    called_back: Vec<(DomainId, u64)>,
}

impl Links {
    /// Takes memory for `ends` ends.
    pub fn new(ends: usize) -> Links {
        Links {
            known: [0; MAX_DOMAINS],
            gone: [0; MAX_DOMAINS],
            arrived: Vec::with_capacity(ends),
            refused: [0; REFUSED],
            refusals: 0,
            tickets: 0,
            called_back: Vec::with_capacity(ends),
        }
    }

    /// Returns a number that was not returned before.
    pub fn number(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets & NUMBER
    }

    /// Makes a ticket of this kernel.
    pub fn new_ticket(&mut self, me: Life) -> u64 {
        ticket(me, self.number())
    }

    /// Returns whether a kernel is in this life, as far as this one knows.
    pub fn lives(&self, life: Life) -> bool {
        let of = |epochs: &[u16; MAX_DOMAINS]| epochs.get(life.kernel.index()).copied();
        of(&self.known) == Some(life.epoch.0) && of(&self.gone).is_some_and(|it| it < life.epoch.0)
    }

    /// Returns the last life of a kernel that this one knows.
    pub fn last_life(&self, kernel: DomainId) -> Life {
        let epoch = self.known.get(kernel.index()).copied().unwrap_or(0);
        Life { kernel, epoch: Epoch(epoch) }
    }

    /// Removes an end that has arrived for a door. Returns the door's number, too.
    pub fn next_for_door(&mut self) -> Option<(u64, EndId)> {
        let at = self.arrived.iter().position(|(ticket, _)| ticket & DOOR != 0)?;
        let (ticket, end) = self.arrived.swap_remove(at);
        Some((ticket & NUMBER, end))
    }

    /// Keeps an end for the child with this ticket.
    pub fn arrive(&mut self, ticket: u64, end: EndId) {
        // There is room for all ends.
        if self.arrived.len() < self.arrived.capacity() {
            self.arrived.push((ticket, end));
        }
    }

    pub fn refuse(&mut self, ticket: u64) {
        if let Some(place) = self.refused.get_mut(self.refusals % REFUSED) {
            *place = ticket;
            self.refusals += 1;
        }
    }

    /// Removes an end that has arrived and that no child wants: it was refused, or its kernel died
    /// before a child took it, perhaps before there was a child.
    pub fn next_unwanted(&mut self) -> Option<EndId> {
        let is_unwanted = |(ticket, _): &(u64, EndId)| !self.may_arrive(*ticket);
        let at = self.arrived.iter().position(is_unwanted)?;
        Some(self.arrived.swap_remove(at).1)
    }

    /// Forgets what a kernel was to hear of: the life for which that was is over.
    pub fn forget_refusals(&mut self, to: DomainId) {
        self.called_back.retain(|(it, _)| *it != to);
    }

    /// Notes that kernel `to` is to hear that no child wants an end, if it lives.
    pub fn call_back(&mut self, to: DomainId, ticket: u64) {
        let (known, gone) = (self.known.get(to.index()), self.gone.get(to.index()));
        // Without room, the end stays there until this kernel dies.
        if known > gone && self.called_back.len() < self.called_back.capacity() {
            self.called_back.push((to, ticket));
        }
    }

    fn refusal_for(&self, to: DomainId) -> Option<usize> {
        self.called_back.iter().position(|(it, _)| *it == to)
    }

    /// Returns whether a kernel is to hear that no child wants an end.
    pub fn has_refusal(&self, to: DomainId) -> bool {
        self.refusal_for(to).is_some()
    }

    /// Removes the next such ticket for a kernel.
    pub fn next_refusal(&mut self, to: DomainId) -> Option<u64> {
        Some(self.called_back.swap_remove(self.refusal_for(to)?).1)
    }

    pub fn take(&mut self, ticket: u64) -> Option<EndId> {
        let at = self.arrived.iter().position(|(it, _)| *it == ticket)?;
        Some(self.arrived.swap_remove(at).1)
    }

    pub fn has_arrived(&self, ticket: u64) -> bool {
        self.arrived.iter().any(|(it, _)| *it == ticket)
    }

    /// Returns whether an end with this ticket may still arrive.
    pub fn may_arrive(&self, ticket: u64) -> bool {
        let Life { kernel, epoch } = issuer(ticket);
        let gone = self.gone.get(kernel.index());
        !self.refused.contains(&ticket) && gone.is_some_and(|gone| *gone < epoch.0)
    }
}

fn ticket(life: Life, number: u64) -> u64 {
    let (kernel, epoch) = (u64::from(life.kernel.0), u64::from(life.epoch.0));
    TICKET | kernel << OF_KERNEL | epoch << OF_EPOCH | number
}

/// Returns the ticket under which `me` passes an end to a door of another kernel.
pub fn ticket_for_door(me: Life, door: u64) -> u64 {
    ticket(me, door & NUMBER) | DOOR
}

/// Returns the kernel that has made a ticket.
fn issuer(ticket: u64) -> Life {
    let kernel = (ticket & !(TICKET | DOOR)) >> OF_KERNEL;
    Life { kernel: DomainId(kernel as u8), epoch: Epoch((ticket >> OF_EPOCH) as u16) }
}

/// Returns whether this is a ticket that a kernel has made. No other one may use or refuse it.
pub fn is_ticket_of(ticket: u64, life: Life) -> bool {
    is_ticket(ticket) && issuer(ticket) == life
}

/// Returns whether a handle is a ticket.
pub fn is_ticket(handle: u64) -> bool {
    handle & TICKET != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Life = Life { kernel: DomainId(0), epoch: Epoch(2) };
    const THERE: Life = Life { kernel: DomainId(1), epoch: Epoch(2) };

    #[test]
    fn an_end_is_unwanted_once_it_is_refused_or_its_kernel_has_died() {
        let mut links = Links::new(4);
        let ends = [1, 2, 3].map(EndId::of_word);
        let tickets = [ticket(THERE, 1), ticket(THERE, 2), ticket(HERE, 1)];
        tickets.iter().zip(ends).for_each(|(ticket, end)| links.arrive(*ticket, end));
        assert_eq!(links.next_unwanted(), None);
        links.refuse(tickets[1]);
        assert_eq!((links.next_unwanted(), links.next_unwanted()), (Some(ends[1]), None));
        links.gone[1] = THERE.epoch.0;
        assert_eq!((links.next_unwanted(), links.next_unwanted()), (Some(ends[0]), None));
        assert_eq!((links.take(tickets[0]), links.take(tickets[2])), (None, Some(ends[2])));
    }

    #[test]
    fn a_ticket_is_of_one_life_of_one_kernel() {
        let mut links = Links::new(1);
        let [first, second] = [links.new_ticket(THERE), links.new_ticket(THERE)];
        assert!(first != second && is_ticket(first));
        let former = Life { epoch: Epoch(1), ..THERE };
        let is_of = [THERE, former, HERE].map(|life| is_ticket_of(first, life));
        assert_eq!(is_of, [true, false, false]);
        assert!(!is_ticket_of(first & !TICKET, THERE));
    }

    #[test]
    fn a_kernel_hears_of_no_refusal_that_was_for_its_former_life() {
        let mut links = Links::new(4);
        links.call_back(DomainId(1), ticket(HERE, 1));
        assert!(!links.has_refusal(DomainId(1)), "it does not live");
        links.known = [2; MAX_DOMAINS];
        links.call_back(DomainId(1), ticket(HERE, 1));
        links.call_back(DomainId(2), ticket(HERE, 2));
        links.forget_refusals(DomainId(1));
        assert_eq!(
            (links.has_refusal(DomainId(1)), links.next_refusal(DomainId(1))),
            (false, None)
        );
        assert_eq!(links.next_refusal(DomainId(2)), Some(ticket(HERE, 2)));
    }
}
