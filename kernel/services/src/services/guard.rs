//! Exclusive access to a service's arena: by a lock of this kernel and, if the arena is shared, a
//! lock between kernels. The latter's words also tell whether a kernel died in a step
//! (`share::Custody`).

use abi::lock::Known;
use arch::domain_lock::DomainLock;
use arch::exclusion::Exclusion;
use base::id::Epoch;
use base::port::Exclusive;
use core::sync::atomic::{AtomicU32, Ordering};
use kernel_platform::coherence::Coherence;
use share::{Arena, Custody};

/// The additional parts of a shared arena.
struct Shared {
    coherence: &'static Coherence,
    base: usize,
    bytes: usize,
    /// A new life of the service that this kernel has started and not logged yet, or 0.
    begun: AtomicU32,
}

/// A service's arena with its locks.
pub struct ArenaGuard {
    arena: Exclusion<Arena>,
    /// [`Custody::before`].
    before: u32,
    shared: Option<Shared>,
}

impl ArenaGuard {
    /// An arena in memory of this kernel only, in its life `epoch`.
    pub fn alone(epoch: Epoch, arena: Arena) -> ArenaGuard {
        let arena = Exclusion::new(kernel_node::ranks::SERVICE, None, arena);
        ArenaGuard { arena, before: u32::from(epoch.0).saturating_sub(1), shared: None }
    }

    /// An arena in the shared block; there is one guard for each service. `between` is the lock
    /// between kernels.
    pub fn shared(coherence: &'static Coherence, between: DomainLock, arena: Arena) -> ArenaGuard {
        let (base, bytes, begun) = (arena.base(), arena.bytes(), AtomicU32::new(0));
        let shared = Shared { coherence, base, bytes, begun };
        let arena = Exclusion::new(kernel_node::ranks::SERVICE, Some(between), arena);
        ArenaGuard { arena, before: 0, shared: Some(shared) }
    }
}

impl ArenaGuard {
    /// Returns how often the service has started: more than once if its shared state was lost or,
    /// if its state is this kernel's alone, if this kernel has booted again.
    pub fn lives(&self) -> u32 {
        self.arena.between().map_or(self.before + 1, |lock| lock.look().life)
    }

    /// Returns the life of the service that this kernel has started since the previous call.
    #[inline]
    pub fn begun(&self) -> Option<u32> {
        let begun = &self.shared.as_ref()?.begun;
        if begun.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(begun.swap(0, Ordering::Relaxed)).filter(|&begun| begun != 0)
    }
}

impl Exclusive<Arena> for ArenaGuard {
    #[inline]
    fn exclusively<R>(&self, work: impl FnOnce(&mut Arena) -> R) -> R {
        #[cfg(feature = "trials")]
        let work = |arena: &mut Arena| super::longest::measured(|| work(arena));
        self.arena.exclusively(work)
    }
}

impl Custody for ArenaGuard {
    fn before(&self) -> u32 {
        self.before
    }

    #[inline]
    fn enter(&self) -> Option<Known> {
        let lock = self.arena.between()?;
        let known = lock.known();
        lock.know(known.life);
        Some(known)
    }

    #[inline]
    fn holding(&self) -> u64 {
        self.arena.between().map_or(0, DomainLock::holding)
    }

    fn renew(&self, life: u32) {
        if let (Some(lock), Some(shared)) = (self.arena.between(), &self.shared) {
            lock.know(life);
            shared.begun.store(life, Ordering::Relaxed);
        }
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.shared.as_ref().is_none_or(|s| s.coherence.is_whole(s.base, s.bytes))
    }

    fn mend(&self) {
        #[cfg(feature = "seeded")]
        if arch::seeded::is(arch::seeded::Seed::NoMend) {
            return;
        }
        if let Some(s) = &self.shared {
            s.coherence.mend(s.base, s.bytes);
        }
    }

    #[inline]
    fn attempt(&self, work: impl FnOnce()) -> bool {
        if self.shared.is_none() {
            // Local memory cannot be lost.
            work();
            return true;
        }
        arch::rescue::attempt(work)
    }
}
