//! Words between domains: on a host, between threads.

use super::chip::chip;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// # Safety
/// `from` is aligned and mapped.
pub unsafe extern "C" fn load64(from: *const u64) -> u64 {
    if let Some(chip) = chip() {
        return chip.load(from as usize, 8);
    }
    // SAFETY: by the caller; shared words are only accessed by the functions of this module.
    unsafe { AtomicU64::from_ptr(from.cast_mut()) }.load(Ordering::Relaxed)
}

/// # Safety
/// `to` is aligned and mapped.
pub unsafe extern "C" fn store64(to: *mut u64, value: u64) {
    if let Some(chip) = chip() {
        return chip.store(to as usize, 8, value);
    }
    // SAFETY: as in `load64`.
    unsafe { AtomicU64::from_ptr(to) }.store(value, Ordering::Relaxed);
}

/// # Safety
/// The words are aligned and mapped. Only the caller accesses `to`, which has as many.
pub unsafe extern "C" fn load_all(from: *const u64, to: *mut u64, count: usize) {
    for at in 0..count {
        // SAFETY: by the caller.
        unsafe { to.add(at).write(load64(from.add(at))) };
    }
}

/// # Safety
/// The places are aligned and mapped. `from` has as many words.
pub unsafe extern "C" fn store_all(from: *const u64, to: *mut u64, count: usize) {
    for at in 0..count {
        // SAFETY: by the caller.
        unsafe { store64(to.add(at), from.add(at).read()) };
    }
}

/// # Safety
/// `from` is aligned and mapped.
pub unsafe extern "C" fn load32(from: *const u32) -> u32 {
    if let Some(chip) = chip() {
        return chip.load(from as usize, 4) as u32;
    }
    // SAFETY: as in `load64`.
    unsafe { AtomicU32::from_ptr(from.cast_mut()) }.load(Ordering::Relaxed)
}

/// # Safety
/// `to` is aligned and mapped.
pub unsafe extern "C" fn store32(to: *mut u32, value: u32) {
    if let Some(chip) = chip() {
        return chip.store(to as usize, 4, value.into());
    }
    // SAFETY: as in `load64`.
    unsafe { AtomicU32::from_ptr(to) }.store(value, Ordering::Relaxed);
}

/// # Safety
/// `from` is aligned and mapped.
pub unsafe extern "C" fn acquire64(from: *const u64) -> u64 {
    if let Some(chip) = chip() {
        return chip.load(from as usize, 8);
    }
    // SAFETY: as in `load64`.
    unsafe { AtomicU64::from_ptr(from.cast_mut()) }.load(Ordering::Acquire)
}

/// # Safety
/// `to` is aligned and mapped.
pub unsafe extern "C" fn release64(to: *mut u64, value: u64) {
    if let Some(chip) = chip() {
        chip.barrier();
        return chip.store(to as usize, 8, value);
    }
    // SAFETY: as in `load64`.
    unsafe { AtomicU64::from_ptr(to) }.store(value, Ordering::Release);
}

pub extern "C" fn barrier() {
    match chip() {
        Some(chip) => chip.barrier(),
        None => fence(Ordering::SeqCst),
    }
}
