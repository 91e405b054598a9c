//! Words between domains: here, between threads.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Loads.
/// # Safety
/// `from` is aligned and mapped.
pub unsafe extern "C" fn load64(from: *const u64) -> u64 {
    // SAFETY: by the caller; shared words are only accessed by the functions of this module.
    unsafe { AtomicU64::from_ptr(from.cast_mut()) }.load(Ordering::Relaxed)
}

/// Stores.
/// # Safety
/// `to` is aligned and mapped.
pub unsafe extern "C" fn store64(to: *mut u64, value: u64) {
    // SAFETY: as in `load64`.
    unsafe { AtomicU64::from_ptr(to) }.store(value, Ordering::Relaxed);
}

/// Loads.
/// # Safety
/// `from` is aligned and mapped.
pub unsafe extern "C" fn load32(from: *const u32) -> u32 {
    // SAFETY: as in `load64`.
    unsafe { AtomicU32::from_ptr(from.cast_mut()) }.load(Ordering::Relaxed)
}

/// Stores.
/// # Safety
/// `to` is aligned and mapped.
pub unsafe extern "C" fn store32(to: *mut u32, value: u32) {
    // SAFETY: as in `load64`.
    unsafe { AtomicU32::from_ptr(to) }.store(value, Ordering::Relaxed);
}

/// Swaps a word of the spinlock bank.
/// # Safety
/// `at` is aligned and mapped.
pub unsafe extern "C" fn swap64(at: *mut u64, value: u64) -> u64 {
    // SAFETY: as in `load64`.
    unsafe { AtomicU64::from_ptr(at) }.swap(value, Ordering::SeqCst)
}

/// Full barrier.
pub extern "C" fn barrier() {
    fence(Ordering::SeqCst);
}
