//! Copies by the DMA engine, which reads and writes memory and knows nothing of our caches.
//!
//! ```text
//! clear destination -> clean source, clean and drop destination -> submit -> sleep
//!                                              interrupt -> drop destination -> slots are free
//! ```
//! The destination is written back before it is dropped, so that a transfer that fails leaves
//! zeroes there and not what the memory held before; it is dropped again afterwards, because a core
//! may have fetched lines of it meanwhile. Both are whole lines: nothing else shares them.

use super::{Devices, bus};
use crate::kernel::Kernel;
use abi::dma::MAX_BYTES;
use alloc::vec::Vec;
use arch::cache;
use base::addr::{PhysAddr, VirtAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use drivers::dma::{BATCH, Outcome, Refusal, SubmitError, Ticket, Transfer};

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
}

impl DmaError {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            DmaError::NoEngine => "this kernel drives no DMA engine",
            DmaError::Length => "no bytes, or more than the buffers can hold",
            DmaError::Refused(why) => why.text(),
        }
    }
}

/// The engine, as this kernel sees it.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Its channels that are ours, as a bit set.
    pub channels: u64,
    /// From the start of a transfer to its first byte.
    pub setup_ns: u64,
    /// MB (10^6 bytes) a second, all channels together.
    pub bandwidth_mbps: u64,
}

impl Devices {
    /// Clears `to` and copies the first `bytes` bytes of `from` there; sleeps meanwhile.
    pub fn dma_copy(
        &self,
        kernel: &'static Kernel,
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
        let outcome = self.dma_transfer(kernel, &batch[..count]);
        to.take_back();
        outcome
    }

    /// Has the engine carry out a batch; sleeps until it is through. Caches are the caller's
    /// business. An error is that of the first transfer that was not done; the others were.
    pub fn dma_transfer(
        &self,
        kernel: &'static Kernel,
        batch: &[Transfer],
    ) -> Result<Outcome, DmaError> {
        let mut ticket = Some(self.dma_submit(kernel, batch)?);
        let mut outcome = None;
        kernel.scheduler.wait(&self.dma.waiting, || {
            if let (Some(dma), Some(waiting)) = (&mut *self.dma.driver.lock(), ticket.take()) {
                match dma.finish(&bus(kernel), waiting) {
                    Ok(ended) => outcome = Some(ended),
                    Err(waiting) => ticket = Some(waiting),
                }
            }
            outcome.is_some()
        });
        // There is room now, for somebody who waits for that.
        self.dma.waiting.wake_all(&kernel.scheduler);
        let outcome = outcome.ok_or(DmaError::NoEngine)?;
        outcome.refused.map_or(Ok(outcome), |(_, why)| Err(DmaError::Refused(why)))
    }

    /// Waits for room.
    fn dma_submit(&self, kernel: &'static Kernel, batch: &[Transfer]) -> Result<Ticket, DmaError> {
        let mut result = Err(DmaError::NoEngine);
        kernel.scheduler.wait(&self.dma.waiting, || {
            let Some(dma) = &mut *self.dma.driver.lock() else { return true };
            match dma.submit(&bus(kernel), batch) {
                Ok(ticket) => result = Ok(ticket),
                Err(SubmitError::Count) => result = Err(DmaError::Length),
                Err(SubmitError::Busy) => return false,
            }
            true
        });
        result
    }

    /// Damages a ring of ours: announces `count` descriptors that were never written. Returns when
    /// engine and driver have found out; the channel is opened anew meanwhile.
    pub fn dma_damage(&self, kernel: &'static Kernel, count: u32) -> Result<(), DmaError> {
        let mut before = None;
        kernel.scheduler.wait(&self.dma.waiting, || {
            let Some(dma) = &mut *self.dma.driver.lock() else { return true };
            if before.is_none() {
                dma.damage(&bus(kernel), count);
            }
            let before = *before.get_or_insert(dma.broken);
            dma.poll(&bus(kernel));
            dma.broken != before
        });
        before.map(|_| ()).ok_or(DmaError::NoEngine)
    }

    /// What there is; `None` without an engine.
    pub fn dma_engine(&self, kernel: &Kernel) -> Option<Engine> {
        let driver = self.dma.driver.lock();
        let dma = driver.as_ref()?;
        let (setup_ns, bandwidth_mbps) = dma.speed(&bus(kernel));
        let channels = dma.channels().fold(0, |set, channel| set | 1 << channel);
        Some(Engine { channels, setup_ns, bandwidth_mbps })
    }
}
