//! Exclusive access to a service's arena: by a lock of this kernel and, if the arena is shared, a
//! lock between kernels. Shared arenas also have a mark for each kernel, which shows whether it
//! died in a step (`share::Custody`).
//!
//! A kernel's marks are in the coherence driver's link from the kernel to itself (`abi::dsm`),
//! which no message uses. Only that kernel writes them, all kernels read them, and the soc does not
//! clear them when the kernel dies.

use alloc::vec::Vec;
use arch::exclusion::Exclusion;
use arch::shared::Window;
use base::addr::PhysAddr;
use base::id::{DomainId, Epoch};
use base::port::{Exclusive, Words};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel_node::Node;
use kernel_platform::coherence::Coherence;
use share::{Arena, Custody, Marks};

/// The additional parts of a shared arena.
struct Shared {
    coherence: &'static Coherence,
    /// This kernel's mark of the service in memory, and its value.
    mark: Window,
    own: AtomicU64,
    /// The marks of the other kernels.
    marks: Vec<Window>,
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
    /// between kernels; `index` is the service's in the board's list.
    pub fn shared(
        node: &'static Node,
        coherence: &'static Coherence,
        between: arch::shared::HwLock,
        index: usize,
        arena: Arena,
    ) -> Option<ArenaGuard> {
        let marks = node.others().map(|id| mark(node, id, index)).collect::<Option<Vec<_>>>()?;
        let mark = mark(node, node.me, index)?;
        let (base, bytes) = (arena.base(), arena.bytes());
        let (own, begun) = (AtomicU64::new(mark.load(0)), AtomicU32::new(0));
        let shared = Shared { coherence, mark, own, marks, base, bytes, begun };
        if node.epoch.0 == 1 {
            // The first boot of this domain: the word is uninitialised.
            shared.write_mark(0);
        }
        let arena = Exclusion::new(kernel_node::ranks::SERVICE, Some(between), arena);
        Some(ArenaGuard { arena, before: 0, shared: Some(shared) })
    }
}

impl ArenaGuard {
    /// Returns how often the service has started: more than once if its shared state was lost or,
    /// if its state is this kernel's alone, if this kernel has booted again.
    pub fn lives(&self) -> u32 {
        self.shared.as_ref().map_or(self.before + 1, |shared| shared.read_marks().lives)
    }

    /// Returns the life of the service that this kernel has started since the previous call.
    #[inline]
    pub fn begun(&self) -> Option<u32> {
        let begun = self.shared.as_ref()?.begun.swap(0, Ordering::Relaxed);
        (begun != 0).then_some(begun)
    }
}

fn mark(node: &Node, id: DomainId, index: usize) -> Option<Window> {
    let window = &node.blob.window;
    let own = (id.index() * node.blob.domains().len() + id.index()) as u64;
    let at = index as u64 * 8;
    let fits = at < window.dsm_link_size;
    let word = PhysAddr(window.dsm + own * window.dsm_link_size + at);
    fits.then(|| Window::uncached(node.blob, word, 8))?
}

impl Shared {
    #[inline]
    fn read_marks(&self) -> Marks {
        let own = Marks::default().with(self.own.load(Ordering::Relaxed));
        self.marks.iter().map(|mark| mark.load(0)).fold(own, Marks::with)
    }

    #[inline]
    fn write_mark(&self, mark: u64) {
        self.own.store(mark, Ordering::Relaxed);
        self.mark.store(0, mark);
    }
}

impl Exclusive<Arena> for ArenaGuard {
    #[inline]
    fn exclusively(&self, work: &mut dyn FnMut(&mut Arena)) {
        #[cfg(feature = "trials")]
        let work: &mut dyn FnMut(&mut Arena) =
            &mut |arena| super::longest::measured(|| work(arena));
        self.arena.exclusively(work);
    }
}

impl Custody for ArenaGuard {
    fn before(&self) -> u32 {
        self.before
    }

    #[inline]
    fn enter(&self) -> Option<Marks> {
        let shared = self.shared.as_ref()?;
        let marks = shared.read_marks();
        shared.write_mark(Marks::mark(marks.lives, true));
        // Before the first store to the arena.
        arch::words::barrier();
        Some(marks)
    }

    fn renew(&self, lives: u32) {
        if let Some(shared) = &self.shared {
            shared.write_mark(Marks::mark(lives, true));
            arch::words::barrier();
            shared.begun.store(lives, Ordering::Relaxed);
        }
    }

    #[inline]
    fn leave(&self, lives: u32) {
        if let Some(shared) = &self.shared {
            // After the last store to the arena, and before the lock is free: releasing it begins
            // with a barrier.
            arch::words::barrier();
            shared.write_mark(Marks::mark(lives, false));
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
    fn attempt(&self, work: &mut dyn FnMut()) -> bool {
        if self.shared.is_none() {
            // Local memory cannot be lost.
            work();
            return true;
        }
        arch::rescue::attempt(work)
    }
}
