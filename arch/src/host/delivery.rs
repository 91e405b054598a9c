//! How a simulated chip enters its kernel: faults and interrupts.

use super::frame::TrapFrame;
use super::machine;
use crate::handlers::Handlers;
use crate::types::Fault;

/// Handles a fault of the code that `frame` describes, as an exception does: with interrupts
/// masked. The caller continues at the frame's pc and sp. Returns false before the kernel has
/// installed its handlers.
pub fn fault(frame: &mut TrapFrame, fault: Fault) -> bool {
    let handlers: Option<&'static Handlers> = machine::handlers();
    let on = machine::set_irqs(false);
    if let Some(handlers) = handlers {
        (handlers.fault)(frame, fault);
    }
    machine::set_irqs(on);
    handlers.is_some()
}

/// Delivers pending interrupts, if they are unmasked. Called by the chip where it may interrupt the
/// kernel.
pub fn interrupt() {
    if machine::irqs_on() {
        machine::unmask();
    }
}
