//! The kernel's handlers and the vectors that lead to them.

use core::arch::asm;

pub use super::frame::TrapFrame;
use super::registers::write;
use super::{dispatch, vectors};
use crate::handlers::Handlers;

pub fn install(handlers: &'static Handlers) {
    dispatch::set_handlers(handlers);
    set_vectors();
}

/// Sets this core's vector table and unmasks system errors.
pub(super) fn set_vectors() {
    // SAFETY: the table is complete and never changes.
    unsafe {
        write!("vbar_el1", &raw const vectors::exception_vectors as u64);
        asm!("isb", "msr daifclr, #4", options(nostack));
    }
}
