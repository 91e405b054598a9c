//! Answers without a lock whether an access can concern the model: nearly none does.

use crate::entry::{PAGE, size};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Counters of pages; pages that share one are confused, which costs time only.
const PAGES: usize = 1 << 16;
/// Bytes above which a stale entry concerns every page.
const LARGE: u64 = 16 << 20;
/// In a frame's word: it is a table. The other bits count stale entries that refer to it.
const TABLE: u16 = 1 << 15;

/// What the model watches.
pub struct Filter {
    /// Cores with stores to tables or invalidations that no barrier has completed.
    unsettled: AtomicU64,
    stale: AtomicU32,
    /// Those that refer to memory.
    referring: AtomicU32,
    large: AtomicU32,
    pages: Vec<AtomicU16>,
    base: u64,
    frames: Vec<AtomicU16>,
}

impl Filter {
    /// Creates the filter of a model over `bytes` of RAM from physical address `base` on.
    pub fn new(base: u64, bytes: u64) -> Filter {
        let words = |count: usize| std::iter::repeat_with(AtomicU16::default).take(count).collect();
        Filter {
            unsettled: AtomicU64::new(0),
            stale: AtomicU32::new(0),
            referring: AtomicU32::new(0),
            large: AtomicU32::new(0),
            pages: words(PAGES),
            base,
            frames: words(bytes.div_ceil(PAGE) as usize),
        }
    }

    /// Returns whether any stale entry refers to memory.
    #[inline]
    pub fn has_referring(&self) -> bool {
        self.referring.load(Relaxed) != 0
    }

    /// Returns whether a core may hold a stale entry for `va`.
    #[inline]
    pub fn is_stale(&self, va: u64) -> bool {
        self.stale.load(Relaxed) != 0
            && (self.page(va).load(Relaxed) != 0 || self.large.load(Relaxed) != 0)
    }

    /// Returns whether a store to `pa` changes a table, or memory that a stale entry refers to.
    #[inline]
    pub fn is_watched(&self, pa: u64) -> bool {
        self.frame(pa).is_some_and(|frame| frame.load(Relaxed) != 0)
    }

    /// Returns whether a barrier of the core concerns the model.
    #[inline]
    pub fn is_unsettled(&self, core: usize) -> bool {
        self.unsettled.load(Relaxed) & 1 << (core as u64 % 64) != 0
    }

    /// Sets whether it does.
    pub(crate) fn settle(&self, core: usize, is: bool) {
        let bit = 1 << (core as u64 % 64);
        if is {
            self.unsettled.fetch_and(!bit, Relaxed)
        } else {
            self.unsettled.fetch_or(bit, Relaxed)
        };
    }

    /// Returns whether a stale entry refers to the memory at `pa`.
    pub(crate) fn is_referred(&self, pa: u64) -> bool {
        self.frame(pa).is_some_and(|frame| frame.load(Relaxed) & !TABLE != 0)
    }

    fn page(&self, va: u64) -> &AtomicU16 {
        &self.pages[(va / PAGE) as usize % PAGES]
    }

    fn frame(&self, pa: u64) -> Option<&AtomicU16> {
        self.frames.get((pa.wrapping_sub(self.base) / PAGE) as usize)
    }

    /// Adds (or removes) a stale entry of `level` for `va`, which refers to a range of memory.
    pub(crate) fn count(&self, va: u64, level: u32, memory: Option<(u64, u64)>, adds: bool) {
        let (step, wide) = if adds { (1, 1) } else { (u16::MAX, u32::MAX) };
        self.stale.fetch_add(wide, Relaxed);
        if size(level) > LARGE {
            self.large.fetch_add(wide, Relaxed);
        } else {
            let pages = (0..size(level)).step_by(PAGE as usize);
            for at in pages {
                self.page(va + at).fetch_add(step, Relaxed);
            }
        }
        let Some((pa, bytes)) = memory else { return };
        self.referring.fetch_add(wide, Relaxed);
        for at in (0..bytes).step_by(PAGE as usize) {
            if let Some(frame) = self.frame(pa + at) {
                frame.fetch_add(step, Relaxed);
            }
        }
    }

    /// Sets whether the frame at `pa` is a table.
    pub(crate) fn set_table(&self, pa: u64, is: bool) {
        if let Some(frame) = self.frame(pa) {
            if is {
                frame.fetch_or(TABLE, Relaxed)
            } else {
                frame.fetch_and(!TABLE, Relaxed)
            };
        }
    }
}
