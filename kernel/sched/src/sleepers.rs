//! Who wakes when: a binary heap with the place of each thread in it, so that an early wake takes
//! its entry out. Room for every thread is made once; nothing is allocated afterwards.

use crate::runqueue::{Index, NONE};
use alloc::vec;
use alloc::vec::Vec;

/// Sleeping threads, earliest deadline first.
#[derive(Clone, Debug)]
pub struct Sleepers {
    heap: Vec<(u64, Index)>,
    places: Vec<Index>,
}

impl Sleepers {
    /// Room for `threads` of them.
    pub fn new(threads: usize) -> Self {
        Sleepers { heap: Vec::with_capacity(threads), places: vec![NONE; threads] }
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<u64> {
        self.heap.first().map(|&(deadline, _)| deadline)
    }

    /// `thread` sleeps until `deadline`; an earlier entry of it is replaced.
    pub fn insert(&mut self, thread: Index, deadline: u64) {
        self.remove(thread);
        self.heap.push((deadline, thread));
        self.rise(self.heap.len() - 1);
    }

    /// `thread` does not sleep any more, if it did.
    #[inline]
    pub fn remove(&mut self, thread: Index) {
        let place = self.places[thread as usize];
        if place != NONE {
            self.take(thread, place);
        }
    }

    fn take(&mut self, thread: Index, place: Index) {
        let (place, last) = (place as usize, self.heap.len() - 1);
        self.heap.swap(place, last);
        self.heap.pop();
        self.places[thread as usize] = NONE;
        if place < self.heap.len() {
            self.sink(place);
            self.rise(place);
        }
    }

    /// Takes one whose deadline is not after `now`.
    pub fn expire(&mut self, now: u64) -> Option<Index> {
        let &(deadline, thread) = self.heap.first()?;
        if deadline > now {
            return None;
        }
        self.remove(thread);
        Some(thread)
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.heap[at].0 < self.heap[(at - 1) / 2].0 {
            self.heap.swap(at, (at - 1) / 2);
            self.note(at);
            at = (at - 1) / 2;
        }
        self.note(at);
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let deadline = |i: usize| self.heap.get(i).map_or(u64::MAX, |entry| entry.0);
            let child =
                if deadline(2 * at + 2) < deadline(2 * at + 1) { 2 * at + 2 } else { 2 * at + 1 };
            if deadline(child) >= deadline(at) {
                return self.note(at);
            }
            self.heap.swap(at, child);
            self.note(at);
            at = child;
        }
    }

    fn note(&mut self, at: usize) {
        if let Some(&(_, thread)) = self.heap.get(at) {
            self.places[thread as usize] = at as Index;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(
            ops in prop::collection::vec((0u8..4, 0u16..20, 0u64..100), 0..300)
        ) {
            let mut sleepers = Sleepers::new(20);
            let mut model: BTreeMap<Index, u64> = BTreeMap::new();
            for (op, thread, time) in ops {
                match op {
                    0 | 1 => {
                        sleepers.insert(thread, time);
                        model.insert(thread, time);
                    }
                    2 => {
                        sleepers.remove(thread);
                        model.remove(&thread);
                    }
                    _ => {
                        let mut woken = Vec::new();
                        while let Some(thread) = sleepers.expire(time) {
                            woken.push(thread);
                        }
                        woken.sort_unstable();
                        let due: Vec<_> =
                            model.iter().filter(|e| *e.1 <= time).map(|e| *e.0).collect();
                        model.retain(|_, deadline| *deadline > time);
                        prop_assert_eq!(woken, due);
                    }
                }
                prop_assert_eq!(sleepers.next(), model.values().min().copied());
            }
        }
    }
}
