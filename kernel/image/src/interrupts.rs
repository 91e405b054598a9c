//! Dispatches interrupts and faults to the parts of the kernel that handle them.

use crate::{clock, panic};
use arch::handlers::Handlers;
use arch::trap::TrapFrame;
use arch::types::{Fault, Interrupt};
use base::id::DomainId;
use base::port::Trace;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_node::counts::COUNTS;
use kernel_node::shootdown::{self, core_kind};
use kernel_platform::coherence::FaultOutcome;
use kernel_platform::twins::ReferenceKind;
use kernel_programs::{idle, processes, programs};
use kernel_services::kernel::{self, Kernel};

/// The entry points for the trap code in `arch`.
pub static HANDLERS: Handlers = Handlers { interrupt, fault };

fn count(counter: Option<&AtomicU64>) {
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn interrupt(interrupt: Interrupt, frame: &mut TrapFrame) {
    let _own = arch::hold::HandlerScope::new();
    let Some(kernel) = kernel::get() else { return count_interrupt(interrupt) };
    match interrupt {
        Interrupt::Doorbell(vector) => doorbell(kernel, u32::from(vector.0), frame.pc()),
        Interrupt::Core(core_kind::SHOOTDOWN) => {
            shootdown::serve();
            if let Some(coherence) = &kernel.coherence {
                coherence.on_doorbell(frame.pc());
            }
        }
        Interrupt::Core(core_kind::STOP) => arch::cpu::halt(),
        _ => {}
    }
    idle::awake(kernel);
    // Counted after the urgent work.
    count_interrupt(interrupt);
    kernel.scheduler.on_interrupt(interrupt);
    prepare_return(kernel, frame);
}

/// Handles a doorbell that interrupted the code at `pc`. Interrupts are masked.
fn doorbell(kernel: &Kernel, vector: u32, pc: u64) {
    if vector == kernel.blob.vector_dsm {
        if let Some(coherence) = &kernel.coherence {
            coherence.on_doorbell(pc);
        }
        #[cfg(feature = "trials")]
        kernel_trials::pingpong::heard(kernel);
    } else if vector == kernel.blob.vector_msg {
        kernel.peers.poll(kernel);
    } else if vector == kernel.blob.vector_chip {
        chip_changed(kernel);
    } else {
        kernel.devices.interrupt(kernel, vector);
    }
}

fn chip_changed(kernel: &Kernel) {
    kernel.peers.look_at_chip(kernel);
    if let Some(coherence) = &kernel.coherence {
        coherence.look_at_chip();
    }
    kernel.services.look_at_chip(kernel);
    if let Some(balloons) = &kernel.balloons {
        balloons.look_at_chip(kernel);
    }
    kernel.peers.poll(kernel);
    clock::look_at_chip(kernel);
    for domain in (0..kernel.blob.domains().len() as u8).map(DomainId) {
        if let Some(state) = kernel.soc.change(domain) {
            kernel.trace.event("chip", domain.0.into(), state);
        }
    }
}

fn count_interrupt(interrupt: Interrupt) {
    match interrupt {
        Interrupt::Timer => count(Some(&COUNTS.timer)),
        Interrupt::Core(kind) => count(COUNTS.core.get(kind as usize)),
        Interrupt::Doorbell(vector) => count(COUNTS.doorbell.get(vector.index())),
        Interrupt::None => count(Some(&COUNTS.spurious)),
    }
}

/// Prepares the return to the interrupted code. If that is a program, this core stops polling; and
/// if the program must be stopped, it is diverted to a function that traps.
#[inline(never)]
fn prepare_return(kernel: &'static Kernel, frame: &mut TrapFrame) {
    // The handler runs on the stack of the interrupted code.
    let here = 0u8;
    if programs::is_inside((&raw const here) as u64) {
        idle::to_program(kernel);
        if processes::any_must_end() {
            processes::divert(kernel, frame);
        }
    }
}

/// Handles faults on pages of the shared block. A root of `tests/reach.toml`: nothing that it calls
/// may allocate or sleep.
#[inline(never)]
fn shared(pc: u64, fault: Fault) -> FaultOutcome {
    let Some(kernel) = kernel::get() else { return FaultOutcome::Other };
    kernel.coherence.as_ref().map_or(FaultOutcome::Other, |coherence| coherence.fault(pc, fault))
}

/// Handles a fault of kernel code or of a program. Pages of the shared block come first, because
/// their faults are frequent.
fn fault(frame: &mut TrapFrame, fault: Fault) {
    let _own = arch::hold::HandlerScope::new();
    if !may_concern_shared_block(fault) && arch::probe::recover(frame, fault) {
        return;
    }
    match shared(frame.pc(), fault) {
        FaultOutcome::Page => {}
        FaultOutcome::Loss if arch::rescue::abandon(frame) => {}
        _ => handle_other_fault(frame, fault),
    }
}

/// Returns whether the fault may concern the shared block, that is, an address in the linear map.
fn may_concern_shared_block(fault: Fault) -> bool {
    matches!(fault, Fault::Page { address, .. } if address >= abi::boot::VA_OFFSET)
}

/// Handles the other expected faults: accesses of `arch::probe`, pages of a program's memory that
/// are allocated on demand, and traps of programs.
#[cold]
#[inline(never)]
fn handle_other_fault(frame: &mut TrapFrame, fault: Fault) {
    let met = arch::probe::recover(frame, fault)
        || programs::demand(frame, fault, processes::ran_short)
        || programs::trap(frame, fault);
    if !met {
        unhandled_fault(frame, fault);
    }
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
