//! The journal: a ring of blocks in a file of its own, the log, in which each generation of changes
//! is one transaction.
//!
//! ```text
//!   superblock | first ... tail [ transactions that a replay would repeat ] head ... last |
//!                 ^---------------------------------------------------------------------'
//! ```
//!
//! Contract: a transaction takes at most half of the log. The log is *full* when another one would
//! make it more than half. Then that transaction ends with a checkpoint: when it is committed, all
//! blocks of the log are written to their places. The tail moves only when no block is unplaced, to
//! the next transaction that finds the log full, with its commit: the flush before that makes the
//! places durable. If that transaction does not fit, the tail moves before it, with two flushes
//! more. So a block of the log is overwritten only after a superblock that no longer leads there is
//! durable, and a superblock leads past a transaction only after its places are durable.

use super::jbd2::{self, Stamp, Super, Tag};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Number of blocks in use at which the log is full, however large it is.
const USED: u32 = 4096;
/// Maximum number of consecutive parts of the journal's file.
pub const PARTS: usize = 4096;

/// What a write writes.
#[derive(Clone, Copy, Debug)]
pub enum From {
    /// A block of the cache, as it was when the generation closed.
    Cache(u32),
    /// The same with the first bytes cleared.
    Escaped(u32),
    /// One of the blocks made for this generation.
    Own(usize),
}

/// A step of writing a generation. Writes are executed in any order up to the next other step,
/// which waits until all steps before it are done.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// To a block of the device.
    Write(u32, From),
    Flush,
    /// The transaction is durable.
    Committed,
}

/// Consecutive blocks of the journal's file.
#[derive(Clone, Copy, Debug)]
struct Part {
    index: u32,
    block: u32,
    blocks: u32,
}

/// Where the blocks of the journal's file are on the device.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    parts: Vec<Part>,
    /// The first one on the device, and the one after the last.
    range: (u32, u32),
}

impl Parts {
    /// Returns the number of blocks.
    pub fn blocks(&self) -> u32 {
        self.parts.last().map_or(0, |last| last.index + last.blocks)
    }

    /// Adds the next block of the file. Fails if there are too many parts.
    pub fn push(&mut self, block: u32) -> Option<()> {
        let index = self.blocks();
        let (first, end) = if index == 0 { (block, block) } else { self.range };
        self.range = (first.min(block), end.max(block.checked_add(1)?));
        if let Some(last) = self.parts.last_mut()
            && last.block.checked_add(last.blocks) == Some(block)
        {
            last.blocks += 1;
            return Some(());
        }
        self.parts.push(Part { index, block, blocks: 1 });
        (self.parts.len() <= PARTS).then_some(())
    }

    /// Returns the device's block of an index, or 0.
    pub fn at(&self, index: u32) -> u32 {
        let place = self.parts.partition_point(|part| part.index <= index);
        let part = place.checked_sub(1).and_then(|place| self.parts.get(place));
        part.map_or(0, |part| part.block + (index - part.index))
    }

    /// Returns whether a block of the device is one of the file's.
    pub fn has(&self, block: u32) -> bool {
        let holds = |part: &Part| (part.block..part.block + part.blocks).contains(&block);
        (self.range.0..self.range.1).contains(&block) && self.parts.iter().any(holds)
    }
}

#[derive(Debug)]
pub struct Journal {
    parts: Parts,
    super_block: Super,
    seed: u32,
    /// Number and first block of the next transaction.
    pub sequence: u32,
    pub head: u32,
    /// Number of blocks from the tail to the head.
    used: u32,
    /// Whether the superblock says that the log is empty.
    pub empty: bool,
    /// Blocks that have a copy between tail and head.
    logged: BTreeSet<u32>,
}

/// A transaction that is being written.
#[derive(Debug)]
pub struct Transaction {
    sequence: u32,
    blocks: u32,
    copied: Vec<u32>,
    revoked: Vec<u32>,
    moves_tail: bool,
}

impl Transaction {
    /// Returns the blocks that it has copies of.
    pub fn copied(&self) -> &[u32] {
        &self.copied
    }
}

/// The steps of a transaction: before all others, up to the flush before its commit, and the
/// commit.
pub struct Steps {
    pub before: Vec<Step>,
    pub copies: Vec<Step>,
    pub commit: Vec<Step>,
    /// Whether a checkpoint must follow.
    pub is_full: bool,
    pub transaction: Transaction,
}

impl Journal {
    /// Creates the state of an empty log. The next transaction is number `sequence`.
    pub fn new(parts: Parts, super_block: Super, sequence: u32) -> Journal {
        let (seed, head) = (super_block.seed(), super_block.first());
        let logged = BTreeSet::new();
        Journal { parts, super_block, seed, sequence, head, used: 0, empty: true, logged }
    }

    /// Returns the maximum number of changed blocks before a generation closes. An operation
    /// changes at most about 140 more, and each may add a block of group descriptors; twice the sum
    /// fits half of the smallest log.
    pub fn room(&self) -> usize {
        self.super_block.length() as usize / 16
    }

    /// Returns the device's block of the superblock.
    pub fn super_at(&self) -> u32 {
        self.parts.at(0)
    }

    /// Returns whether a block of the device is part of the journal.
    pub fn owns(&self, block: u32) -> bool {
        self.parts.has(block)
    }

    /// Returns the superblock of a log that starts there; with 0, of an empty one.
    pub fn super_with(&self, start: u32) -> Box<[u8]> {
        self.super_block.with(start, self.sequence)
    }

    /// Returns those of the freed blocks that a replay would write.
    pub fn to_revoke(&self, freed: impl Iterator<Item = u32>) -> Vec<u32> {
        freed.filter(|block| self.logged.contains(block)).collect()
    }

    fn after(&self, index: u32) -> u32 {
        if index + 1 >= self.super_block.length() { self.super_block.first() } else { index + 1 }
    }

    /// Plans the transaction with copies of these blocks and with these revocations. `placed` tells
    /// that every block of the log is at its place, also those that the transaction frees. The
    /// transaction's own blocks are added to `own`. Fails if it is larger than half of the log.
    pub fn plan(
        &self,
        changed: &[(u32, &[u8])],
        revoked: Vec<u32>,
        placed: bool,
        now: u64,
        own: &mut Vec<Box<[u8]>>,
    ) -> Option<Steps> {
        let stamp = Stamp { seed: self.seed, sequence: self.sequence };
        let size = self.super_block.size();
        let (mut copies, mut index) = (Vec::new(), self.head);
        let mut write = |from| {
            let step = Step::Write(self.parts.at(index), from);
            index = self.after(index);
            step
        };
        let mut kept = |block| {
            own.push(block);
            From::Own(own.len() - 1)
        };
        for some in changed.chunks(jbd2::tags_in(size)) {
            let tags: Vec<Tag> =
                some.iter().map(|(block, data)| Tag::new(stamp, *block, data)).collect();
            copies.push(write(kept(jbd2::descriptor(stamp, size, &tags))));
            for tag in tags {
                let from = if tag.escaped { From::Escaped } else { From::Cache };
                copies.push(write(from(tag.block)));
            }
        }
        for some in revoked.chunks(jbd2::revocations_in(size)) {
            copies.push(write(kept(jbd2::revocations(stamp, size, some))));
        }
        let blocks = copies.len() as u32 + 1;
        let mut commit = Vec::from([write(kept(jbd2::commit(stamp, size, now)))]);
        let all = self.super_block.length() - self.super_block.first();
        let is_full = self.used + blocks > (all / 2).min(USED);
        let (moves_tail, fits) = (is_full && placed, self.used + blocks <= all);
        let mut before = Vec::new();
        if self.empty {
            before.push(Step::Write(self.super_at(), kept(self.super_with(self.head))));
        }
        if moves_tail && self.used != 0 {
            let moved = Step::Write(self.super_at(), kept(self.super_with(self.head)));
            if fits {
                commit.push(moved);
            } else {
                before.extend([Step::Flush, moved, Step::Flush]);
            }
        }
        let copied = changed.iter().map(|(block, _)| *block).collect();
        let sequence = self.sequence;
        let transaction = Transaction { sequence, blocks, copied, revoked, moves_tail };
        let is_sound = blocks <= all / 2 && (fits || placed);
        let is_full = is_full && !placed;
        is_sound.then_some(Steps { before, copies, commit, is_full, transaction })
    }

    /// Notes that a transaction is committed, and that the superblock leads to it if it moved the
    /// tail.
    pub fn committed(&mut self, done: &Transaction) {
        if done.sequence != self.sequence {
            return; // It was written again.
        }
        if done.moves_tail {
            self.used = 0;
            self.logged.clear();
        }
        for block in &done.revoked {
            self.logged.remove(block);
        }
        self.logged.extend(&done.copied);
        self.empty = false;
        self.used += done.blocks;
        for _ in 0..done.blocks {
            self.head = self.after(self.head);
        }
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Notes that the superblock says that the log is empty.
    pub fn emptied(&mut self) {
        (self.empty, self.used) = (true, 0);
        self.logged.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::vec;

    const SIZE: usize = 1024;
    const LENGTH: u32 = 1024;

    fn journal() -> Journal {
        let mut block = [0; SIZE];
        let fields = [0xc03b_3998, 4, 0, SIZE as u32, LENGTH, 1, 9, 0];
        for (field, place) in fields.iter().zip(block.chunks_exact_mut(4)) {
            place.copy_from_slice(&u32::to_be_bytes(*field));
        }
        let mut parts = Parts::default();
        (0..LENGTH).for_each(|index| parts.push(5000 + index).unwrap());
        Journal::new(parts, Super::read(&block, LENGTH).unwrap(), 9)
    }

    /// A device with a log, and what a replay needs of it.
    #[derive(Default)]
    struct Model {
        /// Transactions by the blocks of the log that they are in.
        live: alloc::collections::BTreeMap<u32, u32>,
        /// The first transaction that the superblock leads to, also after the next flush.
        tail: u32,
        moved: Option<u32>,
        /// The places lack something; they are written, but not flushed.
        unplaced: bool,
        placing: bool,
    }

    impl Model {
        fn execute(&mut self, step: Step, own: &[Box<[u8]>], sequence: u32) {
            match step {
                Step::Flush => {
                    self.placing = false;
                    self.tail = self.moved.take().unwrap_or(self.tail);
                    let tail = self.tail;
                    self.live.retain(|_, number| *number >= tail);
                }
                Step::Write(5000, From::Own(at)) => {
                    let field = own[at][24..].first_chunk().unwrap();
                    self.moved = Some(u32::from_be_bytes(*field));
                    assert!(
                        !self.unplaced && !self.placing,
                        "the tail leads past what has no place"
                    );
                }
                Step::Write(at, _) => {
                    let before = self.live.insert(at, sequence);
                    assert!(before.is_none(), "a replay may need what {at} holds");
                }
                Step::Committed => {}
            }
        }
    }

    #[test]
    fn transactions_of_any_size_overwrite_nothing_that_a_replay_may_need() {
        let (data, mut moves) = (vec![1; SIZE], [0; 3]);
        for seed in 0..40 {
            let (mut random, mut journal) = (Prng::new(seed), journal());
            let mut model = Model::default();
            for _ in 0..200 {
                // With its own blocks it takes half of the log at most.
                let most = [3, 30, 250, 490][random.below(4) as usize];
                let count = 1 + random.below(most) as u32;
                let changed: Vec<(u32, &[u8])> = (0..count).map(|at| (at, &data[..])).collect();
                let (mut own, used) = (Vec::new(), journal.used);
                let plan = journal.plan(&changed, Vec::new(), !model.unplaced, 0, &mut own);
                let plan = plan.expect("it has room");
                moves[0] += usize::from(plan.is_full);
                moves[1] += usize::from(plan.before.len() == 3);
                moves[2] += usize::from(plan.transaction.moves_tail && used != 0);
                let flush = [Step::Flush];
                let steps = [&plan.before, &plan.copies, &flush[..], &plan.commit, &flush];
                for step in steps.into_iter().flatten() {
                    model.execute(*step, &own, journal.sequence);
                }
                journal.committed(&plan.transaction);
                (model.unplaced, model.placing) = (true, false);
                if plan.is_full || random.chance(1, 10) {
                    (model.unplaced, model.placing) = (false, true);
                }
            }
        }
        std::println!("full, moved before, moved: {moves:?}");
        assert!(moves.iter().all(|count| *count > 50));
    }
}
