//! Words between domains: on a host, between threads.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// # Safety
/// `from` is aligned and mapped.
pub unsafe extern "C" fn load64(from: *const u64) -> u64 {
    // SAFETY: by the caller; shared words are only accessed by the functions of this module.
    unsafe { AtomicU64::from_ptr(from.cast_mut()) }.load(Ordering::Relaxed)
}

/// # Safety
/// `to` is aligned and mapped.
pub unsafe extern "C" fn store64(to: *mut u64, value: u64) {
    // SAFETY: as in `load64`.
    unsafe { AtomicU64::from_ptr(to) }.store(value, Ordering::Relaxed);
}

/// # Safety
/// `from` is aligned and mapped.
pub unsafe extern "C" fn load32(from: *const u32) -> u32 {
    // SAFETY: as in `load64`.
    unsafe { AtomicU32::from_ptr(from.cast_mut()) }.load(Ordering::Relaxed)
}

/// # Safety
/// `to` is aligned and mapped.
pub unsafe extern "C" fn store32(to: *mut u32, value: u32) {
    // SAFETY: as in `load64`.
    unsafe { AtomicU32::from_ptr(to) }.store(value, Ordering::Relaxed);
}

/// # Safety
/// `at` is aligned and mapped.
pub unsafe extern "C" fn swap64(at: *mut u64, value: u64) -> u64 {
    // SAFETY: as in `load64`.
    unsafe { AtomicU64::from_ptr(at) }.swap(value, Ordering::SeqCst)
}

pub extern "C" fn barrier() {
    fence(Ordering::SeqCst);
}
