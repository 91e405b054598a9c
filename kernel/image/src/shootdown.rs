//! TLB shootdown within this domain, for ISAs whose flush reaches one core only.
//!
//! One at a time, under a lock: the initiator writes the range, counts the generation up, rings
//! the other cores and waits through `attend`. A core serves from its interrupt or from its own
//! `attend`, so two cores that shoot at once wait for the lock, each serving the other.
//!
//! Only cores that are online are waited for. One that starts says so before it looks at the
//! generation, the initiator counts before it looks who is online: at least one sees the other.

use crate::interrupts::core_kind;
use abi::boot::MAX_CORES;
use arch::lock::Lock;
use base::addr::VirtAddr;
use base::id::CoreId;
use core::sync::atomic::{AtomicU64, Ordering};

static INITIATOR: Lock<()> = Lock::new(crate::ranks::SHOOTDOWN, ());
static START: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
/// A bit a core that translates with our table.
static ONLINE: AtomicU64 = AtomicU64::new(0);
/// Generation of the range above; written last (Release).
static WANTED: AtomicU64 = AtomicU64::new(0);
/// Generation each core has flushed.
static SERVED: [AtomicU64; MAX_CORES] = [const { AtomicU64::new(0) }; MAX_CORES];
/// Ranges that were unmapped on every core.
static COUNT: AtomicU64 = AtomicU64::new(0);

fn bit(core: usize) -> u64 {
    1 << core
}

/// Flushes `[start, start + bytes)` on every running core of this domain.
pub fn flush_all(start: VirtAddr, bytes: u64) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    if arch::mmu::BROADCAST {
        return arch::mmu::flush(start, bytes);
    }
    // From here on this thread stays on its core, whose own part comes first.
    let _one = INITIATOR.lock();
    arch::mmu::flush(start, bytes);
    START.store(start.0, Ordering::Relaxed);
    BYTES.store(bytes, Ordering::Relaxed);
    let generation = WANTED.load(Ordering::Relaxed) + 1;
    WANTED.store(generation, Ordering::SeqCst);
    let me = arch::cpu::core().index();
    SERVED[me].store(generation, Ordering::Relaxed);
    let late = |&core: &usize| {
        core != me
            && ONLINE.load(Ordering::SeqCst) & bit(core) != 0
            && SERVED[core].load(Ordering::Acquire) < generation
    };
    let ring = |core| arch::irq::send_core(CoreId(core as u8), core_kind::SHOOTDOWN);
    (0..MAX_CORES).filter(late).for_each(ring);
    arch::attend::until(|| !(0..MAX_CORES).any(|core| late(&core)));
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

/// This core translates; what it has seen before it was waited for is forgotten.
pub fn core_started() {
    let me = arch::cpu::core().index();
    ONLINE.fetch_or(bit(me), Ordering::SeqCst);
    let wanted = WANTED.load(Ordering::SeqCst);
    arch::mmu::flush(VirtAddr(0), u64::MAX);
    SERVED[me].store(wanted, Ordering::Release);
}

/// This core goes off with its translations, and is not waited for any more.
pub fn core_stopped() {
    ONLINE.fetch_and(!bit(arch::cpu::core().index()), Ordering::SeqCst);
}

/// Does `core` translate, so that it is waited for?
pub fn is_online(core: usize) -> bool {
    ONLINE.load(Ordering::SeqCst) & bit(core) != 0
}

/// Ranges that were unmapped on every core, since boot.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}
