//! Work that can be given up in the middle, when memory that it needs is lost for good.
//!
//! Contract: [`attempt`] runs its work to the end, or until the fault handler, which came upon it,
//! says [`abandon`]; then the work is not heard of any more: nothing of it is dropped, no lock that
//! it took is released. So it takes none, and what it owns lies in memory that is discarded with
//! it. It keeps its core ([`crate::hold`]), and does not nest.

use crate::attend::percore::per_core;
use crate::hold;
use crate::trap::TrapFrame;

#[cfg(target_os = "none")]
unsafe extern "C" {
    /// Stores its stack pointer, calls `entry(argument)` and returns 0; 1 from the landing.
    fn rescue_call(stack: *mut u64, entry: extern "C" fn(*mut u8), argument: *mut u8) -> u64;
    fn rescue_landing();
}

// Stack pointer of the attempt under way on this core, or 0.
per_core! { static STACK: u64 = 0; }

/// A reference to a trait object, as one pointer for the call.
struct Work<'a>(&'a mut dyn FnMut());

/// Runs `work`; false when it was abandoned.
pub fn attempt(work: &mut dyn FnMut()) -> bool {
    assert!(hold::is_held(), "an attempt keeps its core");
    let mut work = Work(work);
    let done = call(&raw mut work);
    STACK.with(|stack| *stack = 0);
    done
}

extern "C" fn enter(work: *mut u8) {
    // The landing's place is known from here on: `call` has stored it.
    // SAFETY: `call` passes the `Work` of `attempt`, which waits for it.
    let work = unsafe { &mut *work.cast::<Work<'_>>() };
    (work.0)();
}

#[cfg(target_os = "none")]
fn call(work: *mut Work<'_>) -> bool {
    let at = STACK.with(|stack| &raw mut *stack);
    // SAFETY: `enter` is given what it expects; the word is this core's, which stays this one.
    unsafe { rescue_call(at, enter, work.cast()) == 0 }
}

#[cfg(not(target_os = "none"))]
fn call(work: *mut Work<'_>) -> bool {
    enter(work.cast());
    true
}

/// For the fault handler: gives up the attempt under way on this core, when the handler returns.
/// False: there is none.
pub fn abandon(frame: &mut TrapFrame) -> bool {
    let stack = STACK.with(core::mem::take);
    if stack == 0 {
        return false;
    }
    land(frame, stack);
    true
}

#[cfg(target_os = "none")]
fn land(frame: &mut TrapFrame, stack: u64) {
    frame.set_pc(rescue_landing as *const () as u64);
    frame.set_sp(stack);
}

#[cfg(not(target_os = "none"))]
fn land(_: &mut TrapFrame, _: u64) {}
