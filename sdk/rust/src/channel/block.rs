//! Blocks of bytes, as messages carry them. A home of `unsafe`: pages are accessed as bytes.
//!
//! Contract: the first `length` bytes of the pages are initialized, and there are enough pages. The
//! vector's own length stays 0; it only owns the memory.

#![allow(unsafe_code)]

use super::Window;
use super::page::{PAGE, Page};
use crate::layout::PASSES;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

enum Memory {
    Bytes(Vec<u8>),
    Pages { pages: Vec<Page>, length: usize },
    Window(Window),
}

/// A block of bytes that moves with a message.
///
/// One of 16 KiB or more that was made by [`Block::zeroed`], [`From<&[u8]>`](From) or by receiving
/// it begins with a page. To a receiver on the same kernel its pages pass without a copy. A vector
/// that becomes a block stays where it is, and is copied when it is sent.
///
/// A [`Window`] can be sent as a block, too, and received as one: [`Block::into_window`]. Its bytes
/// are only there; as a slice, such a block is empty.
pub struct Block(Memory);

impl Block {
    /// Returns a block of zeros, to be filled.
    pub fn zeroed(length: usize) -> Block {
        Block::from_parts(length, |room| {
            // SAFETY: there is room for `length` bytes.
            unsafe { room.write_bytes(0, length) };
        })
    }

    /// Returns a block of which `fill` has written all `length` bytes.
    fn from_parts(length: usize, fill: impl FnOnce(*mut u8)) -> Block {
        let mut block = Block::with_room(length);
        fill(block.room().0);
        // SAFETY: there is room for them, and `fill` has written them.
        unsafe { block.set_len(length) };
        block
    }

    /// Returns an empty block with room for so many bytes.
    pub(crate) fn with_room(bytes: usize) -> Block {
        Block(match bytes >= PASSES {
            true => Memory::Pages { pages: Vec::with_capacity(bytes.div_ceil(PAGE)), length: 0 },
            false => Memory::Bytes(Vec::with_capacity(bytes)),
        })
    }

    /// Returns an empty block with room for a window of so many bytes.
    pub(crate) fn with_pages(bytes: usize) -> Block {
        Block(Memory::Pages { pages: Vec::with_capacity(bytes.div_ceil(PAGE)), length: 0 })
    }

    /// Makes it the window that was received into its room.
    pub(crate) fn becomes_window(&mut self, length: usize) {
        let length = length.min(self.room().1);
        if let Memory::Pages { pages, .. } = &mut self.0 {
            self.0 = Memory::Window(Window::received(core::mem::take(pages), length));
        }
    }

    /// Returns the window that it is, or itself.
    pub fn into_window(self) -> Result<Window, Block> {
        match self.0 {
            Memory::Window(window) => Ok(window),
            memory => Err(Block(memory)),
        }
    }

    /// Returns whether it is a window.
    pub(crate) fn window(&self) -> Option<&Window> {
        match &self.0 {
            Memory::Window(window) => Some(window),
            _ => None,
        }
    }

    /// Returns its memory, and how many bytes it has.
    pub(crate) fn room(&mut self) -> (*mut u8, usize) {
        match &mut self.0 {
            Memory::Bytes(bytes) => (bytes.as_mut_ptr(), bytes.capacity()),
            Memory::Pages { pages, .. } => (pages.as_mut_ptr().cast(), pages.capacity() * PAGE),
            Memory::Window(_) => (core::ptr::null_mut(), 0),
        }
    }

    /// Sets the number of its bytes.
    ///
    /// # Safety
    /// There is [room](Block::room) for them, and they are initialized.
    pub(crate) unsafe fn set_len(&mut self, bytes: usize) {
        match &mut self.0 {
            // SAFETY: the caller's obligation.
            Memory::Bytes(vector) => unsafe { vector.set_len(bytes) },
            Memory::Pages { length, .. } => *length = bytes,
            Memory::Window(_) => {}
        }
    }

    /// Returns its bytes as a vector: the one it was made of, or a copy.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Memory::Bytes(bytes) => bytes,
            Memory::Pages { .. } => self.to_vec(),
            Memory::Window(window) => {
                let mut bytes = alloc::vec![0; window.len()];
                window.read(0, &mut bytes);
                bytes
            }
        }
    }
}

impl Deref for Block {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Bytes(bytes) => bytes,
            // SAFETY: by the contract of this module.
            Memory::Pages { pages, length } => unsafe {
                core::slice::from_raw_parts(pages.as_ptr().cast(), *length)
            },
            Memory::Window(_) => &[],
        }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Bytes(bytes) => bytes,
            // SAFETY: by the contract of this module, and `self` is borrowed for writes.
            Memory::Pages { pages, length } => unsafe {
                core::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), *length)
            },
            Memory::Window(_) => &mut [],
        }
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<&Window> for Block {
    fn from(window: &Window) -> Block {
        Block(Memory::Window(window.clone()))
    }
}

impl From<Vec<u8>> for Block {
    fn from(bytes: Vec<u8>) -> Block {
        Block(Memory::Bytes(bytes))
    }
}

impl From<&[u8]> for Block {
    fn from(bytes: &[u8]) -> Block {
        Block::from_parts(bytes.len(), |room| {
            // SAFETY: there is room for them, in memory of the block's own.
            unsafe { room.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        })
    }
}

impl Default for Block {
    fn default() -> Block {
        Block(Memory::Bytes(Vec::new()))
    }
}

impl Clone for Block {
    fn clone(&self) -> Block {
        match &self.0 {
            Memory::Window(window) => Block::from(window),
            _ => Block::from(&**self),
        }
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Block) -> bool {
        match (self.window(), other.window()) {
            (Some(mine), Some(its)) => mine.is(its),
            (None, None) => **self == **other,
            _ => false,
        }
    }
}

impl Eq for Block {}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Memory::Window(window) => window.fmt(f),
            _ => fmt::Debug::fmt(&**self, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_blocks_begin_with_a_page_and_vectors_stay_where_they_are() {
        for length in [0, 1, PASSES - 1, PASSES, PASSES + 1, 5 * PASSES] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut block = Block::from(&bytes[..]);
            assert_eq!((&*block, block.clone()), (&bytes[..], bytes.clone().into()));
            assert_eq!(block.as_ptr().addr().is_multiple_of(PAGE), length >= PASSES);
            assert!(block.room().1 >= length);
            if let Some(first) = block.first_mut() {
                *first = 9;
                assert_ne!(block, Block::zeroed(length));
                block[0] = 0;
            }
            assert_eq!(block.into_vec(), bytes);
            assert!(Block::zeroed(length).iter().all(|byte| *byte == 0));
            let place = bytes.as_ptr();
            assert_eq!(Block::from(bytes).as_ptr(), place);
        }
    }
}
