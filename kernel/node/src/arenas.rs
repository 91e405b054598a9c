//! Memory for the arenas of services: frames of this kernel, or a part of the shared block. A home
//! of `unsafe`: an arena must have exclusive use of its memory.

#![allow(unsafe_code, reason = "a home of unsafe: memory without other users becomes an arena")]

use crate::memory::FRAMES;
use base::addr::{PAGE, VirtAddr};
use base::port::Frames;
use core::sync::atomic::AtomicU64;
use share::Arena;

/// Creates an arena of at least `bytes` bytes from frames of this kernel, which are never freed.
pub fn local(bytes: u64) -> Option<Arena> {
    let order = (bytes / PAGE).next_power_of_two().trailing_zeros();
    let frames = FRAMES.allocate(order as u8)?;
    // SAFETY: just allocated, mapped cacheable and writable, and never given back.
    unsafe { Arena::new(frames.to_virt().0 as usize, (PAGE as usize) << order) }
}

/// Creates the arena of a service in the shared block at `base`, from its offset and size there.
pub fn shared(base: VirtAddr, (offset, bytes): (u64, u64)) -> Option<Arena> {
    // SAFETY: only services use the block, and in every kernel this part of it belongs to this
    // service only (`services::share_of`). Its steps exclude each other. The coherence protocol
    // maps its pages when they are accessed.
    unsafe { Arena::new((base.0 + offset) as usize, bytes as usize) }
}

/// Returns the last `bytes` bytes of the shared block at `base`, which are in no arena.
pub fn spare(base: VirtAddr, bytes: u64) -> &'static [AtomicU64] {
    let at = base.0 + abi::boot::BLOCK - bytes;
    // SAFETY: no arena contains these bytes, and all kernels access them as atomics; the coherence
    // protocol maps their pages when they are accessed. Callers that may meet a lost page run in
    // `arch::rescue`.
    unsafe { core::slice::from_raw_parts(at as *const AtomicU64, bytes as usize / 8) }
}
