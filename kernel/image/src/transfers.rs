//! Copies by the DMA engine, which reads and writes memory and knows nothing of our caches.
//!
//! ```text
//! clear destination -> clean source, clean and drop destination -> the driver's step -> sleep
//!                    interrupt -> the engine's words: it ended -> drop destination -> taken
//! ```
//! The destination is written back before it is dropped, so that a transfer that fails leaves
//! zeroes there and not what the memory held before; it is dropped again afterwards, because a core
//! may have fetched lines of it meanwhile. Both are whole lines: nothing else shares them.
//!
//! The driver is a service (`dma::Dma`), in the mode that the board chose; how a batch ended each
//! kernel reads from the engine's words. A step that was given up with the driver's state has
//! announced nothing, and is asked again; behind a home that does not answer all that is under way
//! for this kernel is broken off, and awaited.

use crate::platform::Platform;
use crate::services::{Caller, ServiceFailure};
use crate::session::Failure;
use abi::dma::MAX_BYTES;
use alloc::vec::Vec;
use arch::cache;
use base::addr::{PhysAddr, VirtAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use dma::port::Port;
use dma::request::{Reply, Request, kind, told};
use dma::{BATCH, Outcome, Refusal, Seen, Ticket, Transfer};
use zerocopy::IntoBytes;

/// How often a broken step is made good before this gives up.
const TRIES: usize = 8;

/// Words of a cache line.
const WORDS: usize = cache::LINE / 8;

/// A cache line, which a device may write while we look at it.
#[repr(C, align(64))]
struct Line([AtomicU64; WORDS]);

const _: () = assert!(align_of::<Line>() == cache::LINE && size_of::<Line>() == cache::LINE);

impl Line {
    const fn zero() -> Line {
        Line([const { AtomicU64::new(0) }; WORDS])
    }
}

/// Memory that a device can reach: whole cache lines, one behind the other in physical memory.
pub struct Buffer(Vec<Line>);

impl Buffer {
    /// At least `bytes` bytes, all zero; `None` without memory.
    pub fn new(bytes: usize) -> Option<Buffer> {
        let (count, mut lines) = (bytes.div_ceil(cache::LINE), Vec::new());
        lines.try_reserve_exact(count).ok()?;
        lines.resize_with(count, Line::zero);
        Some(Buffer(lines))
    }

    /// Bytes, whole lines.
    pub fn bytes(&self) -> usize {
        self.0.len() * cache::LINE
    }

    fn start(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Where devices see it.
    pub fn address(&self) -> PhysAddr {
        VirtAddr(self.start() as u64).to_phys()
    }

    /// All zero.
    pub fn clear(&mut self) {
        // Store by store: as a whole it becomes a call of a loop with three instructions a word.
        self.words().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Gives it to a device that reads it.
    pub fn write_back(&self) {
        cache::clean(self.start(), self.bytes());
    }

    /// Gives it to a device that writes it.
    pub fn hand_over(&self) {
        cache::clean_invalidate(self.start(), self.bytes());
    }

    /// Takes it back from a device that wrote it. No line of it is dirty, for nobody else has it:
    /// so it is dropped by the instruction that handed it over, as Linux's driver in the lab does,
    /// where dropping alone is charged with the misses of a reader that need not come.
    pub fn take_back(&self) {
        cache::clean_invalidate(self.start(), self.bytes());
    }

    /// Its words, in order.
    pub fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        self.0.iter().flat_map(|line| &line.0)
    }

    /// Does it hold the first `bytes` bytes of `other`, and only zeroes behind them?
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

/// Why a transfer was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaError {
    /// This board has no engine, or it did not start.
    NoEngine,
    /// Nothing, or more than the buffers or one batch can hold.
    Length,
    /// The engine refused.
    Refused(Refusal),
    /// The driver did not answer.
    Driver(ServiceFailure),
}

impl DmaError {
    /// For people.
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

/// The engine, as this kernel sees it.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Its channels that the driver uses here, as a bit set.
    pub channels: u64,
    /// From the start of a transfer to its first byte.
    pub setup_ns: u64,
    /// MB (10^6 bytes) a second, all channels together.
    pub bandwidth_mbps: u64,
}

/// Clears `to` and copies the first `bytes` bytes of `from` there; sleeps meanwhile.
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

/// Has the engine carry out a batch; sleeps until it is through. Caches are the caller's
/// business. An error is that of the first transfer that was not done; the others were.
pub fn transfer(caller: &Caller, batch: &mut [Transfer]) -> Result<Outcome, DmaError> {
    let request = Request::counted(kind::SUBMIT, batch.len() as u32);
    let ticket = begin(caller, request, batch.as_mut_bytes())?;
    let outcome = end(caller, &ticket)?;
    taken(caller, &ticket)?;
    outcome.refused.map_or(Ok(outcome), |(_, why)| Err(DmaError::Refused(why)))
}

fn port(platform: &'static Platform) -> Result<Port<'static>, DmaError> {
    platform.devices.dma_port(platform).ok_or(DmaError::NoEngine)
}

fn ask(caller: &Caller, request: Request, bulk: &mut [u8]) -> Result<Reply, DmaError> {
    let mut tries = 0;
    loop {
        let asked = caller.services.dma.ask(caller, request, bulk);
        tries += 1;
        match asked {
            // The state was lost before anything was announced.
            Err(ServiceFailure::Restarted) if tries < TRIES => {}
            asked => return asked.map_err(DmaError::Driver),
        }
    }
}

/// Waits for room, and begins a batch.
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

/// Whatever the driver began for this kernel is over when this returns.
fn break_off(caller: &Caller, port: &Port<'static>) {
    // Where nobody answers, nobody announces either: what was announced ends by itself.
    let _ = ask(caller, Request::of(kind::ABANDON), &mut []);
    caller.platform.devices.dma_settle(caller.platform, port);
}

/// Waits for the end of a batch.
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

/// An outcome was read: its descriptors are free, for somebody who waits for that.
fn taken(caller: &Caller, ticket: &Ticket) -> Result<(), DmaError> {
    let port = port(caller.platform)?;
    caller.platform.devices.dma_read(&port, ticket);
    if port.is_wanted(caller.platform.blob.domains().len()) {
        ask(caller, Request::of(kind::ROOM), &mut [])?;
    }
    Ok(())
}

/// Damages a ring of ours: announces `count` descriptors that were never written. Returns when
/// engine and driver have found out, and the channel is open again.
pub fn damage(caller: &Caller, count: u32) -> Result<(), DmaError> {
    let request = Request::counted(kind::DAMAGE, count);
    let ticket = begin(caller, request, &mut [])?;
    let port = port(caller.platform)?;
    caller.platform.devices.dma_wait(caller.platform, &port, &ticket);
    reopen(caller, &ticket, &port)?;
    caller.platform.devices.dma_settle(caller.platform, &port);
    Ok(())
}

/// What there is; `None` without an engine.
pub fn engine(platform: &'static Platform) -> Option<Engine> {
    let port = port(platform).ok()?;
    let (setup_ns, bandwidth_mbps) = port.speed();
    let channels = port.ours().fold(0, |set, channel| set | 1 << channel);
    Some(Engine { channels, setup_ns, bandwidth_mbps })
}
