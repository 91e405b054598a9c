//! What is asked of the device, and what came back.
//!
//! Contract: nothing here waits. [`Ext2::next_io`] says what to do next, any number of them may be
//! under way, and [`Ext2::io_done`] takes results in any order. A write that has been answered may
//! still be lost until a [`What::Flush`] that was asked for behind the answer is answered, too.

use super::{Ext2, Result, writing::Done};
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
    /// A block that is wanted.
    Read(u32),
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
    flights: BTreeMap<u64, Flight>,
    /// Blocks that could not be read, until somebody has been told.
    pub bad: BTreeSet<u32>,
    woken: BTreeSet<u64>,
    full: bool,
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

    fn next_read(&mut self) -> Option<(u64, u32)> {
        while let Some(block) = self.queue.pop_front() {
            if self.wanted.get(&block) == Some(&None) {
                let id = self.start(Flight::Read(block));
                self.wanted.insert(block, Some(id));
                return Some((id, block));
            }
        }
        None
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
        if self.bad.len() >= WANTED {
            self.bad.pop_first();
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
        if let Some((id, number)) = self.device.next_read() {
            let at = u64::from(number) * block as u64;
            return Some(Io { id, at, what: What::Read(block) });
        }
        self.next_write()
    }

    /// What became of a request. `data` is what was read.
    pub fn io_done(&mut self, id: u64, good: bool, data: &[u8]) {
        let Some(flight) = self.device.flights.remove(&id) else { return };
        match flight {
            Flight::Mount(piece) => self.mount_read(piece, good.then_some(data)),
            Flight::Read(block) => {
                if !self.device.arrived(id, block) {
                    return;
                }
                if good && data.len() == self.geometry.block {
                    self.device.bad.remove(&block);
                    self.cache.fill(block, data.into());
                } else {
                    self.device.spoil(block);
                }
            }
            Flight::Write(_, blocks) => {
                self.written(blocks, if good { Done::Written } else { Done::Failed });
            }
            Flight::Flush => self.written(0, if good { Done::Flushed } else { Done::Failed }),
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
