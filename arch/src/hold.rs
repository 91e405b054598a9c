//! What a core keeps while it does one piece of work: itself, and the heap that the work allocates
//! from.
//!
//! **Unpreempted** work may be interrupted, but no other thread runs on its core until it is done;
//! it must not block. The scheduler asks [`postpone`] before it takes a core away, and looks again
//! when [`end`] says that somebody was put off.
//!
//! **The current heap** is a number that the allocator knows: 0 is the kernel's own. It is changed
//! within unpreempted work only, and an interrupt begins with 0 ([`Own`]), so it belongs to a piece
//! of work and needs no place in a thread.

use crate::attend::percore::per_core;

struct State {
    depth: u32,
    /// The scheduler wanted the core meanwhile.
    wanted: bool,
    heap: usize,
}

per_core! { static STATE: State = State { depth: 0, wanted: false, heap: 0 }; }

/// Unpreempted from here on; nests.
pub fn begin() {
    STATE.with(|state| state.depth += 1);
}

/// The end of what [`begin`] began. True: somebody was put off, so have the scheduler look.
#[must_use]
pub fn end() -> bool {
    STATE.with(|state| {
        state.depth -= 1;
        state.depth == 0 && core::mem::take(&mut state.wanted)
    })
}

/// Is this core kept?
pub fn is_held() -> bool {
    STATE.with(|state| state.depth > 0)
}

/// The scheduler would give this core to another thread: is that put off?
pub fn postpone() -> bool {
    STATE.with(|state| {
        state.wanted |= state.depth > 0;
        state.depth > 0
    })
}

/// The heap that this core allocates from.
#[inline]
pub fn heap() -> usize {
    STATE.with(|state| state.heap)
}

/// Another one, from within unpreempted work; returns the one before, to be set again.
pub fn set_heap(heap: usize) -> usize {
    STATE.with(|state| {
        debug_assert!(state.depth > 0, "a heap belongs to unpreempted work");
        core::mem::replace(&mut state.heap, heap)
    })
}

/// While it lives, this core allocates from the kernel's own heap, and takes locks in an order of
/// their own: for interrupts and faults, whoever they came upon.
#[must_use]
pub struct Own {
    heap: usize,
    order: usize,
}

impl Own {
    /// From here on.
    #[inline]
    pub fn new() -> Own {
        let order = crate::lock::new_order();
        Own { heap: STATE.with(|state| core::mem::take(&mut state.heap)), order }
    }
}

impl Default for Own {
    fn default() -> Own {
        Own::new()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        STATE.with(|state| state.heap = self.heap);
        crate::lock::old_order(self.order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wanted_the_core_is_told_at_the_end() {
        assert!(!postpone(), "nobody keeps the core");
        begin();
        begin();
        assert!(postpone() && is_held());
        assert!(!end(), "still within the first");
        assert!(end());
        begin();
        assert!(!end(), "told once");
    }

    #[test]
    fn an_interrupt_finds_the_kernels_heap_and_leaves_the_other() {
        begin();
        assert_eq!(set_heap(7), 0);
        {
            let _own = Own::new();
            assert_eq!(heap(), 0);
            begin();
            assert_eq!(set_heap(9), 0, "a service within an interrupt would nest");
            set_heap(0);
            let _ = end();
        }
        assert_eq!(heap(), 7);
        assert_eq!(set_heap(0), 7);
        let _ = end();
    }
}
