//! Who has a service's arena in this kernel: its own lock alone, or with the other kernels', whose
//! marks say who died in a step.
//!
//! A kernel's marks lie in its link to itself (`abi::dsm`), which no message uses: written by it
//! only, read by all, and left alone by the soc when it dies.

use crate::coherence::Coherence;
use crate::node::Node;
use alloc::vec::Vec;
use arch::exclusion::Exclusion;
use arch::shared::Window;
use base::addr::PhysAddr;
use base::id::DomainId;
use base::port::{Exclusive, Words};
use core::sync::atomic::{AtomicU32, Ordering};
use share::{Arena, Custody, Marks};

/// What a shared arena has besides.
struct Shared {
    node: &'static Node,
    coherence: &'static Coherence,
    /// This service's mark, of each kernel.
    marks: Vec<Window>,
    base: usize,
    bytes: usize,
    /// The life that this kernel has begun and nobody was told of.
    begun: AtomicU32,
}

/// An arena in this kernel's keeping.
pub struct Keeping {
    arena: Exclusion<Arena>,
    shared: Option<Shared>,
}

impl Keeping {
    /// Of memory that is this kernel's own.
    pub fn alone(arena: Arena) -> Keeping {
        Keeping { arena: Exclusion::new(crate::ranks::SERVICE, None, arena), shared: None }
    }

    /// Of memory that all kernels share; `between` is their lock. `index` names the service.
    pub fn shared(
        node: &'static Node,
        coherence: &'static Coherence,
        between: arch::shared::HwLock,
        index: usize,
        arena: Arena,
    ) -> Option<Keeping> {
        let ids = (0..node.blob.domains().len() as u8).map(DomainId);
        let marks = ids.map(|id| mark(node, id, index)).collect::<Option<Vec<_>>>()?;
        let (base, bytes) = (arena.base(), arena.bytes());
        let begun = AtomicU32::new(0);
        let shared = Shared { node, coherence, marks, base, bytes, begun };
        if node.epoch.0 == 1 {
            // The chip has just begun: what the word holds nobody wrote.
            shared.say(0);
        }
        let arena = Exclusion::new(crate::ranks::SERVICE, Some(between), arena);
        Some(Keeping { arena, shared: Some(shared) })
    }
}

impl Keeping {
    /// The life that has begun here since the last look.
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
    fn say(&self, mark: u64) {
        self.marks[self.node.me.index()].store(0, mark);
        arch::words::barrier();
    }
}

impl Exclusive<Arena> for Keeping {
    fn exclusively(&self, work: &mut dyn FnMut(&mut Arena)) {
        self.arena.exclusively(work);
    }
}

impl Custody for Keeping {
    fn enter(&self) -> Option<Marks> {
        let shared = self.shared.as_ref()?;
        let found = shared.marks.iter().map(|mark| mark.load(0));
        let marks = found.fold(Marks::default(), Marks::with);
        // Before anything in the arena changes.
        shared.say(Marks::mark(marks.lives, true));
        Some(marks)
    }

    fn renew(&self, lives: u32) {
        if let Some(shared) = &self.shared {
            shared.say(Marks::mark(lives, true));
            shared.begun.store(lives, Ordering::Relaxed);
        }
    }

    fn leave(&self, lives: u32) {
        if let Some(shared) = &self.shared {
            // Behind all that changed in the arena.
            arch::words::barrier();
            shared.say(Marks::mark(lives, false));
        }
    }

    fn is_whole(&self) -> bool {
        self.shared.as_ref().is_none_or(|s| s.coherence.is_whole(s.base, s.bytes))
    }

    fn mend(&self) {
        if let Some(s) = &self.shared {
            s.coherence.mend(s.base, s.bytes);
        }
    }

    fn attempt(&self, work: &mut dyn FnMut()) -> bool {
        if self.shared.is_none() {
            // It cannot be lost.
            work();
            return true;
        }
        arch::rescue::attempt(work)
    }
}
