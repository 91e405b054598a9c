//! The slots of a kernel's ends, and their names. All memory is taken at construction.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::end::{End, Entry, Hint, Place};
use crate::message::Record;
use crate::name::{EndId, EndName, Lives};
use crate::permit::Permit;

/// The end of a chain of names.
const NONE: u16 = u16::MAX;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table<B> {
    ends: Vec<Option<End<B>>>,
    free: Vec<u16>,
    /// Names: the first slot of each bucket, and the next one of each slot.
    buckets: Vec<u16>,
    chain: Vec<u16>,
    /// Queues of free slots, and generations of all.
    queues: Vec<[VecDeque<Entry<B>>; 2]>,
    generations: Vec<u32>,
    /// How many pairs there were.
    pairs: Hint<u64>,
    #[cfg(test)]
    pub keeps_pairs: bool,
}

impl<B> Table<B> {
    /// Takes memory for `ends` ends, below 65,535, whose queues have at most `queue` messages.
    pub fn new(ends: u16, queue: usize) -> Table<B> {
        let count = ends.min(NONE - 1);
        let empty = || [(); 2].map(|()| VecDeque::with_capacity(queue));
        Table {
            ends: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
            buckets: alloc::vec![NONE; usize::from(count).next_power_of_two()],
            chain: alloc::vec![NONE; count.into()],
            queues: (0..count).map(|_| empty()).collect(),
            generations: alloc::vec![0; count.into()],
            pairs: Hint(0),
            #[cfg(test)]
            keeps_pairs: false,
        }
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    pub fn len(&self) -> u16 {
        self.ends.len() as u16
    }

    pub fn get(&self, index: u16) -> Option<&End<B>> {
        self.ends.get(usize::from(index))?.as_ref()
    }

    /// Returns an end, which is not one of a pair from then on.
    pub fn get_mut(&mut self, index: u16) -> Option<&mut End<B>> {
        let end = self.ends.get_mut(usize::from(index))?.as_mut()?;
        #[cfg(test)]
        let kept = if self.keeps_pairs { end.pair.0 } else { 0 };
        #[cfg(not(test))]
        let kept = 0;
        end.pair = Hint(kept);
        Some(end)
    }

    /// Returns the slot of the end with which an end is a pair.
    #[inline]
    pub fn pair(&self, index: u16) -> Option<u16> {
        let end = self.get(index)?;
        let (Hint(number), Hint(twin)) = (end.pair, end.twin);
        let other = self.get(twin).filter(|other| number != 0 && other.pair.0 == number);
        other.map(|_| twin)
    }

    /// Returns two ends, which stay a pair if they are one.
    #[inline]
    pub fn both(&mut self, one: u16, other: u16) -> Option<(&mut End<B>, &mut End<B>)> {
        let both = self.ends.get_disjoint_mut([one, other].map(usize::from)).ok()?;
        let [one, other] = both.map(Option::as_mut);
        Some((one?, other?))
    }

    /// Makes a pair of two ends, each of which knows the slot of the other.
    pub fn set_pair(&mut self, both: [u16; 2]) {
        self.pairs.0 += 1;
        for index in both {
            if let Some(Some(end)) = self.ends.get_mut(usize::from(index)) {
                end.pair = self.pairs;
            }
        }
    }

    /// Iterates over the ends in all slots.
    pub fn iter(&self) -> impl Iterator<Item = &End<B>> {
        self.ends.iter().flatten()
    }

    /// Returns the slot of an end that descriptors hold.
    pub fn held(&self, id: EndId) -> Option<u16> {
        let end = self.get(id.index)?;
        let is_held = matches!(end.place, Place::Held { .. });
        (is_held && end.generation == id.generation).then_some(id.index)
    }

    fn bucket(&self, name: EndName) -> usize {
        let number = name.channel.number ^ name.channel.secret;
        ((number as usize) << 1 | name.side.index()) & (self.buckets.len() - 1)
    }

    pub fn find(&self, name: EndName) -> Option<u16> {
        let mut index = self.buckets[self.bucket(name)];
        while index != NONE {
            if self.get(index).is_some_and(|end| end.name() == name) {
                return Some(index);
            }
            index = self.chain[usize::from(index)];
        }
        None
    }

    /// Returns the slot of the peer of an end, if that is in the table. Remembers it.
    #[inline]
    pub fn find_peer(&mut self, index: u16) -> Option<u16> {
        let end = self.get(index)?;
        let (name, Hint(twin)) = (end.name().peer(), end.twin);
        if self.get(twin).is_some_and(|end| end.name() == name) {
            return Some(twin);
        }
        let found = self.find(name)?;
        self.get_mut(index)?.twin = Hint(found);
        Some(found)
    }

    /// Puts an end into a free slot. Its name must be new here.
    pub fn add(&mut self, record: Record, place: Place) -> Option<u16> {
        let index = self.free.pop()?;
        let [queue, outgoing] = self.queues.pop()?;
        self.ends[usize::from(index)] = Some(End {
            generation: self.generations[usize::from(index)],
            place,
            record,
            owner: 0,
            bytes: 0,
            is_watched: false,
            twin: Hint(NONE),
            pair: Hint(0),
            permit: Hint(Permit::NONE),
            queue,
            outgoing,
            has_news: false,
            last: None,
            to_retire: Lives::NONE,
            relay: None,
            listed: 0,
        });
        let bucket = self.bucket(record.name);
        self.chain[usize::from(index)] = self.buckets[bucket];
        self.buckets[bucket] = index;
        Some(index)
    }

    /// Frees the slot of an end whose queues are empty.
    pub fn remove(&mut self, index: u16) {
        let Some(end) = self.ends.get_mut(usize::from(index)).and_then(Option::take) else {
            return;
        };
        self.generations[usize::from(index)] = end.generation.wrapping_add(1);
        let bucket = self.bucket(end.record.name);
        let next = core::mem::replace(&mut self.chain[usize::from(index)], NONE);
        let mut at = self.buckets[bucket];
        if at == index {
            self.buckets[bucket] = next;
        }
        while at != NONE && at != index {
            let link = self.chain[usize::from(at)];
            if link == index {
                self.chain[usize::from(at)] = next;
            }
            at = link;
        }
        self.queues.push([end.queue, end.outgoing]);
        self.free.push(index);
    }

    pub fn id(&self, index: u16) -> Option<EndId> {
        Some(EndId { index, generation: self.get(index)?.generation })
    }
}
