//! A thread of a process that runs on two kernels enters and leaves the process's turn
//! ([`crate::lights`]). For all other processes this does nothing.
//!
//! Contract: a thread is inside while it executes the program, and in the kernel while it uses the
//! program's memory or descriptors. It is outside while it waits.

use super::LocalProcess;
use super::threads::Thread;
use crate::lights::turn;
use crate::programs::is_inside;
use arch::trap::TrapFrame;
use core::sync::atomic::Ordering;
use kernel_process::Interrupted;
use kernel_services::idle;
use kernel_services::kernel::Kernel;

/// Leaves. Returns whether the thread was inside.
#[inline]
pub fn leave(kernel: &Kernel, life: &LocalProcess, thread: &Thread) -> bool {
    let Some(turn) = life.turn.get() else { return false };
    let was_inside = thread.is_inside.swap(false, Ordering::Relaxed);
    if was_inside {
        turn.leave(kernel, thread.place());
    }
    was_inside
}

/// Enters: waits for the turn. Fails if the process must end.
#[inline]
pub fn enter(kernel: &Kernel, life: &LocalProcess, thread: &Thread) -> Result<(), Interrupted> {
    let Some(turn) = life.turn.get() else { return Ok(()) };
    let is_over = || life.stop_signal().is_some();
    turn.enter(kernel, thread.place(), &is_over)?;
    thread.is_inside.store(true, Ordering::Relaxed);
    idle::to_program(kernel);
    Ok(())
}

/// Called at the end of an interrupt on a program's stack, if light threads must leave: one that
/// executes its program waits here for its next turn. If its process must end, it is diverted.
#[cold]
#[inline(never)]
pub fn suspend(kernel: &Kernel, frame: &mut TrapFrame) {
    let found = super::get().filter(|_| is_inside(frame.pc())).and_then(|all| all.mine(kernel));
    let Some((life, thread)) = found else { return };
    let program = life.running.get().map(|running| &running.loaded);
    // Elsewhere it would not be diverted if it must end. It comes by here again.
    let way_out = program.and_then(|program| program.way_out(frame.pc()));
    if let Some(way_out) = way_out
        && pause(kernel, &life, &thread).is_err()
    {
        frame.set_pc(way_out);
    }
}

/// Lets a light thread wait that must leave. Fails for a thread that is not inside: it has been
/// refused, since the process ends, and uses nothing of the process any more.
pub fn pause(kernel: &Kernel, life: &LocalProcess, thread: &Thread) -> Result<(), Interrupted> {
    if !thread.is_inside.load(Ordering::Relaxed) {
        return Err(Interrupted);
    }
    match any_must_leave() && life.is_satellite() && leave(kernel, life, thread) {
        true => enter(kernel, life, thread),
        false => Ok(()),
    }
}

/// Returns whether light threads must leave. May be called in any context.
#[inline]
pub fn any_must_leave() -> bool {
    turn::any_must_leave()
}
