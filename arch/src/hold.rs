//! Work that is not preempted, and the heap that it allocates from.
//!
//! **Unpreempted** work may be interrupted, but no other thread runs on its core until it is done;
//! it must not block. The scheduler calls [`postpone`] before it preempts a thread, and runs again
//! when [`end`] reports that a preemption was postponed.
//!
//! **The current heap** of a core is a number known to the allocator; 0 is the kernel's own heap.
//! It changes only within unpreempted work, and interrupt handlers start with 0 ([`HandlerScope`]),
//! so it is not part of a thread's state.

use crate::attend::percore::{per_core, word_per_core};

struct State {
    depth: u32,
    /// A preemption was postponed.
    wanted: bool,
}

per_core! { static STATE: State = State { depth: 0, wanted: false }; }
// The current heap.
word_per_core! { static HEAP; }

/// Disables preemption. Nests.
#[inline]
pub fn begin() {
    STATE.with(|state| state.depth += 1);
}

/// Ends one [`begin`]. Returns true if a preemption was postponed: the caller invokes the
/// scheduler.
#[must_use]
#[inline]
pub fn end() -> bool {
    STATE.with(|state| {
        state.depth -= 1;
        state.depth == 0 && core::mem::take(&mut state.wanted)
    })
}

/// Returns whether preemption is disabled.
#[inline]
pub fn is_held() -> bool {
    STATE.with(|state| state.depth > 0)
}

/// Asks to preempt this core. Returns true if that is postponed until [`end`].
pub fn postpone() -> bool {
    STATE.with(|state| {
        state.wanted |= state.depth > 0;
        state.depth > 0
    })
}

/// Returns the heap that this core allocates from.
#[inline]
pub fn heap() -> usize {
    HEAP.get()
}

/// Returns true only if this core allocates from the kernel's own heap; seldom false then.
#[inline]
pub fn is_kernel_heap() -> bool {
    // This may be the word of a core on which the caller was before it was preempted. 0 is right
    // even then: work that can be preempted has no other heap.
    HEAP.glance() == 0
}

/// Selects a heap, within unpreempted work. Returns the previous one, to be restored.
#[inline]
pub fn set_heap(heap: usize) -> usize {
    debug_assert!(is_held(), "a heap is selected within unpreempted work");
    HEAP.set_held(heap)
}

/// Scope of an interrupt or fault handler: while it lives, this core allocates from the kernel's
/// own heap and takes locks in an order of their own, whatever was interrupted. It is not
/// preempted.
#[must_use]
pub struct HandlerScope {
    heap: usize,
    order: usize,
}

impl HandlerScope {
    #[inline]
    pub fn new() -> HandlerScope {
        let order = crate::order::begin_order();
        HandlerScope { heap: HEAP.set_held(0), order }
    }
}

impl Default for HandlerScope {
    fn default() -> HandlerScope {
        HandlerScope::new()
    }
}

impl Drop for HandlerScope {
    fn drop(&mut self) {
        HEAP.set_held(self.heap);
        crate::order::end_order(self.order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_postponed_preemption_is_reported_once_at_the_end() {
        assert!(!postpone(), "preemption is enabled");
        begin();
        begin();
        assert!(postpone() && is_held());
        assert!(!end(), "the outer one is still active");
        assert!(end());
        begin();
        assert!(!end(), "already reported");
    }

    #[test]
    fn an_interrupt_uses_the_kernel_heap_and_restores_the_interrupted_one() {
        begin();
        assert_eq!(set_heap(7), 0);
        {
            let _own = HandlerScope::new();
            assert_eq!(heap(), 0);
            begin();
            assert_eq!(set_heap(9), 0, "work within an interrupt nests");
            set_heap(0);
            let _ = end();
        }
        assert_eq!(heap(), 7);
        assert_eq!(set_heap(0), 7);
        let _ = end();
    }
}
