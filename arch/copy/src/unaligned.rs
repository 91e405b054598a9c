//! Values that one or two instructions load and store at any address.
//!
//! Kernels are compiled for aligned accesses only, because the stub runs with the MMU off, where
//! there are no others; so the compiler would split an unaligned load. `aarch64.rs` therefore names
//! the instructions. In tests on a host the compiler selects them.

#[cfg_attr(all(target_os = "none", target_arch = "aarch64"), path = "aarch64.rs")]
#[cfg_attr(not(all(target_os = "none", target_arch = "aarch64")), path = "any.rs")]
mod imp;

pub use imp::{Block, Pair, Quad, block, pair, quad};

/// # Safety
/// For both methods: that many bytes at `at` may be read or written, and are normal memory.
pub trait Unaligned: Copy {
    unsafe fn get(at: *const u8) -> Self;
    unsafe fn put(self, at: *mut u8);
}

impl Unaligned for u8 {
    #[inline(always)]
    unsafe fn get(at: *const u8) -> u8 {
        // SAFETY: the caller's obligation.
        unsafe { at.read() }
    }
    #[inline(always)]
    unsafe fn put(self, at: *mut u8) {
        // SAFETY: the caller's obligation.
        unsafe { at.write(self) }
    }
}
