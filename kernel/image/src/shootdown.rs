//! TLB shootdown within this domain, for ISAs whose flush reaches one core only.
//!
//! One at a time, under a lock: the initiator writes the range, counts the generation up, rings
//! the other cores and waits through `attend`. A core serves from its interrupt or from its own
//! `attend`, so two cores that shoot at once wait for the lock, each serving the other.
//!
//! Pages that kernels share are flushed without waiting ([`flush_shared`]), for their protocol
//! holds a lock meanwhile and asks later: generations of their own, and a core forgets all of it.
//!
//! Only cores that are online are waited for. One that starts says so before it looks at the
//! generation, the initiator counts before it looks who is online: at least one sees the other.

use abi::boot::MAX_CORES;
use arch::lock::Lock;
use base::addr::VirtAddr;
use base::id::CoreId;
use core::sync::atomic::{AtomicU64, Ordering};

/// Kinds of core-to-core interrupts; 0 is the scheduler's own.
pub mod core_kind {
    /// Look what there is to do.
    pub const LOOK: u8 = 0;
    /// Look at the shootdown queue.
    pub const SHOOTDOWN: u8 = 1;
    /// Stop for ever: this kernel ends.
    pub const STOP: u8 = 2;
}

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

/// The same for the pages that kernels share.
static SHARED_WANTED: AtomicU64 = AtomicU64::new(0);
static SHARED_SERVED: [AtomicU64; MAX_CORES] = [const { AtomicU64::new(0) }; MAX_CORES];

/// A generation of [`flush_shared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed(u64);

/// No core has to be asked.
const EVERYWHERE: Flushed = Flushed(0);

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

/// Flushes `[start, start + bytes)` here, and asks the other cores to. One at a time.
pub fn flush_shared(start: VirtAddr, bytes: u64) -> Flushed {
    arch::mmu::flush(start, bytes);
    if is_alone() {
        return EVERYWHERE;
    }
    let me = arch::cpu::core().index();
    serve_shared(me);
    let generation = SHARED_WANTED.load(Ordering::Relaxed) + 1;
    SHARED_SERVED[me].store(generation, Ordering::Relaxed);
    SHARED_WANTED.store(generation, Ordering::SeqCst);
    let others = (0..MAX_CORES).filter(|&core| is_late(core, generation));
    others.for_each(|core| arch::irq::send_core(CoreId(core as u8), core_kind::SHOOTDOWN));
    Flushed(generation)
}

/// Does what this core flushes reach all of its domain?
pub fn is_alone() -> bool {
    let me = bit(arch::cpu::core().index());
    arch::mmu::BROADCAST || ONLINE.load(Ordering::SeqCst) == me
}

/// Have all cores forgotten what they were asked to?
pub fn is_flushed(flushed: Flushed) -> bool {
    flushed == EVERYWHERE || !(0..MAX_CORES).any(|core| is_late(core, flushed.0))
}

fn is_late(core: usize, generation: u64) -> bool {
    is_online(core) && SHARED_SERVED[core].load(Ordering::Acquire) < generation
}

fn serve_shared(core: usize) {
    let wanted = SHARED_WANTED.load(Ordering::Acquire);
    if SHARED_SERVED[core].load(Ordering::Relaxed) < wanted {
        arch::mmu::flush(VirtAddr(0), u64::MAX);
        SHARED_SERVED[core].store(wanted, Ordering::Release);
    }
}

/// Flushes what this core was asked for and has not flushed; cheap when there is nothing.
pub fn serve() {
    serve_shared(arch::cpu::core().index());
    let served = &SERVED[arch::cpu::core().index()];
    let wanted = WANTED.load(Ordering::Acquire);
    if served.load(Ordering::Relaxed) < wanted {
        serve_range();
        served.store(wanted, Ordering::Release);
    }
}

#[cold]
#[inline(never)]
fn serve_range() {
    let (start, bytes) = (START.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
    arch::mmu::flush(VirtAddr(start), bytes);
    // It may be code from now on.
    arch::cache::sync_code(start as usize, 0);
}

/// This core translates; what it has seen before it was waited for is forgotten.
pub fn core_started() {
    let me = arch::cpu::core().index();
    ONLINE.fetch_or(bit(me), Ordering::SeqCst);
    let wanted = WANTED.load(Ordering::SeqCst);
    let shared = SHARED_WANTED.load(Ordering::SeqCst);
    arch::mmu::flush(VirtAddr(0), u64::MAX);
    SERVED[me].store(wanted, Ordering::Release);
    SHARED_SERVED[me].store(shared, Ordering::Release);
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
#[cfg(feature = "trials")]
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}
