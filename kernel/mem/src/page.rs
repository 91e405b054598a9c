//! Single frames that their holder can move.

use base::addr::PhysAddr;
use base::port::Frames;

use crate::cache::MemoryManager;
use crate::raw::{self, Word};

/// A single frame, read and written word by word by its holder only.
#[derive(Debug, PartialEq, Eq)]
pub struct Page(PhysAddr);

impl Page {
    pub const WORDS: usize = raw::FRAME_WORDS;

    /// Allocates a movable page. Its holder frees it with [`Page::free`], and moves it when the
    /// balloon requests that.
    pub fn movable(frames: &MemoryManager) -> Option<Page> {
        frames.allocate_movable(0).map(Page)
    }

    pub fn at(&self) -> PhysAddr {
        self.0
    }

    fn cell(&self, index: usize) -> Word {
        assert!(index < Page::WORDS, "word of a page");
        Word::at(self.0.to_virt().0 as usize + 8 * index)
    }

    /// Returns a word. Panics if `index` is not below [`Page::WORDS`].
    pub fn get(&self, index: usize) -> u64 {
        self.cell(index).get()
    }

    /// Sets a word. Panics if `index` is not below [`Page::WORDS`].
    pub fn set(&mut self, index: usize, value: u64) {
        self.cell(index).set(value);
    }

    /// Moves the contents to the frame `to`, which [`crate::frames::span::Mover::move_page`]
    /// received for this page.
    pub fn relocate(&mut self, to: PhysAddr) {
        raw::copy_frame(self.0, to);
        self.0 = to;
    }

    pub fn free(self, frames: &MemoryManager) {
        frames.free(self.0, 0);
    }
}
