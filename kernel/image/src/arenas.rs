//! Memory that becomes a service's arena: frames of this kernel, or a part of the shared block. A
//! home of `unsafe`: nobody else may have that memory.

#![allow(unsafe_code, reason = "a home of unsafe: memory that nobody else has becomes an arena")]

use crate::memory::FRAMES;
use base::addr::{PAGE, VirtAddr};
use base::port::Frames;
#[cfg(feature = "trials")]
use core::sync::atomic::AtomicU64;
use share::Arena;

/// Frames of this kernel, for ever.
pub fn local(bytes: u64) -> Option<Arena> {
    let order = (bytes / PAGE).next_power_of_two().trailing_zeros();
    let frames = FRAMES.allocate(order as u8)?;
    // SAFETY: just allocated, mapped cacheable and writable, and never given back.
    unsafe { Arena::new(frames.to_virt().0 as usize, (PAGE as usize) << order) }
}

/// A service's part of the block at `base` that kernels share: its offset and its bytes there.
pub fn shared(base: VirtAddr, (offset, bytes): (u64, u64)) -> Option<Arena> {
    // SAFETY: the block is nobody's but the services', and this part of it this one's, in every
    // kernel; its steps exclude each other; the protocol maps its pages where they are touched.
    unsafe { Arena::new((base.0 + offset) as usize, bytes as usize) }
}

/// The last `bytes` bytes of the block at `base`, which are nobody's.
#[cfg(feature = "trials")]
pub fn spare(base: VirtAddr, bytes: u64) -> &'static [AtomicU64] {
    let at = base.0 + abi::boot::BLOCK - bytes;
    // SAFETY: no arena has them; the protocol maps the page where it is touched. A page that is
    // lost is touched within an attempt.
    unsafe { core::slice::from_raw_parts(at as *const AtomicU64, bytes as usize / 8) }
}
