//! Copies by the DMA engine. The engine accesses memory, not caches, so this module maintains them.
//!
//! ```text
//! clear destination -> clean source, clean and invalidate destination -> driver's step -> sleep
//!        interrupt -> the engine's words show the end -> invalidate destination -> acknowledge
//! ```
//! The destination is cleaned before the transfer, so that after a failure it contains zeroes and
//! not earlier contents of the memory. It is invalidated again afterwards, because a core may have
//! fetched lines of it meanwhile. Buffers consist of whole cache lines.
//!
//! The driver is a service (`dma::Dma`). Each kernel reads from the engine's words how its batches
//! ended. If a step is aborted because the driver's state was lost, it has announced nothing to the
//! engine, and the request is repeated. If the driver's home does not answer, all batches of this
//! kernel are aborted, and this kernel waits until the engine is done with them.

use crate::services::{Caller, Patience, ServiceFailure};
use crate::session::Failure;
use abi::dma::MAX_BYTES;
use alloc::vec::Vec;
use arch::cache;
use base::addr::{PhysAddr, VirtAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use dma::port::Port;
use dma::request::{Reply, Request, kind, told};
use dma::{BATCH, Outcome, Refusal, Seen, Ticket, Transfer};
use kernel_platform::Platform;
use zerocopy::IntoBytes;

/// Words in a cache line.
const WORDS: usize = cache::LINE / 8;

/// A cache line. Its words are atomics, because a device may write them while a core reads them.
#[repr(C, align(64))]
struct Line([AtomicU64; WORDS]);

const _: () = assert!(align_of::<Line>() == cache::LINE && size_of::<Line>() == cache::LINE);

impl Line {
    const fn zero() -> Line {
        Line([const { AtomicU64::new(0) }; WORDS])
    }
}

/// Memory for a device: whole cache lines, contiguous in physical memory.
pub struct Buffer(Vec<Line>);

impl Buffer {
    /// Allocates at least `bytes` bytes of zeroes. Returns `None` without memory.
    pub fn new(bytes: usize) -> Option<Buffer> {
        let (count, mut lines) = (bytes.div_ceil(cache::LINE), Vec::new());
        lines.try_reserve_exact(count).ok()?;
        lines.resize_with(count, Line::zero);
        Some(Buffer(lines))
    }

    /// Returns the size, a multiple of the cache line's.
    pub fn bytes(&self) -> usize {
        self.0.len() * cache::LINE
    }

    fn start(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Returns the physical address, which devices use.
    pub fn address(&self) -> PhysAddr {
        VirtAddr(self.start() as u64).to_phys()
    }

    /// Sets all bytes to zero.
    pub fn clear(&mut self) {
        // Word by word: `fill` would call a loop of three instructions per word.
        self.words().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Prepares for a device that reads the buffer.
    pub fn write_back(&self) {
        cache::clean(self.start(), self.bytes());
    }

    /// Prepares for a device that writes the buffer.
    pub fn hand_over(&self) {
        cache::clean_invalidate(self.start(), self.bytes());
    }

    /// Prepares for reading what a device has written. No line is dirty, because no core has
    /// written since [`Buffer::hand_over`], so clean-and-invalidate is equal to invalidate. It is
    /// used because Linux's driver in the lab does so, and because the lab also charges a plain
    /// invalidate for misses that may not happen.
    pub fn take_back(&self) {
        cache::clean_invalidate(self.start(), self.bytes());
    }

    /// Returns the words in order.
    pub fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        self.0.iter().flat_map(|line| &line.0)
    }

    /// Returns whether it contains the first `bytes` bytes of `other`, followed by zeroes only.
    pub fn holds(&self, other: &Buffer, bytes: usize) -> bool {
        let words = self.words().zip(other.words()).enumerate();
        words.fold(true, |good, (index, (mine, theirs))| {
            let wanted = bytes.saturating_sub(8 * index).min(8) as u32;
            let mask = u64::MAX.checked_shr(64 - 8 * wanted).unwrap_or(0);
            let [mine, theirs] = [mine, theirs].map(|word| word.load(Ordering::Relaxed));
            good && mine == theirs & mask
        })
    }
}

/// Why a transfer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaError {
    /// This board has no engine, or it did not start.
    NoEngine,
    /// No bytes, or more than the buffers or one batch can hold.
    Length,
    /// The engine refused.
    Refused(Refusal),
    /// The request to the driver failed.
    Driver(ServiceFailure),
}

impl DmaError {
    pub fn text(self) -> &'static str {
        match self {
            DmaError::NoEngine => "this kernel drives no DMA engine",
            DmaError::Length => "no bytes, or more than the buffers can hold",
            DmaError::Refused(why) => why.text(),
            DmaError::Driver(why) => why.text(),
        }
    }
}

impl From<DmaError> for Failure {
    fn from(error: DmaError) -> Self {
        Failure::Failed(error.text())
    }
}

/// Properties of the engine for this kernel.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Bit set of the channels that the driver uses.
    pub channels: u64,
    /// Time from the start of a transfer to its first byte.
    pub setup_ns: u64,
    /// Bandwidth of all channels together, in MB (10^6 bytes) per second.
    pub bandwidth_mbps: u64,
}

/// Clears `to` and copies the first `bytes` bytes of `from` there. The thread sleeps meanwhile.
pub fn copy(
    caller: &Caller,
    from: &Buffer,
    to: &mut Buffer,
    bytes: usize,
) -> Result<Outcome, DmaError> {
    let most = BATCH * MAX_BYTES as usize;
    if bytes == 0 || bytes > from.bytes().min(to.bytes()).min(most) {
        return Err(DmaError::Length);
    }
    let (mut batch, mut count) = ([Transfer::fill(0, 0, 0); BATCH], 0);
    for at in (0..bytes as u64).step_by(MAX_BYTES as usize) {
        let [source, destination] = [from.address().0 + at, to.address().0 + at];
        batch[count] = Transfer::copy(source, destination, MAX_BYTES.min(bytes as u64 - at));
        count += 1;
    }
    to.clear();
    from.write_back();
    to.hand_over();
    let outcome = transfer(caller, &mut batch[..count]);
    to.take_back();
    outcome
}

/// Has the engine execute a batch; the thread sleeps until it ends. The caller maintains the
/// caches. The error is that of the first transfer that failed; other transfers of the batch may
/// have been executed.
pub fn transfer(caller: &Caller, batch: &mut [Transfer]) -> Result<Outcome, DmaError> {
    let request = Request::counted(kind::SUBMIT, batch.len() as u32);
    caller.platform.devices.dma_pace(caller.platform, &port(caller.platform)?);
    let ticket = begin(caller, request, batch.as_mut_bytes())?;
    let outcome = end(caller, &ticket)?;
    taken(caller, &ticket)?;
    outcome.refused.map_or(Ok(outcome), |(_, why)| Err(DmaError::Refused(why)))
}

fn port(platform: &'static Platform) -> Result<Port<'static>, DmaError> {
    platform.devices.dma_port(platform).ok_or(DmaError::NoEngine)
}

fn ask(caller: &Caller, request: Request, bulk: &mut [u8]) -> Result<Reply, DmaError> {
    // A step that was aborted has announced nothing to the engine.
    let asked = caller.services.dma.ask_again(caller, request, bulk, &Patience::ENDLESS);
    asked.and_then(|reply| reply.ok_or(ServiceFailure::Nonsense)).map_err(DmaError::Driver)
}

/// Starts a batch, when there is room for it.
fn begin(caller: &Caller, request: Request, bulk: &mut [u8]) -> Result<Ticket, DmaError> {
    let port = port(caller.platform)?;
    let reply = match ask(caller, request, bulk) {
        Ok(reply) => reply,
        Err(why) => {
            break_off(caller, &port);
            return Err(why);
        }
    };
    match reply.kind {
        told::COUNT => Err(DmaError::Length),
        told::REFUSED => Err(DmaError::NoEngine),
        _ => Ticket::of(&reply).ok_or(DmaError::Driver(ServiceFailure::Nonsense)),
    }
}

/// Aborts all batches of this kernel and waits until the engine is done with them.
fn break_off(caller: &Caller, port: &Port<'static>) {
    // A driver that does not answer does not start batches either; those that run will end.
    let _ = ask(caller, Request::of(kind::ABANDON), &mut []);
    caller.platform.devices.dma_settle(caller.platform, port);
}

/// Waits until a batch ends.
fn end(caller: &Caller, ticket: &Ticket) -> Result<Outcome, DmaError> {
    let port = port(caller.platform)?;
    loop {
        match caller.platform.devices.dma_wait(caller.platform, &port, ticket) {
            Seen::Ended(outcome) => return Ok(outcome),
            Seen::Waiting => {}
            Seen::Broken => reopen(caller, ticket, &port)?,
        }
    }
}

fn reopen(caller: &Caller, ticket: &Ticket, port: &Port<'static>) -> Result<(), DmaError> {
    let request = Request::reopen(ticket.channel(), ticket.session());
    let asked = ask(caller, request, &mut []);
    if asked.is_err() {
        break_off(caller, port);
    }
    asked.map(|_| ())
}

/// Frees the descriptors of a batch whose outcome was read, and tells the driver if another kernel
/// waits for room.
fn taken(caller: &Caller, ticket: &Ticket) -> Result<(), DmaError> {
    let port = port(caller.platform)?;
    caller.platform.devices.dma_read(&port, ticket);
    if port.is_wanted(caller.platform.blob.domains().len()) {
        ask(caller, Request::of(kind::ROOM), &mut [])?;
    }
    Ok(())
}

/// Damages a ring of this kernel: announces `count` descriptors that were never written. Returns
/// when engine and driver have detected that, and the channel is open again.
pub fn damage(caller: &Caller, count: u32) -> Result<(), DmaError> {
    let request = Request::counted(kind::DAMAGE, count);
    let ticket = begin(caller, request, &mut [])?;
    let port = port(caller.platform)?;
    caller.platform.devices.dma_wait(caller.platform, &port, &ticket);
    reopen(caller, &ticket, &port)?;
    caller.platform.devices.dma_settle(caller.platform, &port);
    Ok(())
}

/// Returns the engine's properties; `None` without an engine.
pub fn engine(platform: &'static Platform) -> Option<Engine> {
    let port = port(platform).ok()?;
    let (setup_ns, bandwidth_mbps) = port.speed();
    let channels = port.ours().fold(0, |set, channel| set | 1 << channel);
    Some(Engine { channels, setup_ns, bandwidth_mbps })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(bytes: usize, value: u64) -> Buffer {
        let buffer = Buffer::new(bytes).unwrap();
        buffer.words().for_each(|word| word.store(value, Ordering::Relaxed));
        buffer
    }

    #[test]
    fn a_buffer_is_whole_cache_lines_of_zeroes() {
        let buffer = Buffer::new(cache::LINE + 1).unwrap();
        assert_eq!(buffer.bytes(), 2 * cache::LINE);
        assert!(buffer.address().is_aligned(cache::LINE as u64));
        assert!(buffer.words().all(|word| word.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn a_copy_is_complete_and_ends_where_it_should() {
        let (source, mut copy) = (filled(64, u64::MAX), filled(64, 0));
        assert!(copy.holds(&source, 0));
        assert!(!copy.holds(&source, 1), "a byte is missing");
        let words = |copy: &Buffer, values: [u64; 2]| {
            copy.words().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        };
        words(&copy, [u64::MAX, 0xff_ffff]);
        assert!(copy.holds(&source, 11));
        assert!(!copy.holds(&source, 10), "a byte too many");
        assert!(!copy.holds(&source, 12));
        copy.clear();
        assert!(copy.holds(&source, 0));
    }
}
