//! Pieces that are loaded and stored at any address by one or two instructions.
//!
//! Kernels are compiled for aligned accesses only, since the stub runs with the MMU off, where
//! there are no others; so the compiler would take an unaligned load apart. `aarch64.rs` says which
//! instruction it is. For the tests on a host the compiler knows.

#[cfg_attr(all(target_os = "none", target_arch = "aarch64"), path = "aarch64.rs")]
#[cfg_attr(not(all(target_os = "none", target_arch = "aarch64")), path = "any.rs")]
mod imp;

pub use imp::{Block, Pair, Quad, block, pair, quad};

/// # Safety
/// Of both: as many bytes at `at` may be read, or written, and are normal memory.
pub trait Whole: Copy {
    /// Loads it.
    unsafe fn get(at: *const u8) -> Self;
    /// Stores it.
    unsafe fn put(self, at: *mut u8);
}

impl Whole for u8 {
    #[inline(always)]
    unsafe fn get(at: *const u8) -> u8 {
        // SAFETY: the caller's.
        unsafe { at.read() }
    }
    #[inline(always)]
    unsafe fn put(self, at: *mut u8) {
        // SAFETY: the caller's.
        unsafe { at.write(self) }
    }
}
