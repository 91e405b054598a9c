//! Cores of this domain: started, and what each does before it joins the scheduler, and whenever
//! it waits.

use crate::kernel::{self, Kernel};
use crate::{balloon, interrupts, memory, shootdown};
use abi::boot::Blob;
use arch::attend::Waits;
use arch::types::StartError;
use base::addr::PhysAddr;
use base::id::{CoreId, Vector};

/// A core that was started, or came back.
pub fn enter(core: usize) {
    arch::trap::install(&interrupts::HANDLERS);
    arch::irq::init_core();
    up(core);
}

/// What every core does before it joins the scheduler.
pub fn up(core: usize) {
    arch::attend::install(serve_while_waiting);
    arch::attend::install_stalled(rouse);
    shootdown::core_started();
    if let Some(kernel) = kernel::get() {
        // Who is alone has nobody to look for.
        if kernel.peers.exist() || kernel.balloons.is_some() {
            arch::attend::install_released(poll_after_release);
        }
        kernel.attendance[core].lock().enter(&kernel.own_page);
    }
}

/// Between two looks of a waiting core: shootdowns, pages, and urgent messages, which may lock.
fn serve_while_waiting(waits: Waits) {
    shootdown::serve();
    if let Some(kernel) = kernel::get() {
        if waits == Waits::Event {
            kernel.peers.serve_urgent();
        }
        if let Some(coherence) = &kernel.coherence {
            coherence.serve();
        }
    }
}

/// Somebody keeps a lock that this core waits for.
fn rouse() {
    if let Some(kernel) = kernel::get() {
        kernel.rouse();
    }
}

/// When a core releases its outermost lock.
fn poll_after_release() {
    if let Some(kernel) = kernel::get() {
        kernel.peers.poll(kernel);
        if balloon::was_pressed() {
            pressed(kernel);
        }
    }
}

#[cold]
#[inline(never)]
fn pressed(kernel: &Kernel) {
    if let Some(balloons) = &kernel.balloons {
        balloons.pressed(kernel);
    }
}

/// Starts a core of this domain that is off.
pub fn start(
    core: usize,
    stack: usize,
    entry: extern "C" fn(usize) -> !,
) -> Result<(), StartError> {
    let root = memory::TABLE.get().map_or(PhysAddr(0), |table| table.lock().root());
    arch::smp::start(CoreId(core as u8), entry, stack, core, root)
}

/// Doorbells of the fabric that every kernel listens to.
pub fn unmask_doorbells(blob: &Blob) {
    arch::irq::unmask(Vector(blob.vector_msg as u8));
    arch::irq::unmask(Vector(blob.vector_chip as u8));
    arch::irq::unmask(Vector(blob.vector_dsm as u8));
}
