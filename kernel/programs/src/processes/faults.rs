//! What follows if a page of a process is not there, in its program or in the kernel on its behalf.

use super::{Program, Running, get};
use crate::programs::{Short, is_inside};
use abi::process::signal;
use arch::trap::TrapFrame;
use core::sync::atomic::Ordering;
use kernel_node::shootdown::core_kind;

/// Called by the fault handler when there is no memory for a page of the calling thread's process.
/// Makes that process end. Returns how the handler proceeds.
#[cold]
#[inline(never)]
pub fn ran_short(frame: &TrapFrame) -> Short {
    let by_program = is_inside(frame.pc());
    let found = kernel_services::kernel::get().and_then(|kernel| get()?.mine(kernel));
    let Some((life, _)) = found else { return Short::Kernel };
    let before = life.short.fetch_add(1, Ordering::Relaxed);
    match life.running.get() {
        _ if by_program => Short::Code,
        Some(Running { loaded: program, .. }) if before >= MOST_SHORT => {
            caller_way_out(program, frame).map_or(Short::Kernel, Short::Much)
        }
        _ => {
            life.set_stop(signal::KILL);
            arch::irq::send_core(arch::cpu::core(), core_kind::LOOK);
            Short::Kernel
        }
    }
}

/// Returns the way out of the program that has called the interrupted kernel code.
fn caller_way_out(program: &Program, frame: &TrapFrame) -> Option<u64> {
    let (mut way_out, from) = (None, (frame.pc(), frame.fp()));
    arch::backtrace::frames(from, &|pc| program.holds(pc), &mut |pc| {
        way_out = way_out.or_else(|| program.way_out(pc));
    });
    way_out
}

/// Called by the fault handler when kernel code has used memory of the calling thread's process
/// that two kernels use, and it is not there: the thread has failed to enter, or what the other
/// kernel left is damaged. Returns where execution continues, which ends the program.
#[cold]
#[inline(never)]
pub fn lent_is_gone(frame: &TrapFrame) -> Option<u64> {
    let (life, _) = kernel_services::kernel::get().and_then(|kernel| get()?.mine(kernel))?;
    caller_way_out(&life.running.get()?.loaded, frame)
}

/// Most pages that the kernel gets on behalf of a process after memory ran short. With the next
/// one, the process is diverted. An ordinary call needs fewer pages; filling memory needs more. The
/// kernel's last memory suffices if all cores reach this number at the same time.
const MOST_SHORT: u32 = 32;
