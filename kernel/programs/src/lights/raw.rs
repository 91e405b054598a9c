//! Words of mapped pages, by their address. A home of `unsafe`.
//!
//! Contract: the caller has mapped the pages, and keeps them mapped as long as it uses the words.
//! Rust accesses these pages as atomics only; code of programs is not Rust.
#![allow(unsafe_code)]

use abi::light::ENTRIES;
use base::addr::{PAGE, VirtAddr};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Returns the words of pages of the book's state.
pub fn words<'a>(at: VirtAddr, pages: usize) -> &'a [AtomicU64] {
    // SAFETY: the caller has mapped these pages; any bits are valid words.
    unsafe { core::slice::from_raw_parts(at.0 as *const AtomicU64, pages * PAGE as usize / 8) }
}

/// Returns the entries of a page of the book.
pub fn entries<'a>(at: VirtAddr) -> &'a [AtomicU32; ENTRIES] {
    // SAFETY: as in `words`.
    unsafe { &*(at.0 as *const [AtomicU32; ENTRIES]) }
}

/// Fills a page with zeros.
pub fn clear(at: VirtAddr) {
    words(at, 1).iter().for_each(|word| word.store(0, Ordering::Relaxed));
}
