//! From an exception to the kernel's handlers.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::frame::TrapFrame;
use super::{cpu, gic, timer};
use crate::handlers::Handlers;
use crate::types::{Access, Fault};

static HANDLERS: AtomicPtr<Handlers> = AtomicPtr::new(null_mut());

pub(super) fn set_handlers(handlers: &'static Handlers) {
    HANDLERS.store(core::ptr::from_ref(handlers).cast_mut(), Ordering::Relaxed);
}

fn handlers() -> Option<&'static Handlers> {
    // SAFETY: null, or the static that `set_handlers` was given, whose contents existed before any
    // code of this kernel ran, so no ordering is needed.
    unsafe { HANDLERS.load(Ordering::Relaxed).as_ref() }
}

/// Called by the IRQ vector.
pub(super) extern "C" fn interrupt_entry(frame: &mut TrapFrame) {
    let interrupt = gic::acknowledge(timer::stop);
    if let Some(handlers) = handlers() {
        (handlers.interrupt)(interrupt, frame);
    }
}

/// Called by all other vectors.
pub(super) extern "C" fn fault_entry(frame: &mut TrapFrame) {
    let fault = classify(frame.cause(), frame.address());
    match handlers() {
        Some(handlers) => (handlers.fault)(frame, fault),
        None => cpu::halt(),
    }
}

/// Classifies by exception class and, for aborts, by fault status.
fn classify(esr: u64, address: u64) -> Fault {
    let is_write = esr & 1 << 6 != 0;
    match esr >> 26 & 0x3f {
        0x00 | 0x0e => Fault::Illegal,
        0x20 | 0x21 => abort(esr, address, Access::Execute),
        0x24 | 0x25 => abort(esr, address, if is_write { Access::Write } else { Access::Read }),
        0x22 | 0x26 => Fault::Unaligned { address },
        0x3c => Fault::Breakpoint,
        _ => Fault::Other(esr),
    }
}

/// Fault status code of a permission fault, at level 0. Only an entry that causes one can be in a
/// TLB.
const PERMISSION: u64 = 0x0c;

fn abort(esr: u64, address: u64, access: Access) -> Fault {
    match esr & 0x3f {
        // Address size, translation, access flag and permission faults of any level.
        code @ 0x00..=0x0f => Fault::Page { address, access, is_cached: code >= PERMISSION },
        0x21 => Fault::Unaligned { address },
        _ => Fault::Other(esr),
    }
}
