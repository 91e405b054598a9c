//! The kernel's handlers and the vector that leads to them.

pub use super::frame::TrapFrame;
use super::registers::{set, write};
use super::{dispatch, vectors};
use crate::handlers::Handlers;

/// sie: supervisor timer and external interrupts.
const ENABLED: u64 = 1 << 5 | 1 << 9;

pub fn install(handlers: &'static Handlers) {
    dispatch::set_handlers(handlers);
    set_vector();
    // SAFETY: handlers and vector are in place; sstatus.SIE still masks interrupts.
    unsafe { set!("sie", ENABLED) };
}

pub(super) fn set_vector() {
    // SAFETY: the entry is complete and never changes; it is 4-aligned, which selects direct mode.
    unsafe { write!("stvec", &raw const vectors::trap_vector as u64) };
}
