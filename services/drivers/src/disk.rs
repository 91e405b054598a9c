//! The disk: virtio block, with at most [`SLOTS`] requests in flight.
//!
//! - A READ or WRITE moves at most [`BUFFER`] bytes and at most what bulk holds, in whole sectors;
//!   [`Reply::filled`] or [`Reply::taken`] says how many. The caller asks again for the rest.
//! - Data pass through buffers in the device's memory in the uncached window. The step that begins
//!   a WRITE copies its data there; the data of a READ are copied to the caller when it asks again.
//! - A completed write is durable only after a flush that was issued later has completed.
//! - If the device is opened again, requests without a result are repeated from the start. So a
//!   write may be carried out twice before its caller gets the reply: no other caller may write
//!   the same sectors until then.
//! - A request waits for a write in flight to the same sectors. So a write whose caller is gone
//!   cannot overtake its repetition, even if the driver has not heard of the death yet. A write
//!   does not wait for a read: that the read finds old or new data is its caller's affair.
//! - Once the file service has started again, no write of its earlier life reaches the disk: see
//!   [`lives`].

use crate::driver::{Call, Collected, Driven, Driver};
use crate::request::{Reply, Request, flag, kind, told};
use crate::slots::{Slot, Slots};
use crate::waiters::{Ready, Wait, Waiters};
use abi::soc::QueueRegisters;
use base::bytes;
use share::{Device, Token};
use virtio::queue::{self, Piece, Queue};
use virtio::transport::{Needs, Registers};

mod lives;

pub use lives::mutant;

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

const _: () = assert!(SLOTS * queue::MAX_CHAIN <= queue::ENTRIES);

/// Codes of the device.
mod code {
    pub const READ: u64 = 0;
    pub const WRITE: u64 = 1;
    pub const FLUSH: u64 = 4;
    pub const OK: u64 = 0;
    pub const UNSUPPORTED: u64 = 2;
}

/// The service.
pub type Disk = Driven<Block>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// The device has its request.
    Done,
    /// All slots are in use.
    Slot,
    /// This slot has a write to the same sectors.
    Overlap(usize),
    /// The device has writes of older lives of the file service than this.
    OlderWrites(u64),
}

/// A request as the device gets it.
#[derive(Clone, Copy, Debug, Default)]
struct Job {
    code: u64,
    sector: u64,
    bytes: usize,
    /// [`Request::life`].
    life: u64,
}

impl Job {
    /// Returns how many bytes the device writes: the data of a read, and the status.
    fn device_writes(&self) -> u32 {
        let data = if self.code == code::READ { self.bytes as u32 } else { 0 };
        data + 1
    }

    fn overlaps(&self, other: &Job) -> bool {
        let end = |job: &Job| job.sector.saturating_add((job.bytes / SECTOR) as u64);
        self.sector < end(other) && other.sector < end(self)
    }
}

/// The driver's own state. Tests plant a [`mutant`] in it.
#[derive(Debug)]
pub struct Block<const MUTANT: u8 = { mutant::NONE }> {
    queue: Option<Queue>,
    slots: Slots<SLOTS>,
    jobs: [Job; SLOTS],
    sectors: u64,
    read_only: bool,
    flushes: bool,
}

fn slot_at(device: &Device<'_>, slot: usize) -> usize {
    device.memory + queue::BYTES + slot * SLOT
}

impl<const MUTANT: u8> Block<MUTANT> {
    fn about(&self) -> Reply {
        let flags = if self.read_only { flag::READ_ONLY } else { 0 };
        Reply { flags, value: self.sectors, ..Reply::of(told::DONE) }
    }

    /// Returns what the device is to do for a request whose bulk has `room` bytes, or why the
    /// request is refused.
    fn check(&self, request: &Request, room: usize) -> Result<Job, u32> {
        let (sector, length, life) = (request.at, request.length as usize, request.life);
        let code = match request.kind {
            kind::READ => code::READ,
            kind::WRITE if self.read_only => return Err(told::READ_ONLY),
            kind::WRITE => code::WRITE,
            kind::FLUSH if self.flushes => {
                return Ok(Job { code: code::FLUSH, life, ..Job::default() });
            }
            kind::FLUSH => return Err(told::UNSUPPORTED),
            _ => return Err(told::REFUSED),
        };
        let bytes = length.min(room).min(BUFFER) / SECTOR * SECTOR;
        let end = sector.checked_add((length / SECTOR) as u64).ok_or(told::RANGE)?;
        if bytes == 0 || !length.is_multiple_of(SECTOR) || end > self.sectors {
            return Err(told::RANGE);
        }
        Ok(Job { code, sector, bytes, life })
    }

    /// Returns the slot of a write in flight to sectors of `job`.
    fn overlap(&self, job: &Job) -> Option<usize> {
        (0..SLOTS).find(|slot| self.is_writing(*slot) && self.jobs[*slot].overlaps(job))
    }

    fn is_writing(&self, slot: usize) -> bool {
        matches!(self.slots.get(slot), Slot::Busy(_)) && self.jobs[slot].code == code::WRITE
    }

    /// Returns whether a write of a known older life than `life` is in flight.
    fn has_older_writes(&self, life: u64) -> bool {
        (0..SLOTS).any(|slot| self.is_writing(slot) && (1..life).contains(&self.jobs[slot].life))
    }

    /// Gives a job to the device in a free slot.
    fn submit(
        &mut self,
        device: &Device<'_>,
        (slot, token): (usize, Token),
        job: Job,
        data: &[u8],
    ) -> Option<()> {
        let at = slot_at(device, slot);
        device.words.store(at, job.code);
        device.words.store(at + 8, job.sector);
        device.words.store(at + 16, 0xff);
        if job.code == code::WRITE {
            bytes::store_bytes(&device.words, at + 64, data.get(..job.bytes)?);
        }
        let (pa, bytes) = (device.window + at as u64, job.bytes as u32);
        let head = Piece { address: pa, bytes: 16, device_writes: false };
        let data = Piece { address: pa + 64, bytes, device_writes: job.code == code::READ };
        let status = Piece { address: pa + 16, bytes: 1, device_writes: true };
        let queue = self.queue.as_mut()?;
        let head = if bytes == 0 {
            queue.submit(&device.words, &[head, status])?
        } else {
            queue.submit(&device.words, &[head, data, status])?
        };
        self.jobs[slot] = job;
        self.slots.begin(slot, token, head);
        Registers(device).notify();
        Some(())
    }

    /// Returns the result in a slot, of which the device has written `written` bytes, with the data
    /// of a read; frees the slot.
    fn finish(
        &mut self,
        device: &Device<'_>,
        (slot, written): (usize, u32),
        bulk: &mut [u8],
    ) -> Reply {
        let (at, job) = (slot_at(device, slot), self.jobs[slot]);
        let told = match device.words.load(at + 16) & 0xff {
            // Else the buffer has bytes of an earlier request.
            code::OK if written < job.device_writes() => told::FAILED,
            code::OK => told::DONE,
            code::UNSUPPORTED => told::UNSUPPORTED,
            _ => told::FAILED,
        };
        self.slots.release(slot);
        let mut reply = Reply::of(told);
        let bytes = job.bytes.min(bulk.len());
        match job.code {
            _ if told != told::DONE => {}
            code::READ => {
                bytes::load_bytes(&device.words, at + 64, &mut bulk[..bytes]);
                reply.filled = bytes as u32;
            }
            _ => reply.taken = job.bytes as u32,
        }
        reply
    }
}

impl<const MUTANT: u8> Driver for Block<MUTANT> {
    type For = For;
    const NAME: &'static str = "disk";
    const NEEDS: Needs =
        Needs { id: DEVICE_ID, memory: MEMORY, features: FEATURE_READ_ONLY | FEATURE_FLUSH };

    fn start(_: u32) -> Self {
        Block {
            queue: None,
            slots: Slots::new(),
            jobs: [Job::default(); SLOTS],
            sectors: 0,
            read_only: false,
            flushes: false,
        }
    }

    fn place_queues(&mut self, device: &Device<'_>) -> [QueueRegisters; 2] {
        let queue = self.queue.insert(Queue::new(&device.words, device.memory));
        self.slots.drop_busy();
        [queue.place(device.window), QueueRegisters::default()]
    }

    fn opened(&mut self, device: &Device<'_>, features: u64) {
        self.sectors = Registers(device).config(0);
        self.read_only = features & FEATURE_READ_ONLY != 0;
        self.flushes = features & FEATURE_FLUSH != 0;
    }

    fn collect(&mut self, device: &Device<'_>) -> Collected {
        self.slots.collect(&mut self.queue, device)
    }

    fn refuses(&self, device: &Device<'_>, request: &Request) -> Option<u32> {
        let is_current = lives::record::<MUTANT>(device, request.life);
        (!is_current).then_some(told::OLD)
    }

    fn asked(
        &mut self,
        device: &Device<'_>,
        call: Call<'_>,
        waiters: &Waiters<For>,
    ) -> Result<Reply, For> {
        let Call { now, token, request, bulk, .. } = call;
        match self.slots.of(token) {
            Some((slot, Slot::Done(_, written))) => {
                return Ok(self.finish(device, (slot, written), bulk));
            }
            Some(_) => return Err(For::Done),
            None => {}
        }
        if MUTANT != mutant::NO_WAIT && self.has_older_writes(request.life) {
            return Err(For::OlderWrites(request.life));
        }
        if request.kind == kind::ABOUT {
            return Ok(self.about());
        }
        let job = match self.check(request, bulk.len()) {
            Ok(job) => job,
            Err(told) => return Ok(Reply::of(told)),
        };
        if let Some(slot) = self.overlap(&job) {
            return Err(For::Overlap(slot));
        }
        // Callers that were woken for a slot get it.
        if self.slots.free() <= waiters.coming(now, Wait::For(For::Slot), token) {
            return Err(For::Slot);
        }
        let Some(slot) = self.slots.first_free() else { return Err(For::Slot) };
        match self.submit(device, (slot, token), job, bulk) {
            Some(()) => Err(For::Done),
            None => Ok(Reply::of(told::FAILED)),
        }
    }

    fn forget(&mut self, gone: &dyn Fn(Token) -> bool) {
        self.slots.forget(gone);
    }

    fn ready(&self, token: Token, wait: For) -> Ready {
        match wait {
            For::Done if self.slots.is_busy(token) => Ready::No,
            For::Overlap(slot) if self.is_writing(slot) => Ready::No,
            For::OlderWrites(life) if self.has_older_writes(life) => Ready::No,
            For::Done | For::Overlap(_) | For::OlderWrites(_) => Ready::All,
            For::Slot => Ready::Oldest(self.slots.free()),
        }
    }
}
