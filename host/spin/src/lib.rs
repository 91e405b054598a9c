//! A TCG plugin for boards that run freely: a core that waits for another one in a loop gives its
//! time on the host away.
//!
//! A kernel that waits for another kernel's answer polls, because on a chip the answer takes
//! microseconds. QEMU executes such a loop like any other. If the host has fewer processors than
//! the boards have cores, the loop uses up a time slice of milliseconds, and the core that would
//! answer waits for it. QEMU ignores the hint for this (`yield` of AArch64, `pause` of RV64) when
//! each core has a thread of its own; with this plugin the hint reaches the host's scheduler.
//!
//! ```text
//!   loop { ready? relax }  -- the hint, for the 16th time --> sched_yield --> the other core runs
//! ```
//!
//! In the lab domains take turns, and this plugin is not loaded.

mod ffi;

use std::cell::Cell;

/// How often a core executes the hint before it yields: a system call each time would cost more
/// than the wait, which is usually short.
const HINTS: u32 = 16;

/// Returns whether an instruction is the hint of a loop that waits, as `arch::cpu::relax` executes
/// it.
fn is_hint(word: u32) -> bool {
    const YIELD: u32 = 0xd503_203f;
    const PAUSE: u32 = 0x0100_000f;
    word == YIELD || word == PAUSE
}

thread_local! {
    static EXECUTED: Cell<u32> = const { Cell::new(0) };
}

/// The core of this thread executes the hint.
fn hint() {
    let count = EXECUTED.get().wrapping_add(1);
    EXECUTED.set(count);
    if count.is_multiple_of(HINTS) {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hints_and_fences_are_left_alone() {
        // `nop`, `wfe` and `isb`; `fence rw, rw` and `nop`.
        let others = [0xd503_201f, 0xd503_205f, 0xd503_3fdf, 0x0330_000f, 0x0000_0013];
        assert!(is_hint(0xd503_203f) && is_hint(0x0100_000f));
        assert!(!others.into_iter().any(is_hint));
    }

    #[test]
    fn each_thread_counts_its_own() {
        (0..HINTS + 1).for_each(|_| hint());
        assert_eq!(EXECUTED.get(), HINTS + 1);
        assert_eq!(std::thread::spawn(|| EXECUTED.get()).join().ok(), Some(0));
    }
}
