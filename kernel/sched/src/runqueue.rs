//! Ready threads by priority, FIFO within a priority. No allocation after construction.
//!
//! The lists are threaded through one array of links: a thread is in at most one queue.

use crate::{MAX_THREADS, PRIORITIES};

/// Index of a thread in the table, or [`NONE`].
pub type Index = u16;
/// No thread; the end of a list.
pub const NONE: Index = Index::MAX;

const _: () = assert!(MAX_THREADS < NONE as usize && PRIORITIES == 32);

/// Links of all run queues of a kernel: the next thread, by thread.
pub type Links = [Index];

#[derive(Clone, Debug)]
pub struct RunQueue {
    /// Bit p: there is a thread of priority p.
    occupied: u32,
    heads: [Index; PRIORITIES],
    tails: [Index; PRIORITIES],
    length: u32,
}

impl Default for RunQueue {
    fn default() -> Self {
        RunQueue { occupied: 0, heads: [NONE; PRIORITIES], tails: [NONE; PRIORITIES], length: 0 }
    }
}

impl RunQueue {
    pub fn len(&self) -> u32 {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Returns the highest priority that has a ready thread.
    pub fn highest(&self) -> Option<u8> {
        self.occupied.checked_ilog2().map(|p| p as u8)
    }

    /// Appends a thread to the queue of its priority.
    pub fn push(&mut self, links: &mut Links, thread: Index, priority: u8) {
        let p = priority as usize % PRIORITIES;
        links[thread as usize] = NONE;
        match self.tails[p] {
            NONE => self.heads[p] = thread,
            tail => links[tail as usize] = thread,
        }
        self.tails[p] = thread;
        self.occupied |= 1 << p;
        self.length += 1;
    }

    /// Removes the first thread of the highest priority.
    pub fn pop(&mut self, links: &mut Links) -> Option<Index> {
        let p = self.highest()? as usize;
        let thread = self.heads[p];
        self.heads[p] = links[thread as usize];
        if self.heads[p] == NONE {
            self.tails[p] = NONE;
            self.occupied &= !(1 << p);
        }
        self.length -= 1;
        Some(thread)
    }

    /// Removes the first thread that `wanted` accepts, trying higher priorities first.
    pub fn take(
        &mut self,
        links: &mut Links,
        mut wanted: impl FnMut(Index) -> bool,
    ) -> Option<Index> {
        for p in (0..PRIORITIES).rev().filter(|&p| self.occupied & 1 << p != 0) {
            let (mut before, mut thread) = (NONE, self.heads[p]);
            while thread != NONE {
                if wanted(thread) {
                    self.unlink(links, p, before, thread);
                    return Some(thread);
                }
                (before, thread) = (thread, links[thread as usize]);
            }
        }
        None
    }

    fn unlink(&mut self, links: &mut Links, p: usize, before: Index, thread: Index) {
        let after = links[thread as usize];
        match before {
            NONE => self.heads[p] = after,
            before => links[before as usize] = after,
        }
        if after == NONE {
            self.tails[p] = before;
        }
        if self.heads[p] == NONE {
            self.occupied &= !(1 << p);
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
            ops in prop::collection::vec((0u8..3, 0u16..40, 0u8..32), 0..300)
        ) {
            let (mut queue, mut links) = (RunQueue::default(), [NONE; MAX_THREADS]);
            let mut model: Vec<VecDeque<Index>> = vec![VecDeque::new(); PRIORITIES];
            for (op, thread, priority) in ops {
                let queued = model.iter().any(|q| q.contains(&thread));
                match op {
                    0 if !queued => {
                        queue.push(&mut links, thread, priority);
                        model[priority as usize].push_back(thread);
                    }
                    1 => {
                        let expected = model.iter_mut().rev().find_map(VecDeque::pop_front);
                        prop_assert_eq!(queue.pop(&mut links), expected);
                    }
                    _ => {
                        let found = queue.take(&mut links, |t| t % 3 == thread % 3);
                        let expected = model.iter_mut().rev().find_map(|q| {
                            let at = q.iter().position(|t| t % 3 == thread % 3)?;
                            q.remove(at)
                        });
                        prop_assert_eq!(found, expected);
                    }
                }
                let highest = model.iter().rposition(|q| !q.is_empty()).map(|p| p as u8);
                prop_assert_eq!(queue.highest(), highest);
                let length = model.iter().map(VecDeque::len).sum::<usize>();
                prop_assert_eq!(queue.len() as usize, length);
            }
        }
    }
}
