//! virtio block: read, write and flush, with at most [`SLOTS`] requests in flight.
//!
//! Data pass through buffers in the device's memory in the uncached window, at most [`BUFFER`]
//! bytes per request. A completed write is durable only after a flush that was issued later has
//! completed.

use crate::queue::{self, Piece, Queue};
use crate::transport::{Bus, InitError, Transport};
use abi::boot::Device;
use base::bytes;
use base::port::Words;

const DEVICE_ID: u64 = 2;
const FEATURE_READ_ONLY: u64 = 1 << 5;
const FEATURE_FLUSH: u64 = 1 << 9;
/// Size of a sector.
pub const SECTOR: usize = 512;
/// Maximum bytes of one request.
pub const BUFFER: usize = 32 * 1024;
/// Maximum number of requests in flight.
pub const SLOTS: usize = 4;
/// Size of a slot: header 16, status 8, then data at 64.
const SLOT: usize = 64 + BUFFER;
/// Size of the device memory that this driver needs.
pub const MEMORY: usize = queue::BYTES + SLOTS * SLOT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    Read(usize),
    Write(&'a [u8]),
    /// Make all completed writes durable.
    Flush,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// All slots are in use: wait for the interrupt and try again.
    Busy,
    /// Not whole sectors, too long, or beyond the end of the disk.
    Range,
    /// The disk is read-only.
    ReadOnly,
    /// The device reported an I/O error.
    Device,
    Unsupported,
}

/// A request in flight, to be passed to [`Block::finish`].
#[derive(Debug, PartialEq, Eq)]
pub struct Token(u8);

pub struct Block {
    transport: Transport,
    queue: Queue,
    at: usize,
    free: u32,
    /// The result of a slot's request, once it has completed.
    done: [Option<Result<(), BlockError>>; SLOTS],
    slot_of: [u8; queue::ENTRIES],
    sectors: u64,
    read_only: bool,
    flushes: bool,
}

impl Block {
    /// Initializes the device.
    pub fn start<W: Words>(bus: &Bus<W>, device: &Device) -> Result<Self, InitError> {
        let wanted = FEATURE_READ_ONLY | FEATURE_FLUSH;
        let (mut transport, features, at) =
            Transport::open(bus, device, DEVICE_ID, MEMORY, wanted)?;
        let queue = transport.add_queue(bus, 0, at)?;
        transport.finish(bus)?;
        Ok(Block {
            transport,
            queue,
            at: at + queue::BYTES,
            free: (1 << SLOTS) - 1,
            done: [None; SLOTS],
            slot_of: [0; queue::ENTRIES],
            sectors: transport.config(bus, 0),
            read_only: features & FEATURE_READ_ONLY != 0,
            flushes: features & FEATURE_FLUSH != 0,
        })
    }

    /// Returns the size in sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Starts a request at `sector`. The caller waits for the interrupt and then calls
    /// [`Block::finish`].
    pub fn submit<W: Words>(
        &mut self,
        bus: &Bus<W>,
        sector: u64,
        request: Request,
    ) -> Result<Token, BlockError> {
        let (kind, bytes) = self.check(sector, request)?;
        if self.free == 0 {
            return Err(BlockError::Busy);
        }
        let slot = self.free.trailing_zeros() as usize;
        let at = self.at + slot * SLOT;
        bus.words.store(at, kind);
        bus.words.store(at + 8, sector);
        bus.words.store(at + 16, 0xff);
        if let Request::Write(data) = request {
            bytes::store_bytes(&bus.words, at + 64, data);
        }
        let pa = bus.window + at as u64;
        let chain = [
            Piece { address: pa, bytes: 16, device_writes: false },
            Piece { address: pa + 64, bytes, device_writes: kind == 0 },
            Piece { address: pa + 16, bytes: 1, device_writes: true },
        ];
        let head = if bytes == 0 {
            self.queue.submit(&bus.words, &[chain[0], chain[2]])
        } else {
            self.queue.submit(&bus.words, &chain)
        };
        let head = head.ok_or(BlockError::Busy)?;
        self.slot_of[head as usize] = slot as u8;
        self.free &= self.free - 1;
        self.transport.notify(bus);
        Ok(Token(slot as u8))
    }

    fn check(&self, sector: u64, request: Request) -> Result<(u64, u32), BlockError> {
        let (kind, bytes) = match request {
            Request::Read(bytes) => (0, bytes),
            Request::Write(_) if self.read_only => return Err(BlockError::ReadOnly),
            Request::Write(data) => (1, data.len()),
            Request::Flush if self.flushes => return Ok((4, 0)),
            Request::Flush => return Err(BlockError::Unsupported),
        };
        let end = sector.checked_add((bytes / SECTOR) as u64).ok_or(BlockError::Range)?;
        let whole = bytes != 0 && bytes % SECTOR == 0 && bytes <= BUFFER;
        if whole && end <= self.sectors { Ok((kind, bytes as u32)) } else { Err(BlockError::Range) }
    }

    /// Returns the result of a request if it has completed. The data of a read are copied to
    /// `into`.
    pub fn finish<W: Words>(
        &mut self,
        bus: &Bus<W>,
        token: &Token,
        into: &mut [u8],
    ) -> Option<Result<(), BlockError>> {
        while let Some(done) = self.queue.complete(&bus.words) {
            let slot = self.slot_of[done.head as usize] as usize;
            self.done[slot] = Some(match bus.words.load(self.at + slot * SLOT + 16) & 0xff {
                0 => Ok(()),
                2 => Err(BlockError::Unsupported),
                _ => Err(BlockError::Device),
            });
        }
        let slot = token.0 as usize;
        let result = self.done[slot].take()?;
        let length = into.len().min(BUFFER);
        bytes::load_bytes(&bus.words, self.at + slot * SLOT + 64, &mut into[..length]);
        self.free |= 1 << slot;
        Some(result)
    }
}
