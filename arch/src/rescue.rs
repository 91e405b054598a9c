//! Work that is aborted, without unwinding, when memory that it needs is lost for good.
//!
//! [`attempt`] runs its work to the end, unless the fault handler calls [`abandon`] while it runs.
//! Abandoned work simply stops: nothing of it is dropped and no lock is released. So it must not
//! take locks, and everything that it owns must be in memory that is discarded with it. It must not
//! be preempted ([`crate::hold`]), and attempts do not nest.

use core::mem::ManuallyDrop;

use crate::attend;
use crate::attend::percore::per_core;
use crate::hold;
use crate::trap::TrapFrame;

unsafe extern "C" {
    /// Stores its stack pointer, calls `entry(argument)` and returns 0, or 1 from `rescue_landing`.
    fn rescue_call(stack: *mut u64, entry: unsafe extern "C" fn(*mut u8), argument: *mut u8)
    -> u64;
    fn rescue_landing();
}

// Stack pointer of the current attempt on this core, or 0.
per_core! { static STACK: u64 = 0; }

/// Runs `work`; returns false if it was abandoned.
#[inline]
pub fn attempt<W: FnOnce()>(work: W) -> bool {
    debug_assert!(hold::is_held(), "an attempt must not be preempted");
    // A test's machine has no faults, and a panic of a test cannot unwind through the assembly.
    #[cfg(not(target_os = "none"))]
    if !crate::cpu::chip::is_simulated() {
        work();
        return true;
    }
    // Abandoned work is not dropped.
    let mut work = ManuallyDrop::new(work);
    let work = &raw mut work;
    // SAFETY: `enter` gets the argument that it expects, once; the word belongs to this core, which
    // does not change meanwhile.
    let done = unsafe { rescue_call(STACK.place(), enter::<W>, work.cast()) == 0 };
    STACK.set_held(0);
    done
}

/// Runs the work at `work`. From here on a landing is possible: `rescue_call` has stored the stack
/// pointer.
///
/// # Safety
/// `work` is a `ManuallyDrop<W>`, which nothing else uses any more.
unsafe extern "C" fn enter<W: FnOnce()>(work: *mut u8) {
    // SAFETY: by this function's contract.
    unsafe { ManuallyDrop::take(&mut *work.cast::<ManuallyDrop<W>>())() }
}

/// For the fault handler: abandons the current attempt on this core when the handler returns.
/// Returns false if there is none.
pub fn abandon(frame: &mut TrapFrame) -> bool {
    let stack = STACK.with(core::mem::take);
    if stack == 0 {
        return false;
    }
    land(frame, stack);
    true
}

/// For an interrupt handler: the same, wherever the interrupt came. Returns false also if the
/// attempt has just ended.
pub fn abandon_interrupted(frame: &mut TrapFrame) -> bool {
    // `rescue_call` has returned if the stack is shorter than what it stored, and its part of the
    // stack may hold other things.
    let is_inside = STACK.with(|stack| *stack != 0 && frame.sp() <= *stack);
    is_inside && abandon(frame)
}

fn land(frame: &mut TrapFrame, stack: u64) {
    attend::end_waits();
    frame.set_pc(rescue_landing as *const () as u64);
    frame.set_sp(stack);
}
