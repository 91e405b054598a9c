//! What is asked of the device, and what came back.
//!
//! Contract: nothing here waits. [`Ext2::next_io`] says what to do next, any number of them may be
//! under way, and [`Ext2::io_done`] takes results in any order. A write that has been answered may
//! still be lost until a [`What::Flush`] that was asked for behind the answer is answered, too.

use super::writing::{Done, RUN};
use super::{Ext2, Result};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// Keys of waits: below these a block's number.
pub mod key {
    /// The file system is being mounted.
    pub const MOUNT: u64 = 1 << 33;
    /// A generation is on the device, or could not be written.
    pub const WRITTEN: u64 = 2 << 33;
    /// Something was tidied up.
    pub const TIDY: u64 = 3 << 33;
    /// Fewer blocks are asked for.
    pub const QUEUE: u64 = 4 << 33;
}

/// Most blocks that are asked for at a time.
pub const WANTED: usize = 256;

/// What the device has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Read so many bytes.
    Read(usize),
    /// Write so many bytes, which [`Ext2::outgoing`] tells.
    Write(usize),
    /// Make durable whatever was answered before.
    Flush,
}

impl What {
    /// How many bytes come back.
    pub fn reads(self) -> usize {
        if let What::Read(bytes) = self { bytes } else { 0 }
    }
}

/// A request to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// For [`Ext2::io_done`].
    pub id: u64,
    /// Byte of the device.
    pub at: u64,
    /// What.
    pub what: What,
}

/// Why a request was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flight {
    /// To mount: the superblock, or a block of descriptors.
    Mount(u32),
    /// Blocks that are wanted, from this one on.
    Read(u32, usize),
    /// Blocks of the closing generation, from this one on.
    Write(u32, usize),
    /// The end of one of its phases.
    Flush,
}

/// What is asked for and under way.
#[derive(Debug, Default)]
pub struct Device {
    last: u64,
    /// Blocks that are asked for, and by which request.
    wanted: BTreeMap<u32, Option<u64>>,
    queue: VecDeque<u32>,
    /// So many at the queue's head were read with others, which failed: each for itself now.
    alone: usize,
    flights: BTreeMap<u64, Flight>,
    /// Blocks that could not be read, until somebody has been told.
    pub bad: BTreeSet<u32>,
    woken: BTreeSet<u64>,
    full: bool,
}

/// So many blocks from one on.
fn each(first: u32, blocks: usize) -> impl DoubleEndedIterator<Item = u32> {
    (0..blocks as u32).map(move |at| first + at)
}

impl Device {
    /// Asks for a block; says what to wait for.
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

    /// There is something newer than what the device has.
    pub fn overtake(&mut self, block: u32) {
        if self.wanted.remove(&block).is_some() {
            self.wake(block.into());
            if core::mem::take(&mut self.full) {
                self.wake(key::QUEUE);
            }
        }
        self.bad.remove(&block);
    }

    /// Whoever waits for this key may ask again.
    pub fn wake(&mut self, key: u64) {
        self.woken.insert(key);
    }

    /// Takes a key whose wait is over.
    pub fn ready(&mut self) -> Option<u64> {
        self.woken.pop_first()
    }

    /// A number for a request.
    pub fn start(&mut self, flight: Flight) -> u64 {
        self.last += 1;
        self.flights.insert(self.last, flight);
        self.last
    }

    /// Takes the queue's head, if it is wanted still.
    fn next_wanted(&mut self) -> Option<u32> {
        let block = self.queue.pop_front()?;
        self.alone = self.alone.saturating_sub(1);
        (self.wanted.get(&block) == Some(&None)).then_some(block)
    }

    /// The next blocks to read: as many as follow each other, both here and on the device.
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

    /// They could not be read at once.
    fn read_alone(&mut self, id: u64, first: u32, blocks: usize) {
        for block in each(first, blocks).rev() {
            if self.wanted.get(&block) == Some(&Some(id)) {
                self.wanted.insert(block, None);
                self.queue.push_front(block);
                self.alone += 1;
            }
        }
    }

    /// A read came back; false when nobody wants it any more.
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

    /// Is this block asked for?
    pub fn is_wanted(&self, block: u32) -> bool {
        self.wanted.contains_key(&block)
    }

    /// A block could not be read.
    fn spoil(&mut self, block: u32) {
        // Not the lowest one, or any: who waits behind what was read ahead would never hear of it.
        if self.bad.len() >= WANTED && !self.bad.contains(&block) {
            self.bad.clear();
        }
        self.bad.insert(block);
    }

    /// Is anything under way?
    pub fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }
}

impl Ext2 {
    /// The next request to the device, if there is one now. Also tidies up a little.
    pub fn next_io(&mut self) -> Option<Io> {
        if let Some(io) = self.next_mount_io() {
            return Some(io);
        }
        self.tidy();
        self.settle_on();
        let block = self.geometry.block;
        if let Some((id, first, blocks)) = self.device.next_read() {
            let at = u64::from(first) * block as u64;
            return Some(Io { id, at, what: What::Read(blocks * block) });
        }
        self.next_write()
    }

    /// What became of a request. `data` is what was read.
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

    /// A block came back, or it cannot be read.
    fn read_back(&mut self, id: u64, block: u32, data: Option<&[u8]>) {
        if !self.device.arrived(id, block) {
            return;
        }
        match data {
            Some(data) => {
                self.device.bad.remove(&block);
                self.cache.fill(block, data.into());
            }
            None => self.device.spoil(block),
        }
    }

    /// What a write is to write, from byte `from` of it on, until that is not asked for any more;
    /// how many bytes that are.
    pub fn outgoing(&self, id: u64, from: usize, into: &mut [u8]) -> usize {
        let Some(Flight::Write(first, blocks)) = self.device.flights.get(&id) else { return 0 };
        let (size, mut done) = (self.geometry.block, 0);
        while done < into.len() && (from + done) / size < *blocks {
            let (place, at) = ((from + done) / size, (from + done) % size);
            let Some(data) = self.cache.closing(first + place as u32) else { break };
            let (Some(data), Some(into)) = (data.get(at..), into.get_mut(done..)) else { break };
            let length = data.len().min(into.len());
            into[..length].copy_from_slice(&data[..length]);
            done += length;
        }
        done
    }

    /// Has it nothing to do with the device?
    pub fn is_idle(&self) -> bool {
        self.device.is_idle()
    }

    /// Waits for something that is not a block.
    pub(super) fn wait<T>(key: u64) -> Result<T> {
        Err(crate::filesystem::Stop::Wait(key))
    }
}
