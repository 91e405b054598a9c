//! Frames for the memory of processes that run on two kernels, in coherent blocks
//! (`kernel_mem::coherent`).
//!
//! A frame is cleaned through a second, uncached mapping of its block, as pages of the shared block
//! are: by then it is unmapped, so no line of it can come back into the cache. That mapping is used
//! for nothing else.

use abi::boot::{BLOCK, MAINTENANCE_OFFSET};
use alloc::vec::Vec;
use arch::lock::Lock;
use arch::types::{Memory, Rights};
use base::addr::{PAGE, PhysAddr, VirtAddr};
use kernel_mem::coherent::CoherentFrames;
use kernel_node::memory::{FRAMES, TABLE};
use kernel_node::ranks;
use kernel_platform::Platform;

static POOL: Lock<CoherentFrames> = Lock::new(ranks::LENT_FRAMES, CoherentFrames::new());

/// Returns a tag for the frames of a new process.
pub fn tag() -> u32 {
    POOL.lock().tag()
}

/// Returns how many frames are in use, and how many are free.
pub fn census() -> (usize, usize) {
    let pool = POOL.lock();
    (pool.used(), pool.free())
}

/// Returns the index of the shared block, which is not made of such frames. Without one, kernels do
/// not share processes.
fn shared(platform: &Platform) -> Option<usize> {
    platform.coherence.as_ref().map(|coherence| coherence.index())
}

/// Takes blocks until `count` frames are free. Returns false if there are none to be had. The
/// caller must be a thread and hold no lock.
pub fn ensure(platform: &'static Platform, count: usize) -> bool {
    while POOL.lock().free() < count {
        let Some(balloons) = &platform.balloons else { return false };
        let Some(index) = balloons.claim_coherent(platform) else { return false };
        if !POOL.lock().add(index) {
            balloons.release_coherent(index);
            return false;
        }
    }
    true
}

/// Allocates a frame.
pub fn allocate(tag: u32) -> Option<u32> {
    POOL.lock().allocate(tag)
}

/// Frees all frames of a process. None of them is mapped on any kernel.
pub fn free_all(platform: &Platform, tag: u32) {
    POOL.lock().free_all(tag);
    let Some(balloons) = &platform.balloons else { return };
    loop {
        let empty = POOL.lock().remove_empty();
        let Some(index) = empty else { return };
        balloons.release_coherent(index);
    }
}

/// Returns whether the block of a frame, whose number another kernel may have written, is coherent,
/// and prepares it for maintenance. The block of a kernel that has died stays what it is until all
/// others have forgotten it.
pub fn is_usable(platform: &Platform, frame: u32) -> bool {
    let block = frame as usize / kernel_mem::coherent::FRAMES;
    let (Some(balloons), Some(shared)) = (&platform.balloons, shared(platform)) else {
        return false;
    };
    balloons.is_lendable(platform, shared, block)
        && address(platform, frame).is_some_and(map_maintenance)
}

/// Returns the address of a frame of a usable block.
pub fn address(platform: &Platform, frame: u32) -> Option<PhysAddr> {
    let start = platform.balloons.as_ref()?.pure().address(0);
    Some(start.plus(u64::from(frame) * PAGE))
}

/// Returns the coherent blocks of kernels that have died.
pub fn orphans(platform: &Platform) -> Vec<usize> {
    let balloons = platform.balloons.as_ref().zip(shared(platform));
    let found = balloons.map(|(balloons, shared)| balloons.coherent_orphans(platform, shared));
    found.unwrap_or_default()
}

/// Writes back and drops all lines of a frame that is not mapped. Returns false without memory for
/// page tables: the lines may still be in the cache.
pub fn clean(frame: PhysAddr) -> bool {
    let at = maintenance(frame);
    let Some(table) = TABLE.get() else { return false };
    let is_mapped = table.lock().find(at).is_some();
    if !is_mapped && !map_maintenance(frame) {
        return false;
    }
    arch::cache::clean_invalidate(at.0 as usize, PAGE as usize);
    true
}

fn maintenance(at: PhysAddr) -> VirtAddr {
    VirtAddr(at.to_virt().0.wrapping_add(MAINTENANCE_OFFSET))
}

/// Maps the block of a frame for maintenance, for good: it takes a page table for a GiB.
#[cold]
fn map_maintenance(frame: PhysAddr) -> bool {
    let block = PhysAddr(frame.0 & !(BLOCK - 1));
    let at = maintenance(block);
    let Some(table) = TABLE.get() else { return false };
    let mut table = table.lock();
    table.find(at).is_some()
        || table.map(&FRAMES, at, block, BLOCK, Memory::Uncached, Rights::ReadWrite).is_ok()
}
