//! Work that is aborted, without unwinding, when memory that it needs is lost for good.
//!
//! [`attempt`] runs its work to the end, unless the fault handler calls [`abandon`] while it runs.
//! Abandoned work simply stops: nothing of it is dropped and no lock is released. So it must not
//! take locks, and everything that it owns must be in memory that is discarded with it. It must not
//! be preempted ([`crate::hold`]), and attempts do not nest.

use crate::attend;
use crate::attend::percore::per_core;
use crate::hold;
use crate::trap::TrapFrame;

unsafe extern "C" {
    /// Stores its stack pointer, calls `entry(argument)` and returns 0, or 1 from `rescue_landing`.
    fn rescue_call(stack: *mut u64, entry: extern "C" fn(*mut u8), argument: *mut u8) -> u64;
    fn rescue_landing();
}

// Stack pointer of the current attempt on this core, or 0.
per_core! { static STACK: u64 = 0; }

/// A reference to a trait object, so that one pointer passes it through the call.
struct Work<'a>(&'a mut dyn FnMut());

/// Runs `work`; returns false if it was abandoned.
pub fn attempt(work: &mut dyn FnMut()) -> bool {
    debug_assert!(hold::is_held(), "an attempt must not be preempted");
    let mut work = Work(work);
    let done = call(&raw mut work);
    STACK.set_held(0);
    done
}

extern "C" fn enter(work: *mut u8) {
    // From here on a landing is possible: `call` has stored the stack pointer.
    // SAFETY: `call` passes the `Work` of `attempt`, which outlives this call.
    let work = unsafe { &mut *work.cast::<Work<'_>>() };
    (work.0)();
}

fn call(work: *mut Work<'_>) -> bool {
    // A test's machine has no faults, and a panic of a test cannot unwind through the assembly.
    #[cfg(not(target_os = "none"))]
    if !crate::cpu::chip::is_simulated() {
        enter(work.cast());
        return true;
    }
    let at = STACK.with(|stack| &raw mut *stack);
    // SAFETY: `enter` gets the argument that it expects; the word belongs to this core, which does
    // not change meanwhile.
    unsafe { rescue_call(at, enter, work.cast()) == 0 }
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
