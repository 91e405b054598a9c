//! Dispatches interrupts and faults to the parts of the kernel that handle them.

use crate::panic;
use arch::handlers::Handlers;
use arch::trap::TrapFrame;
use arch::types::{Fault, Interrupt};
use base::addr::VirtAddr;
use base::id::Vector;
use kernel_platform::twins::ReferenceKind;
use kernel_programs::{processes, programs};
use kernel_services::kernel::{self, Kernel};
use kernel_services::{idle, interrupts};

/// The entry points for the trap code in `arch`.
pub static HANDLERS: Handlers = Handlers { interrupt, fault };

fn interrupt(interrupt: Interrupt, frame: &mut TrapFrame) {
    let _own = arch::hold::HandlerScope::new();
    let Some(kernel) = kernel::get() else { return interrupts::count_interrupt(interrupt) };
    interrupts::serve(kernel, interrupt, frame);
    #[cfg(feature = "trials")]
    if interrupt == Interrupt::Doorbell(Vector(kernel.blob.vector_dsm as u8)) {
        kernel_trials::pingpong::heard(kernel);
    }
    if interrupt == Interrupt::Doorbell(Vector(kernel.blob.vector_chip as u8)) {
        processes::forget::look_again(kernel);
        processes::pipes::look_again(kernel);
    }
    interrupts::end(kernel, interrupt);
    prepare_return(kernel, frame);
}

/// Prepares the return to the interrupted code. If that is a program, this core stops polling. A
/// light thread waits here until it is its turn. If the program must be stopped, it is diverted to
/// a function that traps.
#[inline(never)]
fn prepare_return(kernel: &'static Kernel, frame: &mut TrapFrame) {
    // The handler runs on the stack of the interrupted code.
    let here = 0u8;
    if programs::is_inside((&raw const here) as u64) {
        idle::to_program(kernel);
        if processes::turns::any_must_leave() {
            processes::turns::suspend(kernel, frame);
        }
        if processes::any_must_end() {
            processes::divert(kernel, frame);
        }
    }
}

/// Handles a fault of kernel code or of a program. Those of shared memory come first, because they
/// are frequent.
fn fault(frame: &mut TrapFrame, fault: Fault) {
    let _own = arch::hold::HandlerScope::new();
    if !interrupts::fault(frame, fault) {
        handle_other_fault(frame, fault);
    }
}

/// Handles the other expected faults: on pages that another core has mapped since this one's TLB
/// cached that they were not, accesses of `arch::probe`, pages of a program's memory that are
/// allocated on demand, and traps of programs.
#[cold]
#[inline(never)]
fn handle_other_fault(frame: &mut TrapFrame, fault: Fault) {
    let met = is_spurious(fault)
        || arch::probe::recover(frame, fault)
        || programs::demand(frame, fault, processes::ran_short, processes::lent_is_gone)
        || programs::trap(frame, fault);
    if !met {
        unhandled_fault(frame, fault);
    }
}

fn is_spurious(fault: Fault) -> bool {
    matches!(fault, Fault::Page { address, access, is_cached: true }
        if arch::mmu::is_spurious(VirtAddr(address), access))
}

/// Handles unexpected faults of kernel code. A call into another kernel's image continues in its
/// twin, if there is one. Any other reference into such an image is a stray: it aborts the step
/// that made it, or else the kernel panics. All other faults are bugs: the kernel panics.
fn unhandled_fault(frame: &mut TrapFrame, fault: Fault) {
    match kernel::get()
        .map_or(ReferenceKind::Other, |kernel| kernel.others.classify(frame.pc(), fault))
    {
        ReferenceKind::Twin(pc) => return frame.set_pc(pc),
        ReferenceKind::Stray(stray) if arch::rescue::abandon(frame) => {
            return kernel_node::log!("{stray}");
        }
        ReferenceKind::Stray(stray) => panic::die(format_args!("{stray}"), frame.fp(), frame),
        ReferenceKind::Other => {}
    }
    panic::die(format_args!("{fault:x?} at pc {:#x}", frame.pc()), frame.fp(), frame);
}
