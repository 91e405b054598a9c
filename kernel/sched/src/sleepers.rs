//! Deadlines of sleeping threads: a binary heap that knows each thread's position in it, so that an
//! early wake-up can remove the entry. It has room for every thread; nothing is allocated after
//! construction.

use crate::runqueue::{Index, NONE};
use alloc::vec;
use alloc::vec::Vec;

/// Until when a thread sleeps, in soc time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// An idle core is woken for it.
    Firm(u64),
    /// In a kernel that rests, it waits until its core has something else to do.
    Deferrable(u64),
}

impl Deadline {
    /// Returns its time.
    pub const fn at(self) -> u64 {
        match self {
            Deadline::Firm(at) | Deadline::Deferrable(at) => at,
        }
    }
}

/// Sleeping threads, earliest deadline first.
#[derive(Clone, Debug)]
pub struct Sleepers {
    heap: Vec<(u64, Index)>,
    positions: Vec<Index>,
}

impl Sleepers {
    /// Makes room for `threads` sleepers.
    pub fn new(threads: usize) -> Self {
        Sleepers { heap: Vec::with_capacity(threads), positions: vec![NONE; threads] }
    }

    /// Returns the earliest deadline.
    pub fn next(&self) -> Option<u64> {
        self.heap.first().map(|&(deadline, _)| deadline)
    }

    /// Returns the earliest deadline of a thread other than `beside`.
    pub fn next_beside(&self, beside: Index) -> Option<u64> {
        let others = self.heap.iter().filter(|&&(_, thread)| thread != beside);
        others.map(|&(deadline, _)| deadline).min()
    }

    /// Adds a thread with its deadline, replacing an earlier entry of it.
    pub fn insert(&mut self, thread: Index, deadline: u64) {
        self.remove(thread);
        self.heap.push((deadline, thread));
        self.sift_up(self.heap.len() - 1);
    }

    /// Removes a thread, if it sleeps.
    #[inline]
    pub fn remove(&mut self, thread: Index) {
        let position = self.positions[thread as usize];
        if position != NONE {
            self.take(thread, position);
        }
    }

    fn take(&mut self, thread: Index, position: Index) {
        let (position, last) = (position as usize, self.heap.len() - 1);
        self.heap.swap(position, last);
        self.heap.pop();
        self.positions[thread as usize] = NONE;
        if position < self.heap.len() {
            self.sift_down(position);
            self.sift_up(position);
        }
    }

    /// Removes and returns a thread whose deadline is at or before `now`.
    pub fn expire(&mut self, now: u64) -> Option<Index> {
        let &(deadline, thread) = self.heap.first()?;
        if deadline > now {
            return None;
        }
        self.remove(thread);
        Some(thread)
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 && self.heap[at].0 < self.heap[(at - 1) / 2].0 {
            self.heap.swap(at, (at - 1) / 2);
            self.record_position(at);
            at = (at - 1) / 2;
        }
        self.record_position(at);
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let deadline = |i: usize| self.heap.get(i).map_or(u64::MAX, |entry| entry.0);
            let child =
                if deadline(2 * at + 2) < deadline(2 * at + 1) { 2 * at + 2 } else { 2 * at + 1 };
            if deadline(child) >= deadline(at) {
                return self.record_position(at);
            }
            self.heap.swap(at, child);
            self.record_position(at);
            at = child;
        }
    }

    fn record_position(&mut self, at: usize) {
        if let Some(&(_, thread)) = self.heap.get(at) {
            self.positions[thread as usize] = at as Index;
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
        fn the_heap_agrees_with_a_sorted_map(
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
