//! The ends that programs of this kernel have closed last, with the messages of each, so that a
//! tool that looks now and then misses no short conversation.
//!
//! Contract: all memory is taken at construction. A full log forgets the oldest end. Ends are
//! numbered from 0 in the order in which they were closed, so a reader knows how many it has
//! missed. Not in the log: doors, and ends that no program held when they were closed.

use super::{Channels, Listed, Place, doors, hash_of};
use alloc::collections::VecDeque;

/// Ends in the log.
const KEPT: usize = 128;
/// Bytes of the name of a process.
const NAME: usize = abi::process::NAME;

/// A process, by its number and name.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    pub pid: u32,
    pub name: &'a [u8],
}

/// An end that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// As it was before.
    pub listed: Listed,
    /// The process that closed it, and the process's name, padded with zeroes.
    pub pid: u32,
    pub name: [u8; NAME],
}

pub struct Log {
    kept: VecDeque<Ended>,
    count: u64,
}

impl Log {
    pub fn new() -> Log {
        Log { kept: VecDeque::with_capacity(KEPT), count: 0 }
    }

    /// Notes an end that is about to be closed, unless it has other descriptors.
    pub fn note(&mut self, end: Option<kernel_channel::Listed>, holder: Holder<'_>) {
        let is_last = |end: &kernel_channel::Listed| {
            end.place == Place::Held { descriptors: 1 } && end.contract != doors::CONTRACT
        };
        let Some(end) = end.filter(is_last) else { return };
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        let mut name = [0; NAME];
        name.iter_mut().zip(holder.name).for_each(|(to, byte)| *to = *byte);
        let listed = Listed { end, contract: hash_of(end.contract).0, tree: end.owner };
        self.kept.push_back(Ended { listed, pid: holder.pid, name });
        self.count = self.count.wrapping_add(1);
    }

    /// Returns the numbers of the ends in the log.
    fn numbers(&self) -> core::ops::Range<u64> {
        self.count - self.kept.len() as u64..self.count
    }
}

impl Channels {
    /// Returns the numbers of the ends that this kernel still knows of those that were closed.
    pub fn numbers_of_ended(&self) -> core::ops::Range<u64> {
        self.state.lock().rest.ended.numbers()
    }

    /// Returns the end with a number; `None` if it was forgotten.
    pub fn ended(&self, number: u64) -> Option<Ended> {
        let state = self.state.lock();
        let log = &state.rest.ended;
        let index = number.checked_sub(log.numbers().start)?;
        log.kept.get(usize::try_from(index).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::{DomainId, Epoch};
    use kernel_channel::{ContractId, EndId, Life, Side};

    fn end(number: u64) -> kernel_channel::Listed {
        let life = Life { kernel: DomainId(0), epoch: Epoch(1) };
        kernel_channel::Listed {
            id: EndId::of_word(number),
            creator: life,
            number,
            side: Side::First,
            contract: ContractId([5; 2]),
            level: 0,
            place: Place::Held { descriptors: 1 },
            peer: life,
            is_closed: false,
            is_broken: false,
            sent: 2,
            received: 1,
            bytes: 20,
            unread: 0,
            owner: 7,
        }
    }

    #[test]
    fn the_log_keeps_the_last_ends_and_counts_all() {
        let mut log = Log::new();
        let holder = Holder { pid: 7, name: b"mail" };
        let count = KEPT as u64 + 3;
        (0..count).for_each(|number| log.note(Some(end(number)), holder));
        assert_eq!(log.numbers(), 3..count);
        let first = log.kept.front().expect("it is full");
        assert_eq!((first.listed.end.number, first.pid, &first.name[..5]), (3, 7, &b"mail\0"[..]));
    }

    #[test]
    fn ends_with_other_descriptors_doors_and_unknown_ends_are_not_noted() {
        let mut log = Log::new();
        let holder = Holder { pid: 7, name: &[b'x'; 40] };
        log.note(Some(kernel_channel::Listed { contract: doors::CONTRACT, ..end(1) }), holder);
        let place = Place::Held { descriptors: 2 };
        log.note(Some(kernel_channel::Listed { place, ..end(1) }), holder);
        log.note(None, holder);
        assert_eq!(log.numbers(), 0..0);
        log.note(Some(end(1)), holder);
        assert_eq!(log.kept.front().map(|it| it.name), Some([b'x'; NAME]), "cut off");
    }
}
