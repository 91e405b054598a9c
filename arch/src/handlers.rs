//! The kernel's functions that the trap entry calls.

use crate::trap::TrapFrame;
use crate::types::{Fault, Interrupt};

/// The kernel's handlers. Both are called with interrupts masked.
pub struct Handlers {
    /// Called with the frame of the interrupted code. May switch threads; returns to that code, at
    /// the frame's pc, when its thread runs again.
    pub interrupt: fn(Interrupt, &mut TrapFrame),
    /// On return, execution resumes at the frame's pc, which the handler may change.
    pub fault: fn(&mut TrapFrame, Fault),
}
