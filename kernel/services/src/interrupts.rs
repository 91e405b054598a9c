//! Interrupts and faults, as far as they concern the node, its drivers and the services. The
//! kernel's entry points call these first.

use crate::kernel::{self, Kernel};
use crate::{clock, duty, hangs, idle};
use arch::trap::TrapFrame;
use arch::types::{Fault, Interrupt};
use base::id::DomainId;
use base::port::Trace;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_node::counts::COUNTS;
use kernel_node::shootdown::{self, core_kind};
use kernel_platform::coherence::FaultOutcome;

fn count(counter: Option<&AtomicU64>) {
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Serves an interrupt of the code in `frame`. Interrupts are masked.
#[inline]
pub fn serve(kernel: &'static Kernel, interrupt: Interrupt, frame: &mut TrapFrame) {
    let pc = frame.pc();
    match interrupt {
        Interrupt::Doorbell(vector) if u32::from(vector.0) == kernel.blob.vector_chip => {
            // First: another domain may wait for locks that this one keeps.
            duty::look_at_others(kernel);
            hangs::obey(kernel, frame);
            chip_changed(kernel);
        }
        Interrupt::Doorbell(vector) => doorbell(kernel, u32::from(vector.0), pc),
        Interrupt::Core(core_kind::SHOOTDOWN) => {
            shootdown::serve();
            if let Some(coherence) = &kernel.coherence {
                coherence.on_doorbell(pc);
            }
        }
        Interrupt::Core(core_kind::STOP) => arch::cpu::halt(),
        Interrupt::Core(core_kind::ABANDON) => hangs::interrupted(kernel, frame),
        Interrupt::Timer => hangs::look(kernel, frame),
        _ => {}
    }
}

/// Ends an interrupt after [`serve`]: this core polls again, and another thread may run.
#[inline]
pub fn end(kernel: &'static Kernel, interrupt: Interrupt) {
    idle::awake(kernel);
    count_interrupt(interrupt);
    kernel.scheduler.on_interrupt(interrupt);
}

/// Handles a doorbell that interrupted the code at `pc`. Interrupts are masked.
fn doorbell(kernel: &Kernel, vector: u32, pc: u64) {
    if vector == kernel.blob.vector_dsm {
        if let Some(coherence) = &kernel.coherence {
            coherence.on_doorbell(pc);
        }
    } else if vector == kernel.blob.vector_msg {
        kernel.peers.poll(kernel);
    } else {
        kernel.devices.interrupt(kernel, vector);
    }
}

fn chip_changed(kernel: &Kernel) {
    hangs::answer(kernel);
    kernel.peers.look_at_chip(kernel);
    kernel.channels.look_at_chip(kernel, &kernel.peers);
    if let Some(coherence) = &kernel.coherence {
        coherence.look_at_chip();
    }
    kernel.services.look_at_chip(kernel);
    if let Some(balloons) = &kernel.balloons {
        balloons.look_at_chip(kernel);
    }
    kernel.peers.poll(kernel);
    clock::look_at_chip(kernel);
    duty::look(kernel);
    for domain in (0..kernel.blob.domains().len() as u8).map(DomainId) {
        if let Some(state) = kernel.soc.change(domain) {
            kernel.trace.event("chip", domain.0.into(), state);
        }
    }
}

/// Counts an interrupt. Also called when there is no kernel yet, and so nothing serves interrupts.
pub fn count_interrupt(interrupt: Interrupt) {
    match interrupt {
        Interrupt::Timer => count(Some(&COUNTS.timer)),
        Interrupt::Core(kind) => count(COUNTS.core.get(kind as usize)),
        Interrupt::Doorbell(vector) => count(COUNTS.doorbell.get(vector.index())),
        Interrupt::None => count(Some(&COUNTS.spurious)),
    }
}

/// Handles faults on pages of the shared block. A root of `tests/reach.toml`: nothing that it calls
/// may allocate or sleep.
#[inline(never)]
fn shared(pc: u64, fault: Fault) -> FaultOutcome {
    let Some(kernel) = kernel::get() else { return FaultOutcome::Other };
    let Some(coherence) = &kernel.coherence else { return FaultOutcome::Other };
    #[cfg(feature = "trials")]
    hangs::hang_in_fault(coherence);
    coherence.fault(pc, fault)
}

/// Handles page faults of kernel code on the shared block, and faults of `arch::probe` outside the
/// linear map. Returns false for all other faults. These include a probe's fault in the linear map:
/// the caller handles it, because faults on the shared block are frequent and are checked first.
#[inline]
pub fn fault(frame: &mut TrapFrame, fault: Fault) -> bool {
    if !may_concern_shared_block(fault) && arch::probe::recover(frame, fault) {
        return true;
    }
    match shared(frame.pc(), fault) {
        FaultOutcome::Page => true,
        FaultOutcome::Loss => arch::rescue::abandon(frame),
        FaultOutcome::Other => false,
    }
}

/// Returns whether the fault may concern the shared block, that is, an address in the linear map.
fn may_concern_shared_block(fault: Fault) -> bool {
    matches!(fault, Fault::Page { address, .. } if address >= abi::boot::VA_OFFSET)
}
