//! TLB shootdown within this domain, for ISAs whose flush reaches one core only.
//!
//! One at a time, under a lock: the initiator writes the range, counts the generation up, rings
//! the other cores and waits through `attend`. A core serves from its interrupt or from its own
//! `attend`, so two cores that shoot at once wait for the lock, each serving the other.

use crate::interrupts::core_kind;
use abi::boot::MAX_CORES;
use arch::lock::Lock;
use base::addr::VirtAddr;
use base::id::CoreId;
use core::sync::atomic::{AtomicU64, Ordering};

static INITIATOR: Lock<()> = Lock::new(crate::ranks::SHOOTDOWN, ());
static START: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Cores that have started.
static ONLINE: AtomicU64 = AtomicU64::new(0);
/// Generation of the range above; written last (Release).
static WANTED: AtomicU64 = AtomicU64::new(0);
/// Generation each core has flushed.
static SERVED: [AtomicU64; MAX_CORES] = [const { AtomicU64::new(0) }; MAX_CORES];

/// Flushes `[start, start + bytes)` on every running core of this domain.
pub fn flush_all(start: VirtAddr, bytes: u64) {
    let cores = ONLINE.load(Ordering::Acquire) as usize;
    arch::mmu::flush(start, bytes);
    if arch::mmu::BROADCAST || cores < 2 {
        return;
    }
    let _one = INITIATOR.lock();
    START.store(start.0, Ordering::Relaxed);
    BYTES.store(bytes, Ordering::Relaxed);
    let generation = WANTED.load(Ordering::Relaxed) + 1;
    WANTED.store(generation, Ordering::Release);
    let me = arch::cpu::core().index();
    SERVED[me].store(generation, Ordering::Relaxed);
    let others = || (0..cores).filter(|&core| core != me);
    others().for_each(|core| arch::irq::send_core(CoreId(core as u8), core_kind::SHOOTDOWN));
    arch::attend::until(|| others().all(|core| SERVED[core].load(Ordering::Acquire) >= generation));
}

/// Flushes what this core was asked for and has not flushed; cheap when there is nothing.
pub fn serve() {
    let served = &SERVED[arch::cpu::core().index()];
    let wanted = WANTED.load(Ordering::Acquire);
    if served.load(Ordering::Relaxed) < wanted {
        arch::mmu::flush(VirtAddr(START.load(Ordering::Relaxed)), BYTES.load(Ordering::Relaxed));
        served.store(wanted, Ordering::Release);
    }
}

/// A core that starts has nothing to flush. Cores start in order and never leave for good.
pub fn core_started() {
    ONLINE.fetch_max(u64::from(arch::cpu::core().0) + 1, Ordering::AcqRel);
    let wanted = WANTED.load(Ordering::Acquire);
    SERVED[arch::cpu::core().index()].store(wanted, Ordering::Release);
}
