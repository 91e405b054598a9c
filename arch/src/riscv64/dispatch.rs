//! From a trap to the kernel's handlers. Each entry takes one interrupt; others that are pending
//! trap again after `sret`.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::frame::TrapFrame;
use super::{cpu, irq, timer};
use crate::handlers::Handlers;
use crate::types::{Access, Fault, Interrupt};

static HANDLERS: AtomicPtr<Handlers> = AtomicPtr::new(null_mut());

/// Bit of scause that is set for interrupts.
const INTERRUPT: u64 = 1 << 63;

pub(super) fn set_handlers(handlers: &'static Handlers) {
    HANDLERS.store(core::ptr::from_ref(handlers).cast_mut(), Ordering::Relaxed);
}

fn handlers() -> Option<&'static Handlers> {
    // SAFETY: null, or the static that `set_handlers` was given, whose contents existed before any
    // code of this kernel ran, so no ordering is needed.
    unsafe { HANDLERS.load(Ordering::Relaxed).as_ref() }
}

pub(super) extern "C" fn trap_entry(frame: &mut TrapFrame) {
    let cause = frame.cause();
    if cause & INTERRUPT != 0 {
        let interrupt = acknowledge(cause & !INTERRUPT);
        if let Some(handlers) = handlers() {
            (handlers.interrupt)(interrupt, frame);
        }
        return;
    }
    match handlers() {
        Some(handlers) => (handlers.fault)(frame, classify(cause, frame.address())),
        None => cpu::halt(),
    }
}

fn acknowledge(cause: u64) -> Interrupt {
    match cause {
        5 => {
            timer::stop();
            Interrupt::Timer
        }
        9 => irq::claim(),
        _ => Interrupt::None,
    }
}

/// Classifies by exception code.
fn classify(cause: u64, address: u64) -> Fault {
    // An access fault (1, 5, 7) is the memory's; a page fault (12, 13, 15) is the page table's, or
    // that of an entry in the TLB, which may also be an invalid one.
    let page = |access| Fault::Page { address, access, is_cached: cause >= 12 };
    match cause {
        0 | 4 | 6 => Fault::Unaligned { address },
        1 | 12 => page(Access::Execute),
        5 | 13 => page(Access::Read),
        7 | 15 => page(Access::Write),
        2 => Fault::Illegal,
        3 => Fault::Breakpoint,
        _ => Fault::Other(cause),
    }
}
