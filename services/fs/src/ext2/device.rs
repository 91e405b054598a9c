//! I/O of the file system.
//!
//! Contract: nothing here waits. [`Ext2::next_io`] returns the next I/O, any number may be in
//! flight, and [`Ext2::io_done`] takes results in any order. A completed write may still be lost
//! until a [`What::Flush`] that was issued after its completion has completed too.

use super::jbd2::ESCAPE;
use super::{Ext2, Result};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// Keys of [`crate::filesystem::Stop::Wait`]; a smaller one is a block number.
pub mod key {
    /// The file system is mounted, or cannot be.
    pub const MOUNT: u64 = 1 << 33;
    /// A generation is on the device, or could not be written.
    pub const WRITTEN: u64 = 2 << 33;
    /// A step of [`crate::ext2::tidy`] is done.
    pub const TIDY: u64 = 3 << 33;
    /// The queue of reads has room.
    pub const QUEUE: u64 = 4 << 33;
}

/// Maximum number of consecutive blocks in one I/O.
pub const RUN: usize = 16;
/// Maximum number of blocks wanted at a time.
pub const WANTED: usize = 256;

/// What an I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Read(usize),
    /// Write this many bytes, which [`Ext2::outgoing`] returns.
    Write(usize),
    /// Make all completed writes durable.
    Flush,
}

impl What {
    /// Returns how many bytes a read returns.
    pub fn reads(self) -> usize {
        if let What::Read(bytes) = self { bytes } else { 0 }
    }
}

/// An I/O to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// To be passed to [`Ext2::io_done`].
    pub id: u64,
    /// Byte offset on the device.
    pub at: u64,
    pub what: What,
}

/// The result of a write or flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Written,
    Flushed,
    Failed,
}

/// The purpose of an I/O in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flight {
    /// Mounting: the superblock (0), or a block of descriptors.
    Mount(u32),
    /// Read blocks: the first one, and their number.
    Read(u32, usize),
    /// Execute write steps of the closing generation: the first one, and their number.
    Write(usize, usize),
    /// Execute its flush step.
    Flush,
}

/// Wanted blocks and I/Os in flight.
#[derive(Debug, Default)]
pub struct Device {
    last: u64,
    /// Blocks wanted, and the I/O that reads each.
    wanted: BTreeMap<u32, Option<u64>>,
    queue: VecDeque<u32>,
    /// How many blocks at the head of the queue must be read one by one, because reading them in
    /// one I/O failed.
    alone: usize,
    flights: BTreeMap<u64, Flight>,
    /// Blocks that could not be read, until a caller got the error.
    pub bad: BTreeSet<u32>,
    woken: BTreeSet<u64>,
    full: bool,
}

/// Iterates over `blocks` blocks from `first` on.
fn each(first: u32, blocks: usize) -> impl DoubleEndedIterator<Item = u32> {
    (0..blocks as u32).map(move |at| first + at)
}

impl Device {
    /// Asks for a block. Returns the key to wait for.
    pub fn want(&mut self, block: u32) -> u64 {
        if self.wanted.contains_key(&block) {
            return block.into();
        }
        if self.wanted.len() >= WANTED {
            self.full = true;
            return key::QUEUE;
        }
        self.wanted.insert(block, None);
        self.queue.push_back(block);
        block.into()
    }

    /// Notes that a block has newer contents than the device, so it need not be read.
    pub fn overtake(&mut self, block: u32) {
        if self.wanted.remove(&block).is_some() {
            self.wake(block.into());
            if core::mem::take(&mut self.full) {
                self.wake(key::QUEUE);
            }
        }
        self.bad.remove(&block);
    }

    /// Wakes the callers that wait for this key.
    pub fn wake(&mut self, key: u64) {
        self.woken.insert(key);
    }

    /// Returns a key whose callers are to be woken.
    pub fn ready(&mut self) -> Option<u64> {
        self.woken.pop_first()
    }

    /// Registers an I/O. Returns its id.
    pub fn start(&mut self, flight: Flight) -> u64 {
        self.last += 1;
        self.flights.insert(self.last, flight);
        self.last
    }

    /// Takes the block at the head of the queue, if it is still wanted.
    fn next_wanted(&mut self) -> Option<u32> {
        let block = self.queue.pop_front()?;
        self.alone = self.alone.saturating_sub(1);
        (self.wanted.get(&block) == Some(&None)).then_some(block)
    }

    /// Takes the next blocks to read: a run of consecutive ones.
    fn next_read(&mut self) -> Option<(u64, u32, usize)> {
        while !self.queue.is_empty() {
            let most = if self.alone > 0 { 1 } else { RUN };
            let Some(first) = self.next_wanted() else { continue };
            let mut blocks = 1;
            while blocks < most
                && let Some(next) = first.checked_add(blocks as u32)
                && self.queue.front() == Some(&next)
                && self.next_wanted().is_some()
            {
                blocks += 1;
            }
            let id = self.start(Flight::Read(first, blocks));
            self.wanted.extend(each(first, blocks).map(|block| (block, Some(id))));
            return Some((id, first, blocks));
        }
        None
    }

    /// Queues the blocks of a failed read again, to be read one by one.
    fn read_alone(&mut self, id: u64, first: u32, blocks: usize) {
        for block in each(first, blocks).rev() {
            if self.wanted.get(&block) == Some(&Some(id)) {
                self.wanted.insert(block, None);
                self.queue.push_front(block);
                self.alone += 1;
            }
        }
    }

    /// Notes that a block was read. Returns false if it is not wanted any more.
    fn arrived(&mut self, id: u64, block: u32) -> bool {
        if self.wanted.get(&block) != Some(&Some(id)) {
            return false;
        }
        self.wanted.remove(&block);
        self.wake(block.into());
        if core::mem::take(&mut self.full) {
            self.wake(key::QUEUE);
        }
        true
    }

    /// Returns whether this block is wanted.
    pub fn is_wanted(&self, block: u32) -> bool {
        self.wanted.contains_key(&block)
    }

    /// Notes that a block could not be read.
    fn mark_unreadable(&mut self, block: u32) {
        // Drops all when full. Dropping only one, such as the lowest, could each time drop the
        // block that a caller waits for, because the blocks read ahead after it fail too.
        if self.bad.len() >= WANTED && !self.bad.contains(&block) {
            self.bad.clear();
        }
        self.bad.insert(block);
    }

    /// Returns whether no I/O is in flight.
    pub fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }
}

impl Ext2 {
    /// Returns the next I/O, if there is one. Also does a little tidying.
    pub fn next_io(&mut self) -> Option<Io> {
        if let Some(io) = self.next_mount_io() {
            return Some(io);
        }
        self.next_replay();
        self.tidy();
        self.settle_on();
        let block = self.geometry.block;
        if let Some((id, first, blocks)) = self.device.next_read() {
            let at = u64::from(first) * block as u64;
            return Some(Io { id, at, what: What::Read(blocks * block) });
        }
        self.next_write()
    }

    /// Completes an I/O; `data` is the result of a read.
    pub fn io_done(&mut self, id: u64, good: bool, data: &[u8]) {
        let Some(flight) = self.device.flights.remove(&id) else { return };
        match flight {
            Flight::Mount(piece) => self.mount_read(piece, good.then_some(data)),
            Flight::Read(first, blocks) if blocks > 1 && !good => {
                self.device.read_alone(id, first, blocks);
            }
            Flight::Read(first, blocks) => {
                let mut pieces = data.chunks_exact(self.geometry.block);
                for block in each(first, blocks) {
                    self.read_back(id, block, pieces.next().filter(|_| good));
                }
            }
            Flight::Write(_, blocks) => {
                self.written(blocks, if good { Done::Written } else { Done::Failed });
            }
            Flight::Flush => self.written(0, if good { Done::Flushed } else { Done::Failed }),
        }
    }

    /// A block was read, or cannot be read.
    fn read_back(&mut self, id: u64, block: u32, data: Option<&[u8]>) {
        if !self.device.arrived(id, block) {
            return;
        }
        match data {
            Some(data) => {
                self.device.bad.remove(&block);
                self.cache.fill(block, data.into());
            }
            None => self.device.mark_unreadable(block),
        }
    }

    /// Copies the data of a write, from byte `from` on. Returns the number of bytes copied.
    pub fn outgoing(&self, id: u64, from: usize, into: &mut [u8]) -> usize {
        let Some(Flight::Write(first, blocks)) = self.device.flights.get(&id) else { return 0 };
        let (size, mut done) = (self.geometry.block, 0);
        while done < into.len() && (from + done) / size < *blocks {
            let (place, at) = ((from + done) / size, (from + done) % size);
            let Some((data, escaped)) = self.data_of(first + place) else { break };
            let (Some(data), Some(into)) = (data.get(at..), into.get_mut(done..)) else { break };
            let length = data.len().min(into.len());
            into[..length].copy_from_slice(&data[..length]);
            if escaped && at < ESCAPE {
                into[..length.min(ESCAPE - at)].fill(0);
            }
            done += length;
        }
        done
    }

    /// Returns whether no I/O is in flight.
    pub fn is_idle(&self) -> bool {
        self.device.is_idle()
    }

    /// Waits for something other than a block.
    pub(super) fn wait<T>(key: u64) -> Result<T> {
        Err(crate::filesystem::Stop::Wait(key))
    }
}
