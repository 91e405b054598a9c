//! Planted bugs for the coherence sanitizer to find. Only in kernels built with the feature
//! `seeded`; `seed=NUMBER,ISA` on the board's command line selects the bug and the kernel that has
//! it.
//!
//! A bug disables something here or in [`crate::shared`]: cache maintenance, barriers, or the word
//! that publishes others.

use core::sync::atomic::{AtomicU64, Ordering};

use base::addr::{PAGE, PhysAddr};
use base::port::Frames;

use crate::imp;
use crate::mmu::PageTable;
use crate::types::{MapError, Memory, Rights};

/// The bugs by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Seed {
    /// Nothing is cleaned.
    NoClean = 1,
    /// Nothing is invalidated.
    NoInvalidate = 2,
    /// The last line of a range is not cleaned.
    ShortClean = 3,
    /// The last line of a range is not invalidated.
    ShortInvalidate = 4,
    /// The first line of a range is not cleaned.
    LateClean = 5,
    /// No barriers between domains: neither after maintenance nor before a word that publishes.
    NoBarrier = 6,
    /// Invalidate instead of clean.
    CleanDrops = 7,
    /// Clean instead of invalidate.
    InvalidateKeeps = 8,
    /// Neither clean nor invalidate where both are due.
    NoFlush = 9,
    /// Clean only where both are due, and never invalidate.
    FlushKeeps = 10,
    /// New code is not made visible to instruction fetches.
    NoSync = 11,
    /// Clean before the write instead of after it.
    EarlyClean = 12,
    /// Invalidate, and read again, before the other domain's change instead of after it.
    EarlyInvalidate = 13,
    /// Write before the other domain has published its changes.
    EarlyWrite = 14,
    /// Write a word without reading or invalidating its line.
    BlindWrite = 15,
    /// Write another word of the last line after the line was handed over.
    FalseSharing = 16,
    /// Read-modify-write a word that both domains cache.
    Atomic = 17,
    /// Compare-and-exchange such a word.
    Exclusive = 18,
    /// Publish a word with a swap, outside of the spinlock bank.
    SwapPublish = 19,
}

static CHOSEN: AtomicU64 = AtomicU64::new(0);

/// Returns whether this kernel has the bug.
pub fn is(seed: Seed) -> bool {
    CHOSEN.load(Ordering::Relaxed) == seed as u64
}

/// Selects the bug that the command line names, if it is for this ISA.
pub fn choose(arguments: &str) {
    let isa = abi::boot::isa::name(imp::cpu::ISA);
    let word = arguments.split_whitespace().find_map(|word| word.strip_prefix("seed="));
    let chosen = word.and_then(|word| word.split_once(',')).filter(|(_, name)| *name == isa);
    let number = chosen.and_then(|(number, _)| number.parse().ok()).unwrap_or(0);
    CHOSEN.store(number, Ordering::Relaxed);
}

/// Cache maintenance with the selected bug; the contract's `cache` otherwise.
pub mod cache {
    use super::imp::cache as real;
    pub use super::imp::cache::LINE;
    use super::{Seed, is};

    pub fn clean(va: usize, bytes: usize) {
        match () {
            () if is(Seed::NoClean) => {}
            () if is(Seed::ShortClean) => real::clean(va, bytes.saturating_sub(LINE)),
            () if is(Seed::LateClean) => real::clean(va + LINE, bytes.saturating_sub(LINE)),
            () if is(Seed::CleanDrops) => real::invalidate(va, bytes),
            () => real::clean(va, bytes),
        }
    }

    pub fn invalidate(va: usize, bytes: usize) {
        match () {
            () if is(Seed::NoInvalidate) || is(Seed::FlushKeeps) => {}
            () if is(Seed::ShortInvalidate) => real::invalidate(va, bytes.saturating_sub(LINE)),
            () if is(Seed::InvalidateKeeps) => real::clean(va, bytes),
            () => real::invalidate(va, bytes),
        }
    }

    pub fn clean_invalidate(va: usize, bytes: usize) {
        match () {
            () if is(Seed::NoFlush) => {}
            () if is(Seed::FlushKeeps) => real::clean(va, bytes),
            () => real::clean_invalidate(va, bytes),
        }
    }

    pub fn sync_code(va: usize, bytes: usize) {
        if !is(Seed::NoSync) {
            real::sync_code(va, bytes);
        }
    }
}

/// A page that every kernel maps cacheable, against the rules: only cache maintenance keeps it
/// consistent between domains.
#[derive(Clone, Copy, Debug)]
pub struct SharedPage {
    words: &'static [AtomicU64],
}

impl SharedPage {
    /// Maps `page` forever. It must not be mapped in this kernel.
    pub fn map(
        table: &mut PageTable,
        frames: &dyn Frames,
        page: PhysAddr,
    ) -> Result<SharedPage, MapError> {
        let at = page.to_virt();
        table.map(frames, at, page, PAGE, Memory::Cached, Rights::ReadWrite)?;
        // SAFETY: mapped above, forever, and accessed only as atomic words.
        let words = unsafe { core::slice::from_raw_parts(at.0 as *const AtomicU64, 512) };
        Ok(SharedPage { words })
    }

    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// Returns its virtual address.
    pub fn start(&self) -> usize {
        self.words.as_ptr() as usize
    }
}

/// The return instruction.
const RETURN: u32 = if imp::cpu::ISA == abi::boot::isa::AARCH64 { 0xd65f_03c0 } else { 0x8067 };

/// Writes a function to `page`, which must not be mapped in this kernel, and calls it.
pub fn run_code(
    table: &mut PageTable,
    frames: &dyn Frames,
    page: PhysAddr,
) -> Result<(), MapError> {
    let at = page.to_virt();
    let shared = SharedPage::map(table, frames, page)?;
    shared.words[0].store(u64::from(RETURN), Ordering::Relaxed);
    cache::sync_code(shared.start(), 4);
    table.unmap(at, PAGE)?;
    table.map(frames, at, page, PAGE, Memory::Cached, Rights::ReadExecute)?;
    // SAFETY: the page holds a function of this ISA that returns at once, mapped executable.
    let function: extern "C" fn() = unsafe { core::mem::transmute(at.0 as *const ()) };
    function();
    Ok(())
}
