//! Ready threads by level, FIFO within a level. No allocation after construction.
//!
//! A priority has two levels: threads that are owed time come before those that take turns
//! ([`crate::table`]). The lists are threaded through one array of links: a thread is in at most
//! one queue.

use crate::{MAX_THREADS, PRIORITIES};

/// Index of a thread in the table, or [`NONE`].
pub type Index = u16;
/// No thread; the end of a list.
pub const NONE: Index = Index::MAX;

const _: () = assert!(MAX_THREADS < NONE as usize && LEVELS == u64::BITS as usize);

const LEVELS: usize = 2 * PRIORITIES;

/// A priority, and whether a thread is owed time. Higher ones run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    #[inline]
    pub const fn new(priority: u8, is_owed: bool) -> Level {
        Level(((priority * 2) | is_owed as u8) % LEVELS as u8)
    }

    #[inline]
    pub const fn priority(self) -> u8 {
        self.0 / 2
    }

    #[inline]
    pub const fn is_owed(self) -> bool {
        self.0 % 2 == 1
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Links of all run queues of a kernel: the next thread, by thread.
pub type Links = [Index; MAX_THREADS];

#[derive(Clone, Debug)]
pub struct RunQueue {
    /// Bit n: there is a thread of level n.
    occupied: u64,
    heads: [Index; LEVELS],
    tails: [Index; LEVELS],
    length: u32,
}

impl Default for RunQueue {
    fn default() -> Self {
        RunQueue { occupied: 0, heads: [NONE; LEVELS], tails: [NONE; LEVELS], length: 0 }
    }
}

impl RunQueue {
    pub fn len(&self) -> u32 {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Returns the highest level that has a ready thread.
    #[inline]
    pub fn highest(&self) -> Option<Level> {
        self.occupied.checked_ilog2().map(|level| Level(level as u8))
    }

    /// Appends a thread to the queue of its level.
    pub fn push(&mut self, links: &mut Links, thread: Index, level: Level) {
        let at = level.index();
        links[thread as usize] = NONE;
        match self.tails[at] {
            NONE => self.heads[at] = thread,
            last => links[last as usize] = thread,
        }
        self.tails[at] = thread;
        self.occupied |= 1 << at;
        self.length += 1;
    }

    /// Puts a thread before the others of its level.
    pub fn push_first(&mut self, links: &mut Links, thread: Index, level: Level) {
        let at = level.index();
        links[thread as usize] = self.heads[at];
        if self.heads[at] == NONE {
            self.tails[at] = thread;
        }
        self.heads[at] = thread;
        self.occupied |= 1 << at;
        self.length += 1;
    }

    /// Removes the first thread of the highest level.
    pub fn pop(&mut self, links: &mut Links) -> Option<(Index, Level)> {
        let level = self.highest()?;
        let thread = self.heads[level.index()];
        self.unlink(links, level, NONE, thread);
        Some((thread, level))
    }

    /// Removes the first thread that `wanted` accepts, trying higher levels first.
    pub fn take(
        &mut self,
        links: &mut Links,
        mut wanted: impl FnMut(Index) -> bool,
    ) -> Option<(Index, Level)> {
        for level in (0..LEVELS).rev().filter(|&level| self.occupied & 1 << level != 0) {
            let (mut before, mut thread) = (NONE, self.heads[level]);
            while thread != NONE {
                if wanted(thread) {
                    let level = Level(level as u8);
                    self.unlink(links, level, before, thread);
                    return Some((thread, level));
                }
                (before, thread) = (thread, links[thread as usize]);
            }
        }
        None
    }

    fn unlink(&mut self, links: &mut Links, level: Level, before: Index, thread: Index) {
        let (at, after) = (level.index(), links[thread as usize]);
        match before {
            NONE => self.heads[at] = after,
            before => links[before as usize] = after,
        }
        if after == NONE {
            self.tails[at] = before;
        }
        if self.heads[at] == NONE {
            self.occupied &= !(1 << at);
        }
        self.length -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn the_run_queue_agrees_with_a_model(
            ops in prop::collection::vec((0u8..4, 0u16..40, 0u8..32, any::<bool>()), 0..300)
        ) {
            let (mut queue, mut links) = (RunQueue::default(), [NONE; MAX_THREADS]);
            let mut model: Vec<VecDeque<Index>> = vec![VecDeque::new(); LEVELS];
            for (op, thread, priority, is_owed) in ops {
                let level = Level::new(priority, is_owed);
                prop_assert_eq!((level.priority(), level.is_owed()), (priority, is_owed));
                let queued = model.iter().any(|q| q.contains(&thread));
                match op {
                    0 if !queued => {
                        queue.push(&mut links, thread, level);
                        model[level.index()].push_back(thread);
                    }
                    1 if !queued => {
                        queue.push_first(&mut links, thread, level);
                        model[level.index()].push_front(thread);
                    }
                    2 => {
                        let mut levels = model.iter_mut().enumerate().rev();
                        let first = levels.find_map(|(at, q)| Some((q.pop_front()?, at)));
                        let found = queue.pop(&mut links).map(|(it, level)| (it, level.index()));
                        prop_assert_eq!(found, first);
                    }
                    _ => {
                        let found = queue.take(&mut links, |t| t % 3 == thread % 3);
                        let mut levels = model.iter_mut().enumerate().rev();
                        let expected = levels.find_map(|(level, q)| {
                            let at = q.iter().position(|t| t % 3 == thread % 3)?;
                            Some((q.remove(at)?, level))
                        });
                        prop_assert_eq!(found.map(|(it, level)| (it, level.index())), expected);
                    }
                }
                let highest = model.iter().rposition(|q| !q.is_empty());
                prop_assert_eq!(queue.highest().map(Level::index), highest);
                let length = model.iter().map(VecDeque::len).sum::<usize>();
                prop_assert_eq!(queue.len() as usize, length);
            }
        }
    }
}
