//! Planted bugs, for the coherence sanitizer to find. Only in kernels built with the feature
//! `seeded`; the board's command line says which bug (`seed=NUMBER,ISA`), and the kernel of that
//! ISA has it. Nothing of this is in any other kernel.
//!
//! What a bug removes is removed here or in [`crate::shared`]: the maintenance functions behind
//! [`cache`], the barriers, the word that announces others.

use core::sync::atomic::{AtomicU64, Ordering};

use base::addr::{PAGE, PhysAddr};
use base::port::Frames;

use crate::imp;
use crate::mmu::PageTable;
use crate::types::{MapError, Memory, Rights};

/// The bugs, by their numbers.
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
    /// No barrier between domains: neither behind maintenance nor before a word that announces.
    NoBarrier = 6,
    /// What should be cleaned is invalidated.
    CleanDrops = 7,
    /// What should be invalidated is cleaned.
    InvalidateKeeps = 8,
    /// What should be cleaned and invalidated is neither.
    NoFlush = 9,
    /// What should be cleaned and invalidated is cleaned only, and nothing is invalidated.
    FlushKeeps = 10,
    /// Written code is not made visible to instruction fetches.
    NoSync = 11,
    /// Cleaned first, written then.
    EarlyClean = 12,
    /// Invalidated, and read again, before the other may change it.
    EarlyInvalidate = 13,
    /// Written before the other has announced its changes.
    EarlyWrite = 14,
    /// A word is written without a look at the line, or an invalidate.
    BlindWrite = 15,
    /// Another word of the last line is written after it was handed over.
    FalseSharing = 16,
    /// A read-modify-write counts in what both domains hold.
    Atomic = 17,
    /// A compare-and-exchange does so.
    Exclusive = 18,
    /// A word between domains is changed by a swap, outside of the spinlock bank.
    SwapPublish = 19,
}

static CHOSEN: AtomicU64 = AtomicU64::new(0);

/// Has this kernel the bug?
pub fn is(seed: Seed) -> bool {
    CHOSEN.load(Ordering::Relaxed) == seed as u64
}

/// Chooses the bug that the command line names, if it is for this ISA.
pub fn choose(arguments: &str) {
    let isa = abi::boot::isa::name(imp::cpu::ISA);
    let word = arguments.split_whitespace().find_map(|word| word.strip_prefix("seed="));
    let chosen = word.and_then(|word| word.split_once(',')).filter(|(_, name)| *name == isa);
    let number = chosen.and_then(|(number, _)| number.parse().ok()).unwrap_or(0);
    CHOSEN.store(number, Ordering::Relaxed);
}

/// Cache maintenance with its bugs; the contract's `cache` otherwise.
pub mod cache {
    use super::imp::cache as real;
    pub use super::imp::cache::LINE;
    use super::{Seed, is};

    /// Writes dirty lines back.
    pub fn clean(va: usize, bytes: usize) {
        match () {
            () if is(Seed::NoClean) => {}
            () if is(Seed::ShortClean) => real::clean(va, bytes.saturating_sub(LINE)),
            () if is(Seed::LateClean) => real::clean(va + LINE, bytes.saturating_sub(LINE)),
            () if is(Seed::CleanDrops) => real::invalidate(va, bytes),
            () => real::clean(va, bytes),
        }
    }

    /// Drops lines.
    pub fn invalidate(va: usize, bytes: usize) {
        match () {
            () if is(Seed::NoInvalidate) || is(Seed::FlushKeeps) => {}
            () if is(Seed::ShortInvalidate) => real::invalidate(va, bytes.saturating_sub(LINE)),
            () if is(Seed::InvalidateKeeps) => real::clean(va, bytes),
            () => real::invalidate(va, bytes),
        }
    }

    /// Writes dirty lines back and drops them.
    pub fn clean_invalidate(va: usize, bytes: usize) {
        match () {
            () if is(Seed::NoFlush) => {}
            () if is(Seed::FlushKeeps) => real::clean(va, bytes),
            () => real::clean_invalidate(va, bytes),
        }
    }

    /// Makes instructions written at `va` the ones that this domain's cores execute.
    pub fn sync_code(va: usize, bytes: usize) {
        if !is(Seed::NoSync) {
            real::sync_code(va, bytes);
        }
    }
}

/// A page that every kernel maps cacheable, against the rules, so that only maintenance keeps what
/// domains see of it in order.
#[derive(Clone, Copy, Debug)]
pub struct Ground {
    words: &'static [AtomicU64],
}

impl Ground {
    /// Maps `page` for ever; nobody else has mapped it in this kernel.
    pub fn map(
        table: &mut PageTable,
        frames: &dyn Frames,
        page: PhysAddr,
    ) -> Result<Ground, MapError> {
        let at = page.to_virt();
        table.map(frames, at, page, PAGE, Memory::Cached, Rights::ReadWrite)?;
        // SAFETY: mapped above, for ever, and only ever seen as atomic words.
        let words = unsafe { core::slice::from_raw_parts(at.0 as *const AtomicU64, 512) };
        Ok(Ground { words })
    }

    /// Its words.
    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// Address of its first byte.
    pub fn start(&self) -> usize {
        self.words.as_ptr() as usize
    }
}

/// A function that returns at once.
const RETURN: u32 = if imp::cpu::ISA == abi::boot::isa::AARCH64 { 0xd65f_03c0 } else { 0x8067 };

/// Writes a function to `page`, which nobody has mapped in this kernel, and calls it.
pub fn run_code(
    table: &mut PageTable,
    frames: &dyn Frames,
    page: PhysAddr,
) -> Result<(), MapError> {
    let at = page.to_virt();
    let ground = Ground::map(table, frames, page)?;
    ground.words[0].store(u64::from(RETURN), Ordering::Relaxed);
    cache::sync_code(ground.start(), 4);
    table.unmap(at, PAGE)?;
    table.map(frames, at, page, PAGE, Memory::Cached, Rights::ReadExecute)?;
    // SAFETY: the page holds a function of this ISA that returns at once, and may be executed.
    let function: extern "C" fn() = unsafe { core::mem::transmute(at.0 as *const ()) };
    function();
    Ok(())
}
