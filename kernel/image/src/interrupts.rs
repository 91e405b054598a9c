//! Interrupts and faults of this kernel: who gets them.

use crate::coherence::Met;
use crate::counts::COUNTS;
use crate::kernel::{self, Kernel};
use crate::shootdown::{self, core_kind};
use crate::twins::Met as Away;
use crate::{clock, idle, panic, processes, programs};
use arch::trap::TrapFrame;
use arch::types::{Fault, Handlers, Interrupt};
use base::id::DomainId;
use base::port::Trace;
use core::sync::atomic::{AtomicU64, Ordering};

/// What the trap code calls.
pub static HANDLERS: Handlers = Handlers { interrupt, fault };

fn count(counter: Option<&AtomicU64>) {
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn interrupt(interrupt: Interrupt, frame: &mut TrapFrame) {
    let _own = arch::hold::HandlerScope::new();
    let Some(kernel) = kernel::get() else { return note(interrupt) };
    match interrupt {
        Interrupt::Doorbell(vector) => doorbell(kernel, u32::from(vector.0), frame.pc()),
        Interrupt::Core(core_kind::SHOOTDOWN) => {
            shootdown::serve();
            if let Some(coherence) = &kernel.coherence {
                coherence.heard(frame.pc());
            }
        }
        Interrupt::Core(core_kind::STOP) => arch::cpu::halt(),
        _ => {}
    }
    idle::awake(kernel);
    // Behind what hurries.
    note(interrupt);
    kernel.scheduler.on_interrupt(interrupt);
    onward(kernel, frame);
}

/// A doorbell rang, and the code at `pc` was interrupted; interrupts are masked.
fn doorbell(kernel: &Kernel, vector: u32, pc: u64) {
    if vector == kernel.blob.vector_dsm {
        if let Some(coherence) = &kernel.coherence {
            coherence.heard(pc);
        }
        #[cfg(feature = "trials")]
        crate::trials::pingpong::heard(kernel);
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

fn note(interrupt: Interrupt) {
    match interrupt {
        Interrupt::Timer => count(Some(&COUNTS.timer)),
        Interrupt::Core(kind) => count(COUNTS.core.get(kind as usize)),
        Interrupt::Doorbell(vector) => count(COUNTS.doorbell.get(vector.index())),
        Interrupt::None => count(Some(&COUNTS.spurious)),
    }
}

/// What was interrupted goes on; if it is a program's, its core polls nothing from here on. One
/// that is to be stopped goes on where it ends.
#[inline(never)]
fn onward(kernel: &'static Kernel, frame: &mut TrapFrame) {
    // The interrupted code's stack is this one.
    let here = 0u8;
    if programs::is_inside((&raw const here) as u64) {
        idle::to_program(kernel);
        if processes::some_stop() {
            processes::divert(kernel, frame);
        }
    }
}

/// A fault in memory that kernels share is how it comes here. A root of
/// `tests/reach.toml`: what it calls neither allocates nor sleeps.
#[inline(never)]
fn shared(pc: u64, fault: Fault) -> Met {
    let Some(kernel) = kernel::get() else { return Met::Other };
    kernel.coherence.as_ref().map_or(Met::Other, |coherence| coherence.fault(pc, fault))
}

/// A fault of kernel code, or of a program. Those of pages that kernels share are many and hurry.
fn fault(frame: &mut TrapFrame, fault: Fault) {
    let _own = arch::hold::HandlerScope::new();
    if !hurries(fault) && arch::probe::recover(frame, fault) {
        return;
    }
    match shared(frame.pc(), fault) {
        Met::Page => {}
        Met::Loss if arch::rescue::abandon(frame) => {}
        _ => elsewhere(frame, fault),
    }
}

/// May it be a page that kernels share? Those lie in the linear map.
fn hurries(fault: Fault) -> bool {
    matches!(fault, Fault::Page { address, .. } if address >= abi::boot::VA_OFFSET)
}

/// An access that may fault, a page of a program's memory, a program's trap, or nothing that is
/// right.
#[cold]
#[inline(never)]
fn elsewhere(frame: &mut TrapFrame, fault: Fault) {
    let met = arch::probe::recover(frame, fault)
        || programs::demand(frame, fault, processes::ran_short)
        || programs::trap(frame, fault);
    if !met {
        astray(frame, fault);
    }
}

/// A call into another kernel's image goes on in this one's, or is a stray reference that ends the
/// attempt it came from. Any other fault of kernel code is a bug in us, unless a self-test asked
/// for it.
fn astray(frame: &mut TrapFrame, fault: Fault) {
    match kernel::get().map_or(Away::Other, |kernel| kernel.others.meet(frame.pc(), fault)) {
        Away::Twin(pc) => return frame.set_pc(pc),
        Away::Stray(stray) if arch::rescue::abandon(frame) => return crate::log!("{stray}"),
        Away::Stray(stray) => panic::die(format_args!("{stray}"), frame.fp(), frame),
        Away::Other => {}
    }
    panic::die(format_args!("{fault:x?} at pc {:#x}", frame.pc()), frame.fp(), frame);
}
