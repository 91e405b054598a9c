//! The hooks that each core runs while it waits and when it releases locks (`arch::attend`).

use crate::kernel::{self, Kernel};
use crate::{hangs, idle};
use abi::boot::Blob;
use arch::attend::{self, Reason, Waits};
use arch::hold::HandlerScope;
use base::id::Vector;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_node::shootdown;
use kernel_platform::balloon;

/// Sets up hooks, TLB shootdown and attendance of this core, before it joins the scheduler.
pub fn up() {
    attend::install(serve_while_waiting);
    attend::install_stalled(hangs::stalled, hangs::resumed);
    attend::install_core_stalled(hangs::core_stalled);
    attend::install_seldom(hangs::look_for_demand);
    shootdown::core_started();
    if let Some(kernel) = kernel::get() {
        // On a board with one domain there is nothing to poll for.
        if kernel.peers.exist() {
            let ticks = arch::time::to_ticks(LOOK_EVERY_NS, arch::cpu::clock_hz());
            LOOK_EVERY.store(ticks, Ordering::Relaxed);
            attend::install_released(poll_after_release);
        } else {
            attend::set_reason(Reason::Messages, false);
            attend::install_released(look_at_memory);
        }
        kernel.attendance.enter(&kernel.own_page);
    }
}

/// Hook of a waiting core: serves TLB shootdowns and shared pages. It serves urgent messages only
/// if the core does not wait for a lock, because their handlers take locks. A root of
/// `tests/reach.toml`: it must neither allocate nor sleep.
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

/// How often a core that attends looks for messages when it releases locks: about as often as a
/// doorbell would have interrupted it instead. It releases many locks in that time, and each look
/// loads several words of the uncached window.
const LOOK_EVERY_NS: u64 = 5_000;

/// The same in ticks of a core's clock.
static LOOK_EVERY: AtomicU64 = AtomicU64::new(0);

/// Hook: this core has released its outermost lock. For a core that is away, senders ring the
/// doorbell; each other one looks once more before it sleeps or runs a program.
fn poll_after_release() {
    if idle::others_run()
        && let Some(kernel) = kernel::get()
        && kernel.attendance.must_look(LOOK_EVERY.load(Ordering::Relaxed))
    {
        poll(kernel);
    }
    look_at_memory();
}

#[inline(never)]
fn poll(kernel: &Kernel) {
    if kernel.peers.are_served() {
        // The lock may have been one in the step of a service, whose heap a request would outlive.
        let _own = HandlerScope::new();
        kernel.peers.poll(kernel);
    }
}

/// Wakes the balloon when memory is short. The whole hook where there are no other kernels.
#[inline]
fn look_at_memory() {
    if !attend::has_reason(Reason::Memory) {
        return;
    }
    // The reason is given after the memory is pressed.
    attend::set_reason(Reason::Memory, false);
    if balloon::was_pressed() {
        pressed();
    }
}

#[cold]
#[inline(never)]
fn pressed() {
    if let Some(kernel) = kernel::get()
        && let Some(balloons) = &kernel.balloons
    {
        balloons.pressed(kernel);
    }
}

/// Unmasks the doorbells that every kernel receives: messages, chip page, shared pages.
pub fn unmask_doorbells(blob: &Blob) {
    arch::irq::unmask(Vector(blob.vector_msg as u8));
    arch::irq::unmask(Vector(blob.vector_chip as u8));
    arch::irq::unmask(Vector(blob.vector_dsm as u8));
}
