//! TLB shootdown within this domain, for ISAs whose flush reaches one core only.
//!
//! One shootdown at a time, under a lock: the initiator stores the range, increments the
//! generation, interrupts the other cores and waits in `attend`. A core serves shootdowns in that
//! interrupt and in `attend`. So if two cores initiate shootdowns, the one that waits for the lock
//! serves the shootdown of the other.
//!
//! Pages of the shared block are flushed without waiting ([`flush_shared`]), because the coherence
//! driver holds its lock; it asks later whether the flush is complete. These flushes have
//! generations of their own, and the other cores flush their whole TLB.
//!
//! The initiator waits only for cores that are online. A core that starts sets its online bit
//! before it reads the generation; the initiator increments the generation before it reads the
//! bits. At least one of them sees the other's store.

use abi::boot::MAX_CORES;
use arch::lock::Lock;
use base::addr::VirtAddr;
use base::id::CoreId;
use core::sync::atomic::{AtomicU64, Ordering};

/// Kinds of core-to-core interrupts; 0 is the scheduler's own.
pub mod core_kind {
    /// Check the run queue.
    pub const LOOK: u8 = 0;
    /// Serve shootdowns.
    pub const SHOOTDOWN: u8 = 1;
    /// Halt: this kernel ends.
    pub const STOP: u8 = 2;
    /// Abandon the step of this core, if the soc demands it or it has lasted too long.
    pub const ABANDON: u8 = 3;
}

static INITIATOR: Lock<()> = Lock::new(crate::ranks::SHOOTDOWN, ());
static START: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
/// One bit for each core that uses this kernel's page table.
static ONLINE: AtomicU64 = AtomicU64::new(0);
/// Generation of the range above; written after it.
static WANTED: AtomicU64 = AtomicU64::new(0);
/// The generation that each core has flushed.
static SERVED: [AtomicU64; MAX_CORES] = [const { AtomicU64::new(0) }; MAX_CORES];
/// Number of calls of [`flush_all`].
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The generations of [`flush_shared`].
static SHARED_WANTED: AtomicU64 = AtomicU64::new(0);
static SHARED_SERVED: [AtomicU64; MAX_CORES] = [const { AtomicU64::new(0) }; MAX_CORES];

/// A generation of [`flush_shared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed(u64);

/// A flush that is complete already.
const EVERYWHERE: Flushed = Flushed(0);

#[inline]
fn bit(core: usize) -> u64 {
    1 << core
}

/// Flushes `[start, start + bytes)` on all online cores of this domain, and waits for them.
pub fn flush_all(start: VirtAddr, bytes: u64) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    if arch::mmu::BROADCAST {
        return arch::mmu::flush(start, bytes);
    }
    // While it holds the lock, this thread stays on its core.
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

/// Flushes `[start, start + bytes)` on this core, and requests it of the other online cores without
/// waiting; see [`is_flushed`]. Calls must not overlap; the coherence driver's lock ensures that.
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

/// Returns whether a flush on this core is sufficient for the whole domain.
#[inline]
pub fn is_alone() -> bool {
    let me = bit(arch::cpu::core().index());
    arch::mmu::BROADCAST || ONLINE.load(Ordering::SeqCst) == me
}

/// Returns whether all online cores have performed the flush.
#[inline]
pub fn is_flushed(flushed: Flushed) -> bool {
    flushed == EVERYWHERE || !(0..MAX_CORES).any(|core| is_late(core, flushed.0))
}

#[inline]
fn is_late(core: usize, generation: u64) -> bool {
    is_online(core) && SHARED_SERVED[core].load(Ordering::Acquire) < generation
}

#[inline]
fn serve_shared(core: usize) {
    let wanted = SHARED_WANTED.load(Ordering::Acquire);
    if SHARED_SERVED[core].load(Ordering::Relaxed) < wanted {
        arch::mmu::flush(VirtAddr(0), u64::MAX);
        SHARED_SERVED[core].store(wanted, Ordering::Release);
    }
}

/// Performs the flushes that were requested of this core. Cheap when there are none.
#[inline]
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
    // The memory may be used for code next.
    arch::cache::sync_code(start as usize, 0);
}

/// Sets this core online, and flushes its TLB: shootdowns before now did not wait for it.
pub fn core_started() {
    let me = arch::cpu::core().index();
    ONLINE.fetch_or(bit(me), Ordering::SeqCst);
    let wanted = WANTED.load(Ordering::SeqCst);
    let shared = SHARED_WANTED.load(Ordering::SeqCst);
    arch::mmu::flush(VirtAddr(0), u64::MAX);
    SERVED[me].store(wanted, Ordering::Release);
    SHARED_SERVED[me].store(shared, Ordering::Release);
}

/// Sets this core offline: shootdowns no longer wait for it.
pub fn core_stopped() {
    ONLINE.fetch_and(!bit(arch::cpu::core().index()), Ordering::SeqCst);
}

/// Returns whether shootdowns wait for `core`.
#[inline]
pub fn is_online(core: usize) -> bool {
    ONLINE.load(Ordering::SeqCst) & bit(core) != 0
}

/// Interrupts all online cores, so that each looks at what it returns to.
pub fn interrupt_cores() {
    interrupt(|_| true);
}

/// Interrupts all other online cores. For a caller in an interrupt, at whose end this core looks,
/// or in a thread: the one that runs next on this core looks when it continues.
pub fn interrupt_other_cores() {
    let me = arch::cpu::core().index();
    interrupt(|core| core != me);
}

fn interrupt(which: impl Fn(usize) -> bool) {
    let interrupt = |core| arch::irq::send_core(CoreId(core as u8), core_kind::LOOK);
    (0..MAX_CORES).filter(|&core| which(core) && is_online(core)).for_each(interrupt);
}

/// Returns the number of calls of [`flush_all`] since boot.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}
