//! Seeded bugs for the coherence sanitizer to find, with its model of TLBs, and one for the lab's
//! crash points. Only in kernels built with the feature `seeded`; `seed=NUMBER,ISA` on the board's
//! command line selects the bug and the kernel that has it.
//!
//! A bug disables something in [`cache`], in [`crate::shared`] or in the page table: cache
//! maintenance, barriers, the word that publishes others, or TLB invalidations.

pub mod cache;
pub mod page;

use core::sync::atomic::{AtomicU64, Ordering};

use crate::imp;

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
    /// Publish a word with an atomic swap.
    SwapPublish = 19,
    /// Maintenance that a thread has begun on one core is not completed before it continues on
    /// another.
    NoComplete = 20,
    /// A range is not flushed from the TLB.
    NoTlbFlush = 21,
    /// The last page of a range is not flushed.
    ShortTlbFlush = 22,
    /// A range is flushed on this core only, where the other cores need it, too.
    LocalTlbFlush = 23,
    /// No barrier completes the invalidation.
    NoTlbComplete = 24,
    /// No barrier completes the store to the table before the invalidation.
    EarlyTlbFlush = 25,
    /// An invalidation leaves cached walks, though a table was unlinked.
    KeptWalks = 26,
    /// A table is linked with no barrier after its entries.
    BareTable = 27,
    /// A mapping is replaced by another one directly.
    Overwrite = 28,
    /// Core 2 does not flush ranges when it is asked to.
    SkippedCore = 29,
    /// A page is not flushed after its fault.
    NoFaultFlush = 30,
    /// Pages that a dead kernel took with it are not made accessible again; by `kernel/services`.
    NoMend = 31,
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
