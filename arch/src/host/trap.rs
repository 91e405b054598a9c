//! Nothing traps on a host; interrupts come from `machine`.

pub use super::frame::TrapFrame;
use crate::handlers::Handlers;

pub fn install(handlers: &'static Handlers) {
    super::machine::install(handlers);
}
